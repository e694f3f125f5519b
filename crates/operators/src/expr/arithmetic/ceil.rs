//! `$ceil`: the smallest integer not below a number, of the same type. Null and missing give null.
//! 28765 not a number. A decimal that is infinite or beyond 34 integer digits gives NaN, as in
//! MongoDB.

use super::require_number;
use crate::Cx;
use crate::expr::{Operator, unary};
use model::{Decimal128, Number, Result, Rounding, Value};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$ceil",
    parse: |cx, name, spec| unary(cx, name, spec, ceil),
}];

fn ceil<'a>(_: &Cx<'_, 'a>, v: Value<'a>) -> Result<Value<'a>> {
    if v.is_nullish() {
        return Ok(Value::Null);
    }
    Ok(match require_number("$ceil", &v)? {
        Number::Double(n) => Value::Double(n.ceil()),
        Number::Decimal(n) if n.is_infinite() => Value::Decimal128(Decimal128::NAN),
        Number::Decimal(n) => Value::Decimal128(n.to_integral(Rounding::Ceiling)),
        n => n.value(),
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::rows(&[
            (r#"{"$ceil": "$missing"}"#, "null null"),
            (r#"{"$ceil": [["x"]]}"#, "error 28765"),
            (r#"{"$ceil": -1.5}"#, "double -1.0"),
            (r#"{"$ceil": {"$numberDecimal": "-1.5"}}"#, "decimal -1"),
            (r#"{"$ceil": {"$numberDecimal": "1E+6144"}}"#, "decimal NaN"),
            (
                r#"{"$ceil": {"$numberDecimal": "-Infinity"}}"#,
                "decimal NaN",
            ),
            (r#"{"$ceil": {"$numberLong": "3"}}"#, "long 3"),
        ]);
    }
}
