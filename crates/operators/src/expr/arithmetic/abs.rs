//! `$abs`: magnitude of a number. int, long, double and decimal keep their type; the smallest int
//! gives a long. Null and missing give null. 28765 not a number, 28680 the smallest long, which has
//! no positive counterpart.

use super::require_number;
use crate::Cx;
use crate::expr::{Operator, unary};
use crate::numeric::int_or_long;
use model::{Number, Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$abs",
    parse: |cx, name, spec| unary(cx, name, spec, abs),
}];

fn abs<'a>(_: &Cx<'_, 'a>, v: Value<'a>) -> Result<Value<'a>> {
    if v.is_nullish() {
        return Ok(Value::Null);
    }
    Ok(match require_number("$abs", &v)? {
        Number::Int32(n) => int_or_long(i64::from(n).abs()),
        Number::Int64(n) => match n.checked_abs() {
            Some(n) => Value::Int64(n),
            None => bail!(28680, "can't take $abs of long long min"),
        },
        Number::Double(n) => Value::Double(n.abs()),
        Number::Decimal(n) => Value::Decimal128(n.abs()),
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::rows(&[
            (r#"{"$abs": "$missing"}"#, "null null"),
            (r#"{"$abs": "$n"}"#, "null null"),
            (r#"{"$abs": "$s"}"#, "error 28765"),
            (r#"{"$abs": [-2147483648]}"#, "long 2147483648"),
            (
                r#"{"$abs": {"$numberLong": "-9223372036854775808"}}"#,
                "error 28680",
            ),
            (r#"{"$abs": {"$numberDouble": "-0.0"}}"#, "double 0.0"),
            (r#"{"$abs": {"$numberDecimal": "-1.50"}}"#, "decimal 1.50"),
            (r#"{"$abs": [1, 2]}"#, "error 16020"),
        ]);
    }
}
