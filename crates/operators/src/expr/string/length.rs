//! `$strLenBytes` and `$strLenCP`: length of a string in bytes of UTF-8 and in code points. 34473 /
//! 34471 not a string, null and missing included.

use crate::Cx;
use crate::expr::{Operator, unary};
use model::{Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "$strLenBytes",
        parse: |cx, name, spec| unary(cx, name, spec, bytes),
    },
    Operator {
        name: "$strLenCP",
        parse: |cx, name, spec| unary(cx, name, spec, code_points),
    },
];

fn bytes<'a>(_: &Cx<'_, 'a>, v: Value<'a>) -> Result<Value<'a>> {
    let Value::String(s) = v else {
        bail!(
            34473,
            "$strLenBytes requires a string argument, found: \
        {}",
            v.type_name()
        )
    };
    Ok(Value::Int32(i32::try_from(s.len()).unwrap_or(i32::MAX)))
}

fn code_points<'a>(_: &Cx<'_, 'a>, v: Value<'a>) -> Result<Value<'a>> {
    let Value::String(s) = v else {
        bail!(
            34471,
            "$strLenCP requires a string argument, found: {}",
            v.type_name()
        )
    };
    Ok(Value::Int32(
        i32::try_from(s.chars().count()).unwrap_or(i32::MAX),
    ))
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::rows(&[
            (r#"{"$strLenBytes": "é"}"#, "int 2"),
            (r#"{"$strLenCP": "é"}"#, "int 1"),
            (r#"{"$strLenBytes": "$n"}"#, "error 34473"),
            (r#"{"$strLenCP": "$missing"}"#, "error 34471"),
            (r#"{"$strLenCP": ["a", "b"]}"#, "error 16020"),
        ]);
    }
}
