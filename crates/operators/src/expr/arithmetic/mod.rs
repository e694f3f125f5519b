//! Arithmetic on numbers (and dates in `$add` and `$subtract`). Null, undefined and missing
//! operands give null.

use model::{Decimal128, Number, Result, Value, bail};

crate::expr_family! {
    abs, add, ceil, divide, exp, floor, ln, log, log10, modulo, multiply, pow, round, sigmoid,
        sqrt, subtract, trunc,
}

/// The number in `v`.
///
/// # Errors
/// 28765, the common code of operators of one number.
fn require_number(name: &str, v: &Value<'_>) -> Result<Number> {
    match Number::of(v) {
        Some(n) => Ok(n),
        None => bail!(
            28765,
            "{name} only supports numeric types, not {}",
            v.type_name()
        ),
    }
}

/// Applies one function to doubles and another to decimals.
fn apply_by_type(
    n: Number,
    double: impl FnOnce(f64) -> f64,
    decimal: impl FnOnce(Decimal128) -> Decimal128,
) -> Value<'static> {
    match n {
        Number::Decimal(d) => Value::Decimal128(decimal(d)),
        other => Value::Double(double(other.to_f64())),
    }
}

/// True for a number at or below zero; false for NaN.
fn is_at_most_zero(n: Number) -> bool {
    !n.is_nan() && n.compare(&Number::Int32(0)).is_le()
}
