//! `$divide`: quotient of two numbers, a double, or a decimal when either is one. Null or missing
//! gives null. 14 not numbers, 2 division by zero.

use crate::Cx;
use crate::expr::{Operator, nary};
use model::{ErrorKind, MongoError, Number, Result, Value, bail, code};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$divide",
    parse: |cx, name, spec| nary(cx, name, spec, 2..=2, divide),
}];

fn divide<'a>(_: &Cx<'_, 'a>, v: &[Value<'a>]) -> Result<Value<'a>> {
    let [a, b] = v else { return Ok(Value::Null) };
    match (Number::of(a), Number::of(b)) {
        (Some(_), Some(y)) if y.compare(&Number::Int32(0)).is_eq() => {
            Err(MongoError::new(code::BAD_VALUE, "can't $divide by zero")
                .kind(ErrorKind::DivisionByZero))
        }
        (Some(x @ Number::Decimal(_)), Some(y)) | (Some(x), Some(y @ Number::Decimal(_))) => {
            Ok(Value::Decimal128(x.to_decimal() / y.to_decimal()))
        }
        (Some(x), Some(y)) => Ok(Value::Double(x.to_f64() / y.to_f64())),
        _ if a.is_nullish() || b.is_nullish() => Ok(Value::Null),
        _ => bail!(
            code::TYPE_MISMATCH,
            "$divide only supports numeric types, not {} and {}",
            a.type_name(),
            b.type_name()
        ),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::rows(&[
            (r#"{"$divide": [1, 4]}"#, "double 0.25"),
            (r#"{"$divide": [6, 3]}"#, "double 2.0"),
            (
                r#"{"$divide": [1, {"$numberDecimal": "4"}]}"#,
                "decimal 0.25",
            ),
            (r#"{"$divide": ["$missing", "$s"]}"#, "null null"),
            (r#"{"$divide": ["$s", 1]}"#, "error 14"),
            (r#"{"$divide": [1, {"$numberDouble": "-0.0"}]}"#, "error 2"),
            (r#"{"$divide": [1]}"#, "error 16020"),
        ]);
    }
}
