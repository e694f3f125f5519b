//! `$let`: `{vars, in}`; the values are computed outside of its scope, `in` sees all variables.
//! Errors: 16874 no document, 16875 unknown argument, 16876 / 16877 no `vars` / `in`, 10065 vars no
//! document, 9 bad name.

use crate::expr::args::missing_error;
use crate::expr::check_user_variable;
use crate::expr::{BoxExpr, Expr, Operator, ParseCx, parse};
use crate::{Cx, Frame, VarId};
use model::{Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$let",
    parse: parse_let,
}];

struct Let {
    vars: Vec<(VarId, BoxExpr)>,
    body: BoxExpr,
}

fn parse_let(cx: &mut ParseCx<'_>, name: &'static str, spec: Value<'_>) -> Result<BoxExpr> {
    let Value::Document(d) = spec else {
        bail!(
            16874,
            "{name} only supports an object as its argument, found {}",
            spec.type_name()
        );
    };
    if let Some((unknown, _)) = d.iter().find(|(n, _)| !["vars", "in"].contains(n)) {
        bail!(16875, "Unrecognized parameter to {name}: {unknown}");
    }
    let vars = d
        .get("vars")
        .ok_or_else(|| missing_error(16876, name, "vars"))?;
    let body = d
        .get("in")
        .ok_or_else(|| missing_error(16877, name, "in"))?;
    // An array is read as a document; its names are not allowed for variables.
    let vars = match vars {
        Value::Document(d) => d,
        Value::Array(a) => a.as_doc(),
        _ => bail!(
            10065,
            "invalid parameter: expected an object (vars), found {}",
            vars.type_name()
        ),
    };
    let mut values = Vec::new();
    for (var, v) in vars.iter() {
        check_user_variable(var)?;
        values.push((var, parse(cx, v)?));
    }
    cx.parse_scoped(|cx| {
        let vars = values
            .into_iter()
            .map(|(var, e)| (cx.define(var), e))
            .collect();
        Ok(Box::new(Let {
            vars,
            body: parse(cx, body)?,
        }) as BoxExpr)
    })
}

impl Expr for Let {
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let mut values = smallvec::SmallVec::<[(VarId, Value<'a>); 4]>::new();
        for (id, e) in &self.vars {
            values.push((*id, e.eval(cx)?));
        }
        bind(cx, &values, self.body.as_ref())
    }
    fn visit<'e>(&'e self, each: &mut dyn FnMut(&'e dyn Expr)) {
        self.vars.iter().for_each(|(_, e)| each(e.as_ref()));
        each(self.body.as_ref());
    }
}

/// Frames live on the stack, one per variable.
fn bind<'a>(
    cx: &Cx<'_, 'a>,
    values: &[(VarId, Value<'a>)],
    body: &'a dyn Expr,
) -> Result<Value<'a>> {
    match values.split_first() {
        None => body.eval(cx),
        Some(((id, value), rest)) => {
            let frame = Frame {
                id: *id,
                value: *value,
                outer: cx.vars,
            };
            bind(&cx.with_frame(&frame), rest, body)
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::table(&[
            (
                "{'$let': {'vars': {'x': '$a', 'y': 2}, 'in': ['$$x', '$$y']}}",
                "{'a': 1}",
                "[1, 2]",
            ),
            (
                "{'$let': {'vars': {'x': 1}, 'in': {'$let': {'vars': {'x': 2, 'y': '$$x'}, 'in': \
                ['$$x', '$$y']}}}}",
                "{}",
                "[2, 1]",
            ),
            (
                "{'$let': {'vars': {'CURRENT': '$a'}, 'in': '$b'}}",
                "{'a': {'b': 7}}",
                "7",
            ),
            (
                "{'$let': {'vars': {'x': '$none'}, 'in': '$$x'}}",
                "{}",
                "missing",
            ),
            ("{'$let': {'vars': {'X': 1}, 'in': 1}}", "{}", "!9"),
            ("{'$let': {'vars': {'x': 1}, 'in': '$$y'}}", "{}", "!17276"),
            ("{'$let': {'vars': 1, 'in': 1}}", "{}", "!10065"),
            ("{'$let': {'in': 1}}", "{}", "!16876"),
            ("{'$let': {'vars': {}}}", "{}", "!16877"),
            ("{'$let': {'vars': {}, 'in': 1, 'x': 1}}", "{}", "!16875"),
            ("{'$let': 1}", "{}", "!16874"),
            ("'$$'", "{}", "!9"),
        ]);
    }
}
