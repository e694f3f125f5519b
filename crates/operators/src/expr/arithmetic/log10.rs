//! `$log10`: the decimal logarithm of a number above 0: a double, or a decimal of a decimal. NaN is
//! always a double. Null and missing give null. 28765 not a number, 28761 not positive.

use super::{apply_by_type, is_at_most_zero, require_number};
use crate::Cx;
use crate::expr::{Operator, unary};
use model::{Decimal128, Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$log10",
    parse: |cx, name, spec| unary(cx, name, spec, log10),
}];

fn log10<'a>(_: &Cx<'_, 'a>, v: Value<'a>) -> Result<Value<'a>> {
    if v.is_nullish() {
        return Ok(Value::Null);
    }
    let n = require_number("$log10", &v)?;
    // Only positive decimals have a decimal logarithm.
    if n.is_nan() {
        return Ok(Value::Double(f64::NAN));
    }
    if is_at_most_zero(n) {
        bail!(
            28761,
            "$log10's argument must be a positive number, but is {}",
            v
        );
    }
    Ok(apply_by_type(n, f64::log10, Decimal128::log10))
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::rows(&[
            (r#"{"$log10": "$missing"}"#, "null null"),
            (r#"{"$log10": "$s"}"#, "error 28765"),
            (r#"{"$log10": 0}"#, "error 28761"),
            (r#"{"$log10": {"$numberDecimal": "-0"}}"#, "error 28761"),
            (r#"{"$log10": 1}"#, "double 0.0"),
            (r#"{"$log10": {"$numberDouble": "NaN"}}"#, "double nan"),
            (r#"{"$log10": {"$numberDecimal": "NaN"}}"#, "double nan"),
        ]);
    }
}
