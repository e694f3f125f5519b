//! `$setField`: `{field, input, value}` sets one field whose name may contain dots and dollars;
//! with `$$REMOVE` as value it removes the field, as `$unsetField`: `{field, input}` does. Null for
//! nullish input. Errors: 4161100 no document, 4161101 unknown argument, 4161102 / 4161103 /
//! 4161109 no `field` / `value` / `input`, 4161106 field not constant, 4161107 field no string,
//! 4161108 field a path, 9534700 field with a zero byte, 4161105 input no document.

use crate::Cx;
use crate::cx::bytes_of;
use crate::expr::args::missing_error;
use crate::expr::{BoxExpr, Constant, Expr, Operator, ParseCx, parse};
use model::{Doc, Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "$setField",
        parse: parse_field,
    },
    Operator {
        name: "$unsetField",
        parse: parse_field,
    },
];

struct SetField {
    name: &'static str,
    field: String,
    input: BoxExpr,
    value: BoxExpr,
}

fn parse_field(cx: &mut ParseCx<'_>, name: &'static str, spec: Value<'_>) -> Result<BoxExpr> {
    let Value::Document(d) = spec else {
        bail!(
            4161100,
            "{name} only supports an object as its argument, found {}",
            spec.type_name()
        );
    };
    let sets = name == "$setField";
    let (mut field, mut input, mut value) = (None, None, None);
    for (argument, v) in d.iter() {
        let parsed = |cx: &mut ParseCx<'_>| parse(cx, v).map(Some);
        match argument {
            "field" => {
                parse(cx, v)?;
                field = Some(v);
            }
            "input" => input = parsed(cx)?,
            "value" if sets => value = parsed(cx)?,
            _ => bail!(4161101, "{name} found an unknown argument: {argument}"),
        }
    }
    let field = field.ok_or_else(|| missing_error(4161102, name, "field"))?;
    if !sets {
        value = Some(Constant::new_boxed(Value::Missing));
    }
    let value = value.ok_or_else(|| missing_error(4161103, name, "value"))?;
    let input = input.ok_or_else(|| missing_error(4161109, name, "input"))?;
    Ok(Box::new(SetField {
        name,
        field: constant_name(name, field)?,
        input,
        value,
    }))
}

/// The field's name: only literal strings are accepted as constant, not other constant expressions.
fn constant_name(name: &str, field: Value<'_>) -> Result<String> {
    let literal = match field {
        Value::String(s) if s.starts_with('$') => {
            bail!(
                4161108,
                "A field path reference is not allowed as the 'field' argument of \
                {name}: '{s}'. Use a $literal for a name with a dollar sign"
            )
        }
        Value::Document(d) if !d.is_empty() => match d.first() {
            Some(("$literal" | "$const", v)) => v,
            _ => bail!(
                4161106,
                "{name} requires 'field' to evaluate to a constant, found {d}"
            ),
        },
        Value::Array(a) => bail!(
            4161106,
            "{name} requires 'field' to evaluate to a constant, \
            found {a}"
        ),
        v => v,
    };
    let Value::String(s) = literal else {
        bail!(
            4161107,
            "{name} requires 'field' to evaluate to type String, found {}",
            literal.type_name()
        );
    };
    if s.contains('\0') {
        bail!(9534700, "{name} requires 'field' without null bytes");
    }
    Ok(s.to_owned())
}

impl Expr for SetField {
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let input = match self.input.eval(cx)? {
            Value::Document(d) => d,
            v if v.is_nullish() => return Ok(Value::Null),
            v => bail!(
                4161105,
                "{} requires 'input' to evaluate to type Object, found {}",
                self.name,
                v.type_name()
            ),
        };
        let value = self.value.eval(cx)?;
        let name = self.field.as_bytes();
        cx.spend(input.len_bytes() + name.len() + bytes_of(&value))?;
        Ok(Value::Document(Doc::build_in(cx.arena, |w| {
            let mut found = false;
            for e in input.elements() {
                if e.name != name {
                    w.put_element(&e);
                } else {
                    w.put(&self.field, value);
                    found = true;
                }
            }
            if !found {
                w.put(&self.field, value);
            }
        })))
    }
    fn visit<'e>(&'e self, each: &mut dyn FnMut(&'e dyn Expr)) {
        each(self.input.as_ref());
        each(self.value.as_ref());
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::table(&[
            (
                "{'$setField': {'field': 'a.b', 'input': '$$ROOT', 'value': 2}}",
                "{'x': 1}",
                "{'x': 1, 'a.b': 2}",
            ),
            (
                "{'$setField': {'field': {'$literal': '$p'}, 'input': {}, 'value': 2}}",
                "{}",
                "{'$p': 2}",
            ),
            (
                "{'$setField': {'field': 'x', 'input': '$$ROOT', 'value': '$$REMOVE'}}",
                "{'x': 1, \
                'y': 2}",
                "{'y': 2}",
            ),
            (
                "{'$unsetField': {'field': 'x', 'input': '$$ROOT'}}",
                "{'x': 1, 'y': 2}",
                "{'y': 2}",
            ),
            (
                "{'$unsetField': {'field': 'x', 'input': '$none'}}",
                "{}",
                "null",
            ),
            (
                "{'$unsetField': {'field': 'x', 'input': 'y'}}",
                "{}",
                "!4161105",
            ),
            (
                "{'$unsetField': {'field': '$x', 'input': 'y'}}",
                "{}",
                "!4161108",
            ),
            (
                "{'$unsetField': {'field': ['x'], 'input': {}}}",
                "{}",
                "!4161106",
            ),
            (
                "{'$unsetField': {'field': 1, 'input': {}}}",
                "{}",
                "!4161107",
            ),
            (
                "{'$unsetField': {'field': {}, 'input': {}}}",
                "{}",
                "!4161107",
            ),
            (
                "{'$unsetField': {'field': 'x', 'input': {}, 'value': 1}}",
                "{}",
                "!4161101",
            ),
            ("{'$unsetField': {'input': {}}}", "{}", "!4161102"),
            (
                "{'$setField': {'field': 'x', 'input': {}}}",
                "{}",
                "!4161103",
            ),
            ("{'$unsetField': {'field': 'x'}}", "{}", "!4161109"),
            ("{'$setField': 'x'}", "{}", "!4161100"),
        ]);
    }
}
