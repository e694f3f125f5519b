//! `$round`: a number rounded to a decimal place (default 0, negative left of the point), ties to
//! the even digit. The type does not change, except that an int may widen to a long. Null and
//! missing give null. Errors: see [`round_number`].

use super::require_number;
use crate::Cx;
use crate::expr::{Operator, nary};
use crate::numeric::int_or_long;
use model::{Decimal128, Number, Result, Rounding, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$round",
    parse: |cx, name, spec| nary(cx, name, spec, 1..=2, round),
}];

fn round<'a>(_: &Cx<'_, 'a>, v: &[Value<'a>]) -> Result<Value<'a>> {
    round_number("$round", v, Rounding::HalfEven)
}

/// Rounds for `$round` and `$trunc`.
///
/// # Errors
/// 51081 not a number; for the place: 16004 not a number, 31109 a double that is no long, 51082 not
/// integral, 51083 not within -20 to 100; 51080 the result is no long.
pub(super) fn round_number<'a>(
    name: &str,
    v: &[Value<'a>],
    rounding: Rounding,
) -> Result<Value<'a>> {
    let Some(first) = v.first() else {
        return Ok(Value::Null);
    };
    if v.iter().any(Value::is_nullish) {
        return Ok(Value::Null);
    }
    let Ok(n) = require_number(name, first) else {
        bail!(
            51081,
            "{name} only supports numeric types, not {}",
            first.type_name()
        );
    };
    let place = v.get(1).map_or(Ok(0), |p| decimal_place(name, p))?;
    Ok(match n {
        Number::Int32(n) => int_or_long(round_integer(name, n.into(), place, rounding)?),
        Number::Int64(n) => Value::Int64(round_integer(name, n, place, rounding)?),
        Number::Double(x) => Value::Double(round_double(x, place, rounding)),
        Number::Decimal(d) => Value::Decimal128(round_decimal(d, place, rounding)),
    })
}

/// 2^63: doubles from here on do not fit a long.
const TWO_63: f64 = 9_223_372_036_854_775_808.0;

fn decimal_place(name: &str, v: &Value<'_>) -> Result<i32> {
    let Some(n) = Number::of(v) else {
        bail!(
            16004,
            "precision argument to {name} must be numeric, not {}",
            v.type_name()
        );
    };
    if matches!(n, Number::Double(x) if !(-TWO_63..TWO_63).contains(&x)) {
        bail!(31109, "Can't coerce out of range value {} to long", v);
    }
    let Some(place) = n.to_i64_exact() else {
        bail!(
            51082,
            "precision argument to {name} must be a integral value, but is {}",
            v
        );
    };
    match i32::try_from(place) {
        Ok(place) if (-20..=100).contains(&place) => Ok(place),
        _ => bail!(
            51083,
            "cannot apply {name} with precision value {place}, the value must be in \
            [-20, 100]"
        ),
    }
}

fn round_integer(name: &str, n: i64, place: i32, rounding: Rounding) -> Result<i64> {
    if place >= 0 {
        return Ok(n);
    }
    let unit = 10i128.pow(place.unsigned_abs());
    let (whole, rest) = (i128::from(n) / unit, i128::from(n) % unit);
    let up = rounding == Rounding::HalfEven
        && (rest.abs() * 2 > unit || rest.abs() * 2 == unit && whole % 2 != 0);
    let result = (whole + if up { rest.signum() } else { 0 }) * unit;
    match i64::try_from(result) {
        Ok(n) => Ok(n),
        Err(_) => bail!(
            51080,
            "invalid conversion from Decimal128 result in {name} resulting from \
            arguments: [{n}, {place}]"
        ),
    }
}

fn round_double(x: f64, place: i32, rounding: Rounding) -> f64 {
    if !x.is_finite() {
        return x;
    }
    if place == 0 {
        return if rounding == Rounding::Trunc {
            x.trunc()
        } else {
            x.round_ties_even()
        };
    }
    // Rounds the exact digits of the double; a place beyond them changes nothing.
    let exact = Decimal128::from_f64_exact34(x);
    let rounded = exact.quantize(-place, rounding);
    if rounded.is_nan() {
        x
    } else {
        rounded.to_f64()
    }
}

fn round_decimal(d: Decimal128, place: i32, rounding: Rounding) -> Decimal128 {
    let rounded = d.quantize(-place, rounding);
    if rounded.is_nan() { d } else { rounded }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::rows(&[
            (r#"{"$round": "$missing"}"#, "null null"),
            (r#"{"$round": [1.5, "$missing"]}"#, "null null"),
            (r#"{"$round": "$s"}"#, "error 51081"),
            (r#"{"$round": [1.5, "$s"]}"#, "error 16004"),
            (r#"{"$round": [1.5, 0.5]}"#, "error 51082"),
            (
                r#"{"$round": [1.5, {"$numberDouble": "NaN"}]}"#,
                "error 31109",
            ),
            (r#"{"$round": [1.5, 101]}"#, "error 51083"),
            (r#"{"$round": [1, 2, 3]}"#, "error 28667"),
            (r#"{"$round": 2.5}"#, "double 2.0"),
            (r#"{"$round": [1.005, 2]}"#, "double 1.0"),
            (r#"{"$round": [2147483647, -1]}"#, "long 2147483650"),
            (r#"{"$round": [25, -1]}"#, "int 20"),
            (
                r#"{"$round": [{"$numberLong": "9223372036854775807"}, -1]}"#,
                "error 51080",
            ),
            (
                r#"{"$round": [{"$numberDecimal": "0.65"}, 1]}"#,
                "decimal 0.6",
            ),
            (
                r#"{"$round": {"$numberDecimal": "1E+6144"}}"#,
                "decimal 1.000000000000000000000000000000000E+6144",
            ),
        ]);
    }
}
