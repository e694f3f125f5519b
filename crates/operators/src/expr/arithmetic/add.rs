//! `$add`: sum of numbers, or of one date and numbers (milliseconds). The sum has the widest type
//! of the operands; integers widen instead of overflowing. Evaluation stops at the first null or
//! missing operand and gives null. 16612 a second date, 14 any other type, 15 a date out of range.

use crate::Cx;
use crate::expr::{Operator, nary};
use crate::numeric::NumberSum;
use model::{MongoError, Number, Result, Value, bail, code};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$add",
    parse: |cx, name, spec| nary(cx, name, spec, 0..=usize::MAX, add),
}];

fn add<'a>(_: &Cx<'_, 'a>, operands: &[Value<'a>]) -> Result<Value<'a>> {
    let (mut sum, mut date) = (NumberSum::default(), None);
    for v in operands {
        match v {
            v if v.is_nullish() => return Ok(Value::Null),
            Value::Date(_) if date.is_some() => bail!(
                16612,
                "only one date allowed in an $add \
                expression"
            ),
            Value::Date(ms) => date = Some(*ms),
            v => match Number::of(v) {
                Some(n) => sum.add(n),
                None => bail!(
                    code::TYPE_MISMATCH,
                    "$add only supports numeric or date types, not {}",
                    v.type_name()
                ),
            },
        }
    }
    match date {
        None => Ok(sum.value()),
        Some(ms) => sum
            .to_i64()
            .and_then(|n| n.checked_add(ms))
            .map(Value::Date)
            .ok_or_else(|| MongoError::new(code::OVERFLOW, "date overflow in $add")),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::rows(&[
            (r#"{"$add": []}"#, "int 0"),
            (r#"{"$add": [2147483647, 1]}"#, "long 2147483648"),
            (
                r#"{"$add": [{"$numberLong": "9223372036854775807"}, 1]}"#,
                "double 9.223372036854776e18",
            ),
            (r#"{"$add": ["$missing", "$s"]}"#, "null null"),
            (r#"{"$add": ["$s", "$missing"]}"#, "error 14"),
            (
                r#"{"$add": [{"$date": {"$numberLong": "5"}}, 1.5]}"#,
                "date new Date(7)",
            ),
            (r#"{"$add": [{"$date": 5}, {"$date": 6}]}"#, "error 16612"),
            (
                r#"{"$add": [{"$date": 5}, {"$numberLong": "9223372036854775807"}]}"#,
                "error 15",
            ),
            (
                r#"{"$add": [1, {"$numberDecimal": "2.50"}]}"#,
                "decimal 3.50",
            ),
        ]);
    }
}
