//! `$exp`: e to the power of a number: a double, or a decimal for a decimal. Null and missing give
//! null. 28765 not a number.

use super::{apply_by_type, require_number};
use crate::Cx;
use crate::expr::{Operator, unary};
use model::{Decimal128, Result, Value};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$exp",
    parse: |cx, name, spec| unary(cx, name, spec, exp),
}];

fn exp<'a>(_: &Cx<'_, 'a>, v: Value<'a>) -> Result<Value<'a>> {
    if v.is_nullish() {
        return Ok(Value::Null);
    }
    Ok(apply_by_type(
        require_number("$exp", &v)?,
        f64::exp,
        Decimal128::exp,
    ))
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::rows(&[
            (r#"{"$exp": "$missing"}"#, "null null"),
            (r#"{"$exp": "$s"}"#, "error 28765"),
            (r#"{"$exp": 0}"#, "double 1.0"),
            (r#"{"$exp": {"$numberDecimal": "0"}}"#, "decimal 1"),
            (r#"{"$exp": 1000}"#, "double inf"),
        ]);
    }
}
