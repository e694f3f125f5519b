//! `$log`: logarithm of a positive number to a positive base other than one: a double, or a decimal
//! when either is one (NaN is always a double). Null and missing give null. 28756 / 28757 argument
//! / base not a number, 28758 / 28759 argument / base out of range.

use super::is_at_most_zero;
use crate::Cx;
use crate::expr::{Operator, nary};
use model::{Number, Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$log",
    parse: |cx, name, spec| nary(cx, name, spec, 2..=2, log),
}];

fn log<'a>(_: &Cx<'_, 'a>, v: &[Value<'a>]) -> Result<Value<'a>> {
    let [argument, base] = v else {
        return Ok(Value::Null);
    };
    if argument.is_nullish() || base.is_nullish() {
        return Ok(Value::Null);
    }
    let Some(x) = Number::of(argument) else {
        bail!(
            28756,
            "$log's argument must be numeric, not {}",
            argument.type_name()
        );
    };
    let Some(b) = Number::of(base) else {
        bail!(
            28757,
            "$log's base must be numeric, not {}",
            base.type_name()
        )
    };
    if x.is_nan() || b.is_nan() {
        return Ok(Value::Double(f64::NAN));
    }
    if is_at_most_zero(x) {
        bail!(
            28758,
            "$log's argument must be a positive number, but is {}",
            argument
        );
    }
    if is_at_most_zero(b) || b.compare(&Number::Int32(1)).is_eq() {
        bail!(
            28759,
            "$log's base must be a positive number not equal to 1, but is {}",
            base
        );
    }
    Ok(match (x, b) {
        (Number::Decimal(_), _) | (_, Number::Decimal(_)) => {
            Value::Decimal128(x.to_decimal().ln() / b.to_decimal().ln())
        }
        _ => Value::Double(x.to_f64().ln() / b.to_f64().ln()),
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::rows(&[
            (r#"{"$log": ["$missing", 0]}"#, "null null"),
            (r#"{"$log": ["$s", 10]}"#, "error 28756"),
            (r#"{"$log": [10, "$s"]}"#, "error 28757"),
            (r#"{"$log": [0, 10]}"#, "error 28758"),
            (r#"{"$log": [10, 1]}"#, "error 28759"),
            (r#"{"$log": [8, 2]}"#, "double 3.0"),
            (
                r#"{"$log": [{"$numberDecimal": "64"}, 2]}"#,
                "decimal 5.999999999999999999999999999999999",
            ),
            (r#"{"$log": [{"$numberDecimal": "NaN"}, 2]}"#, "double nan"),
        ]);
    }
}
