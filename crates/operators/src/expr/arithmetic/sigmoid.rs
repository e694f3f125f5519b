//! `$sigmoid`: 1 / (1 + e^-x): a double, or a decimal for a decimal. Null and missing give null. 14
//! not a number, also for an array: an array is the operand itself, not a list of operands.

use super::apply_by_type;
use crate::Cx;
use crate::expr::{Operator, parse, unary_of};
use model::{Decimal128, Number, Result, Value, bail, code};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$sigmoid",
    parse: |cx, _, spec| Ok(unary_of(parse(cx, spec)?, sigmoid)),
}];

fn sigmoid<'a>(_: &Cx<'_, 'a>, v: Value<'a>) -> Result<Value<'a>> {
    if v.is_nullish() {
        return Ok(Value::Null);
    }
    let Some(n) = Number::of(&v) else {
        bail!(
            code::TYPE_MISMATCH,
            "$sigmoid only supports numeric types, not {}",
            v.type_name()
        );
    };
    let one = Decimal128::from_i64(1);
    Ok(apply_by_type(
        n,
        |x| 1.0 / (1.0 + (-x).exp()),
        |d| one / (one + (-d).exp()),
    ))
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::rows(&[
            (r#"{"$sigmoid": "$missing"}"#, "null null"),
            (r#"{"$sigmoid": "$s"}"#, "error 14"),
            (r#"{"$sigmoid": [1]}"#, "error 14"),
            (r#"{"$sigmoid": 0}"#, "double 0.5"),
            (r#"{"$sigmoid": {"$numberDecimal": "0"}}"#, "decimal 0.5"),
        ]);
    }
}
