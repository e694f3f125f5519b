//! `$floor`: the largest integer not above a number, of the same type. Null and missing give null.
//! 28765 not a number. A decimal that is infinite or beyond 34 integer digits gives NaN, as in
//! MongoDB.

use super::require_number;
use crate::Cx;
use crate::expr::{Operator, unary};
use model::{Decimal128, Number, Result, Rounding, Value};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$floor",
    parse: |cx, name, spec| unary(cx, name, spec, floor),
}];

fn floor<'a>(_: &Cx<'_, 'a>, v: Value<'a>) -> Result<Value<'a>> {
    if v.is_nullish() {
        return Ok(Value::Null);
    }
    Ok(match require_number("$floor", &v)? {
        Number::Double(n) => Value::Double(n.floor()),
        Number::Decimal(n) if n.is_infinite() => Value::Decimal128(Decimal128::NAN),
        Number::Decimal(n) => Value::Decimal128(n.to_integral(Rounding::Floor)),
        n => n.value(),
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::rows(&[
            (r#"{"$floor": "$missing"}"#, "null null"),
            (r#"{"$floor": [["x"]]}"#, "error 28765"),
            (r#"{"$floor": -1.5}"#, "double -2.0"),
            (r#"{"$floor": {"$numberDecimal": "-1.5"}}"#, "decimal -2"),
            (
                r#"{"$floor": {"$numberDecimal": "1E+6144"}}"#,
                "decimal NaN",
            ),
            (
                r#"{"$floor": {"$numberDecimal": "-Infinity"}}"#,
                "decimal NaN",
            ),
            (r#"{"$floor": {"$numberLong": "3"}}"#, "long 3"),
        ]);
    }
}
