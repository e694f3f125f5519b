//! `$sqrt`: square root of a number that is not negative: a double, or a decimal for a decimal.
//! Null and missing give null. 28765 not a number, 28714 negative.

use super::{apply_by_type, require_number};
use crate::Cx;
use crate::expr::{Operator, unary};
use model::{Decimal128, Number, Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$sqrt",
    parse: |cx, name, spec| unary(cx, name, spec, sqrt),
}];

fn sqrt<'a>(_: &Cx<'_, 'a>, v: Value<'a>) -> Result<Value<'a>> {
    if v.is_nullish() {
        return Ok(Value::Null);
    }
    let n = require_number("$sqrt", &v)?;
    if !n.is_nan() && n.compare(&Number::Int32(0)).is_lt() {
        bail!(28714, "$sqrt's argument must be greater than or equal to 0");
    }
    Ok(apply_by_type(n, f64::sqrt, Decimal128::sqrt))
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::rows(&[
            (r#"{"$sqrt": "$missing"}"#, "null null"),
            (r#"{"$sqrt": "$s"}"#, "error 28765"),
            (r#"{"$sqrt": -1}"#, "error 28714"),
            (r#"{"$sqrt": 9}"#, "double 3.0"),
            (r#"{"$sqrt": {"$numberDecimal": "4"}}"#, "decimal 2"),
            (r#"{"$sqrt": {"$numberDouble": "-0.0"}}"#, "double -0.0"),
        ]);
    }
}
