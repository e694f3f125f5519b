//! `$pow`: a number to a power. The result of integers is an integer if it is whole and fits, else
//! a double; a decimal operand gives a decimal. Null and missing give null. 28762 / 28763 base /
//! exponent not a number, 28764 zero to a negative power.

use crate::Cx;
use crate::expr::{Operator, nary};
use crate::numeric::int_or_long;
use model::{Number, Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$pow",
    parse: |cx, name, spec| nary(cx, name, spec, 2..=2, pow),
}];

fn pow<'a>(_: &Cx<'_, 'a>, v: &[Value<'a>]) -> Result<Value<'a>> {
    let [base, exponent] = v else {
        return Ok(Value::Null);
    };
    if base.is_nullish() || exponent.is_nullish() {
        return Ok(Value::Null);
    }
    let Some(x) = Number::of(base) else {
        bail!(
            28762,
            "$pow's base must be numeric, not {}",
            base.type_name()
        )
    };
    let Some(y) = Number::of(exponent) else {
        bail!(
            28763,
            "$pow's exponent must be numeric, not {}",
            exponent.type_name()
        );
    };
    let zero = Number::Int32(0);
    if x.compare(&zero).is_eq() && !y.is_nan() && y.compare(&zero).is_lt() {
        bail!(
            28764,
            "$pow cannot take a base of 0 and a negative exponent"
        );
    }
    Ok(match (x, y) {
        (Number::Decimal(_), _) | (_, Number::Decimal(_)) => {
            Value::Decimal128(x.to_decimal().pow(y.to_decimal()))
        }
        (Number::Double(_), _) | (_, Number::Double(_)) => {
            Value::Double(x.to_f64().powf(y.to_f64()))
        }
        (Number::Int32(x), Number::Int32(y)) => match integer_power(x.into(), y.into()) {
            Some(n) => int_or_long(n),
            None => Value::Double(f64::from(x).powf(f64::from(y))),
        },
        _ => match x
            .to_i64_exact()
            .zip(y.to_i64_exact())
            .and_then(|(x, y)| integer_power(x, y))
        {
            Some(n) => Value::Int64(n),
            None => Value::Double(x.to_f64().powf(y.to_f64())),
        },
    })
}

/// The exact power, when it is an integer that fits.
fn integer_power(base: i64, exponent: i64) -> Option<i64> {
    match base {
        1 => Some(1),
        -1 => Some(if exponent % 2 == 0 { 1 } else { -1 }),
        _ if exponent < 0 => None,
        0 if exponent > 0 => Some(0),
        _ => base.checked_pow(u32::try_from(exponent).ok()?),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::rows(&[
            (r#"{"$pow": ["$missing", "$s"]}"#, "null null"),
            (r#"{"$pow": ["$s", 1]}"#, "error 28762"),
            (r#"{"$pow": [1, "$s"]}"#, "error 28763"),
            (r#"{"$pow": [0, -1]}"#, "error 28764"),
            (r#"{"$pow": [2, -1]}"#, "double 0.5"),
            (r#"{"$pow": [-1, -3]}"#, "int -1"),
            (r#"{"$pow": [2, 31]}"#, "long 2147483648"),
            (r#"{"$pow": [2, 63]}"#, "double 9.223372036854776e18"),
            (r#"{"$pow": [2, {"$numberLong": "3"}]}"#, "long 8"),
            (
                r#"{"$pow": [0, {"$numberLong": "9223372036854775807"}]}"#,
                "long 0",
            ),
            (r#"{"$pow": [0, 0]}"#, "int 1"),
            (
                r#"{"$pow": [{"$numberDecimal": "2"}, 3]}"#,
                "decimal 8.000000000000000000000000000000000",
            ),
        ]);
    }
}
