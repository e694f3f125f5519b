//! `$ln`: the natural logarithm of a positive number: a double, or a decimal for a decimal. NaN is
//! always a double. Null and missing give null. 28765 not a number, 28766 not positive.

use super::{apply_by_type, is_at_most_zero, require_number};
use crate::Cx;
use crate::expr::{Operator, unary};
use model::{Decimal128, Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$ln",
    parse: |cx, name, spec| unary(cx, name, spec, ln),
}];

fn ln<'a>(_: &Cx<'_, 'a>, v: Value<'a>) -> Result<Value<'a>> {
    if v.is_nullish() {
        return Ok(Value::Null);
    }
    let n = require_number("$ln", &v)?;
    // Only positive decimals have a decimal logarithm.
    if n.is_nan() {
        return Ok(Value::Double(f64::NAN));
    }
    if is_at_most_zero(n) {
        bail!(
            28766,
            "$ln's argument must be a positive number, but is {}",
            v
        );
    }
    Ok(apply_by_type(n, f64::ln, Decimal128::ln))
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::rows(&[
            (r#"{"$ln": "$missing"}"#, "null null"),
            (r#"{"$ln": "$s"}"#, "error 28765"),
            (r#"{"$ln": 0}"#, "error 28766"),
            (r#"{"$ln": {"$numberDecimal": "-0"}}"#, "error 28766"),
            (r#"{"$ln": 1}"#, "double 0.0"),
            (r#"{"$ln": {"$numberDouble": "NaN"}}"#, "double nan"),
            (r#"{"$ln": {"$numberDecimal": "NaN"}}"#, "double nan"),
        ]);
    }
}
