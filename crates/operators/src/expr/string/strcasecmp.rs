//! `$strcasecmp`: -1, 0 or 1 when the first operand's text is below, equal to or above the
//! second's, ignoring the case of ASCII letters. Operands are coerced to text. 16007 not coercible.

use crate::Cx;
use crate::expr::{Operator, nary};
use model::{Result, Value};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$strcasecmp",
    parse: |cx, name, spec| nary(cx, name, spec, 2..=2, strcasecmp),
}];

fn strcasecmp<'a>(cx: &Cx<'_, 'a>, v: &[Value<'a>]) -> Result<Value<'a>> {
    let [a, b] = v else { return Ok(Value::Null) };
    let (a, b) = (super::coerce(cx.arena, a)?, super::coerce(cx.arena, b)?);
    let upper = |s: &'a str| s.bytes().map(|c| c.to_ascii_uppercase());
    Ok(Value::Int32(upper(a).cmp(upper(b)) as i32))
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::rows(&[
            (r#"{"$strcasecmp": ["aB", "Ab"]}"#, "int 0"),
            (r#"{"$strcasecmp": ["$missing", "a"]}"#, "int -1"),
            (r#"{"$strcasecmp": ["b", "$n"]}"#, "int 1"),
            (r#"{"$strcasecmp": ["_", "a"]}"#, "int 1"),
            (r#"{"$strcasecmp": ["a", "$arr"]}"#, "error 16007"),
            (r#"{"$strcasecmp": ["a"]}"#, "error 16020"),
        ]);
    }
}
