//! `$getField`: one field by its literal name: `name` or `{field, input}`. Missing when the input
//! is no document, null when it is null. Errors: 3041701 unknown argument, 3041702 / 3041703 no
//! `field` / `input`, 3041704 field no string.

use crate::Cx;
use crate::expr::args::missing_error;
use crate::expr::{BoxExpr, Expr, Operator, ParseCx, VarPath, parse};
use model::{Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$getField",
    parse: parse_get,
}];

struct GetField {
    field: BoxExpr,
    input: BoxExpr,
}

fn parse_get(cx: &mut ParseCx<'_>, name: &'static str, spec: Value<'_>) -> Result<BoxExpr> {
    let arguments = match spec {
        Value::Document(d) if d.first().is_none_or(|(n, _)| !n.starts_with('$')) => d,
        short => {
            let id = cx.scope.find("CURRENT");
            return build(GetField {
                field: parse(cx, short)?,
                input: Box::new(VarPath { id, path: None }),
            });
        }
    };
    let (mut field, mut input) = (None, None);
    for (argument, v) in arguments.iter() {
        match argument {
            "field" => field = Some(parse(cx, v)?),
            "input" => input = Some(parse(cx, v)?),
            _ => bail!(3041701, "{name} found an unknown argument: {argument}"),
        }
    }
    let field = field.ok_or_else(|| missing_error(3041702, name, "field"))?;
    let input = input.ok_or_else(|| missing_error(3041703, name, "input"))?;
    build(GetField { field, input })
}

/// A constant name is checked before any document is read.
fn build(get: GetField) -> Result<BoxExpr> {
    if let Some(v) = get.field.constant() {
        name_of(v)?;
    }
    Ok(Box::new(get))
}

fn name_of<'a>(v: Value<'a>) -> Result<&'a str> {
    match v {
        Value::String(s) => Ok(s),
        v => bail!(
            3041704,
            "$getField requires 'field' to evaluate to type String, but got {}",
            v.type_name()
        ),
    }
}

impl Expr for GetField {
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let name = name_of(self.field.eval(cx)?)?;
        Ok(match self.input.eval(cx)? {
            Value::Document(d) => d.field(name),
            Value::Null | Value::Undefined => Value::Null,
            _ => Value::Missing,
        })
    }
    fn visit<'e>(&'e self, each: &mut dyn FnMut(&'e dyn Expr)) {
        each(self.field.as_ref());
        each(self.input.as_ref());
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::table(&[
            ("{'$getField': 'a.b'}", "{'a.b': 1}", "1"),
            (
                "{'$getField': {'field': {'$literal': '$x'}, 'input': '$a'}}",
                "{'a': {'$x': 1}}",
                "1",
            ),
            (
                "{'$getField': {'field': '$f', 'input': '$$ROOT'}}",
                "{'f': 'k', 'k': 2}",
                "2",
            ),
            ("{'$getField': {'field': 'a', 'input': null}}", "{}", "null"),
            (
                "{'$getField': {'field': 'a', 'input': '$none'}}",
                "{}",
                "missing",
            ),
            (
                "{'$getField': {'field': 'a', 'input': [{'a': 1}]}}",
                "{}",
                "missing",
            ),
            (
                "{'$getField': {'field': '$none', 'input': {}}}",
                "{}",
                "!3041704",
            ),
            ("{'$getField': {'$literal': 1}}", "{}", "!3041704"),
            (
                "{'$getField': {'field': 'a', 'input': {}, 'x': 1}}",
                "{}",
                "!3041701",
            ),
            ("{'$getField': {}}", "{}", "!3041702"),
            ("{'$getField': {'field': 'a'}}", "{}", "!3041703"),
        ]);
    }
}
