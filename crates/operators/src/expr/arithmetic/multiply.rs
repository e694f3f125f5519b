//! `$multiply`: product of numbers, typed by the widest; ints widen to long and longs to double
//! instead of overflowing. Evaluation stops at the first null or missing operand and gives null. 14
//! not a number.

use crate::Cx;
use crate::expr::{Operator, nary};
use crate::numeric::int_or_long;
use model::{Number, Result, Value, bail, code};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$multiply",
    parse: |cx, name, spec| nary(cx, name, spec, 0..=usize::MAX, multiply),
}];

fn multiply<'a>(_: &Cx<'_, 'a>, operands: &[Value<'a>]) -> Result<Value<'a>> {
    let mut product = Number::Int32(1);
    for v in operands {
        if v.is_nullish() {
            return Ok(Value::Null);
        }
        let Some(n) = Number::of(v) else {
            bail!(
                code::TYPE_MISMATCH,
                "$multiply only supports numeric types, not {}",
                v.type_name()
            );
        };
        product = times(product, n);
    }
    // Intermediate products of ints may have been longs; the final product decides the type.
    Ok(match product {
        Number::Int64(n) if operands.iter().all(|v| matches!(v, Value::Int32(_))) => int_or_long(n),
        n => n.value(),
    })
}

fn times(a: Number, b: Number) -> Number {
    match (a, b) {
        (Number::Decimal(_), _) | (_, Number::Decimal(_)) => {
            Number::Decimal(a.to_decimal() * b.to_decimal())
        }
        (Number::Double(_), _) | (_, Number::Double(_)) => Number::Double(a.to_f64() * b.to_f64()),
        (Number::Int32(x), Number::Int32(y)) => match x.checked_mul(y) {
            Some(n) => Number::Int32(n),
            None => Number::Int64(i64::from(x) * i64::from(y)),
        },
        _ => match (a.to_i64_exact(), b.to_i64_exact()) {
            (Some(x), Some(y)) => x
                .checked_mul(y)
                .map_or_else(|| Number::Double(x as f64 * y as f64), Number::Int64),
            _ => Number::Double(a.to_f64() * b.to_f64()),
        },
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::rows(&[
            (r#"{"$multiply": []}"#, "int 1"),
            (r#"{"$multiply": ["$missing", "$s"]}"#, "null null"),
            (r#"{"$multiply": [2, "$s"]}"#, "error 14"),
            (r#"{"$multiply": [65536, 65536]}"#, "long 4294967296"),
            (r#"{"$multiply": [65536, 65536, 0]}"#, "int 0"),
            (
                r#"{"$multiply": [{"$numberLong": "9223372036854775807"}, 2]}"#,
                "double 1.8446744073709552e19",
            ),
            (
                r#"{"$multiply": [1.5, {"$numberDecimal": "2.0"}]}"#,
                "decimal 3.000000000000000",
            ),
        ]);
    }
}
