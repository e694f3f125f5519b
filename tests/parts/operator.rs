//! `$toyTwice`: a number and itself. Null and missing give null. 28765 not a number.

use super::require_number;
use crate::Cx;
use crate::expr::{Operator, unary};
use model::{Result, Value};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$toyTwice",
    parse: |cx, name, spec| unary(cx, name, spec, double),
}];

fn double<'a>(_: &Cx<'_, 'a>, v: Value<'a>) -> Result<Value<'a>> {
    if v.is_nullish() {
        return Ok(Value::Null);
    }
    let number = require_number("$toyTwice", &v)?;
    Ok(Value::Double(2.0 * number.to_f64()))
}
