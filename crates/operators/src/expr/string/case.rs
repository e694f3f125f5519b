//! `$toLower` and `$toUpper`: ASCII letters in the other case, all other characters unchanged.
//! Operands are coerced to text (null and missing to the empty string). 16007 not coercible.

use crate::Cx;
use crate::expr::{Operator, unary};
use model::{Result, Value};

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "$toLower",
        parse: |cx, name, spec| unary(cx, name, spec, lower),
    },
    Operator {
        name: "$toUpper",
        parse: |cx, name, spec| unary(cx, name, spec, upper),
    },
];

fn lower<'a>(cx: &Cx<'_, 'a>, v: Value<'a>) -> Result<Value<'a>> {
    let s = super::coerce(cx.arena, &v)?;
    let copy = cx.arena.alloc_str(s);
    copy.make_ascii_lowercase();
    Ok(Value::String(copy))
}

fn upper<'a>(cx: &Cx<'_, 'a>, v: Value<'a>) -> Result<Value<'a>> {
    let s = super::coerce(cx.arena, &v)?;
    let copy = cx.arena.alloc_str(s);
    copy.make_ascii_uppercase();
    Ok(Value::String(copy))
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::rows(&[
            (r#"{"$toUpper": "$missing"}"#, "string \"\""),
            (r#"{"$toUpper": "aé"}"#, "string \"Aé\""),
            (r#"{"$toLower": ["AB"]}"#, "string \"ab\""),
            (r#"{"$toLower": 1000000.0}"#, "string \"1e+06\""),
            (r#"{"$toLower": "$arr"}"#, "error 16007"),
        ]);
    }
}
