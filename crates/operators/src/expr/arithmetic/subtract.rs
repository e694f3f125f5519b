//! `$subtract`: difference of two numbers (typed by the wider; integers widen instead of
//! overflowing), of two dates (long milliseconds), or of a date and a number of milliseconds. Null
//! and missing give null. 14 other types, 15 a date out of range.

use crate::Cx;
use crate::expr::{Operator, nary};
use crate::numeric::int_or_long;
use model::{MongoError, Number, Result, Rounding, Value, bail, code};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$subtract",
    parse: |cx, name, spec| nary(cx, name, spec, 2..=2, subtract),
}];

fn subtract<'a>(_: &Cx<'_, 'a>, v: &[Value<'a>]) -> Result<Value<'a>> {
    let [a, b] = v else { return Ok(Value::Null) };
    if a.is_nullish() || b.is_nullish() {
        return Ok(Value::Null);
    }
    let overflow = || MongoError::new(code::OVERFLOW, "date overflow in $subtract");
    match (a, b, Number::of(a), Number::of(b)) {
        (_, _, Some(x), Some(y)) => Ok(difference(x, y)),
        (Value::Date(x), Value::Date(y), _, _) => {
            x.checked_sub(*y).map(Value::Int64).ok_or_else(overflow)
        }
        (Value::Date(x), _, _, Some(y)) => millis(y)
            .and_then(|ms| x.checked_sub(ms))
            .map(Value::Date)
            .ok_or_else(overflow),
        _ => bail!(
            code::TYPE_MISMATCH,
            "can't $subtract {} from {}",
            b.type_name(),
            a.type_name()
        ),
    }
}

/// Whole milliseconds: doubles round halves away from zero, decimals to even.
fn millis(n: Number) -> Option<i64> {
    match n {
        Number::Double(x) => Number::Double(x.round()).to_i64_exact(),
        Number::Decimal(d) => d.to_i64(Rounding::HalfEven),
        n => n.to_i64_exact(),
    }
}

fn difference(x: Number, y: Number) -> Value<'static> {
    match (x, y) {
        (Number::Decimal(_), _) | (_, Number::Decimal(_)) => {
            Value::Decimal128(x.to_decimal() - y.to_decimal())
        }
        (Number::Double(_), _) | (_, Number::Double(_)) => Value::Double(x.to_f64() - y.to_f64()),
        (Number::Int32(x), Number::Int32(y)) => int_or_long(i64::from(x) - i64::from(y)),
        _ => match x
            .to_i64_exact()
            .zip(y.to_i64_exact())
            .and_then(|(x, y)| x.checked_sub(y))
        {
            Some(n) => Value::Int64(n),
            None => Value::Double(x.to_f64() - y.to_f64()),
        },
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::rows(&[
            (r#"{"$subtract": ["$missing", "$s"]}"#, "null null"),
            (r#"{"$subtract": ["$s", 1]}"#, "error 14"),
            (r#"{"$subtract": [1, {"$date": 5}]}"#, "error 14"),
            (r#"{"$subtract": [-2147483648, 1]}"#, "long -2147483649"),
            (
                r#"{"$subtract": [{"$numberLong": "-9223372036854775808"}, 1]}"#,
                "double -9.223372036854776e18",
            ),
            (r#"{"$subtract": [{"$date": 5}, {"$date": 7}]}"#, "long -2"),
            (r#"{"$subtract": [{"$date": 5}, 2.5]}"#, "date new Date(2)"),
            (
                r#"{"$subtract": [{"$date": 5}, {"$numberDecimal": "2.5"}]}"#,
                "date new Date(3)",
            ),
            (
                r#"{"$subtract": [{"$date": 5}, {"$numberDouble": "NaN"}]}"#,
                "error 15",
            ),
            (
                r#"{"$subtract": [{"$numberDecimal": "1.50"}, 1]}"#,
                "decimal 0.50",
            ),
        ]);
    }
}
