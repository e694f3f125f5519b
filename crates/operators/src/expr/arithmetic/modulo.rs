//! `$mod`: remainder of a division rounded towards zero, with the sign of the dividend. int, long,
//! double, decimal by the widest operand. Null and missing give null. 16611 not numbers, 16610
//! division by zero, 5733415 the same with a decimal.

use crate::Cx;
use crate::expr::{Operator, nary};
use model::{Number, Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$mod",
    parse: |cx, name, spec| nary(cx, name, spec, 2..=2, modulo),
}];

fn modulo<'a>(_: &Cx<'_, 'a>, v: &[Value<'a>]) -> Result<Value<'a>> {
    let [a, b] = v else { return Ok(Value::Null) };
    let (Some(x), Some(y)) = (Number::of(a), Number::of(b)) else {
        if a.is_nullish() || b.is_nullish() {
            return Ok(Value::Null);
        }
        bail!(
            16611,
            "$mod only supports numeric types, not {} and {}",
            a.type_name(),
            b.type_name()
        );
    };
    if y.compare(&Number::Int32(0)).is_eq() {
        let decimal = matches!(x, Number::Decimal(_)) || matches!(y, Number::Decimal(_));
        bail!(if decimal { 5733415 } else { 16610 }, "can't $mod by zero");
    }
    Ok(match (x, y) {
        (Number::Decimal(_), _) | (_, Number::Decimal(_)) => {
            Value::Decimal128(x.to_decimal() % y.to_decimal())
        }
        (Number::Double(_), _) | (_, Number::Double(_)) => Value::Double(x.to_f64() % y.to_f64()),
        // Wrapping: the remainder of the smallest integer and -1 is 0.
        (Number::Int32(x), Number::Int32(y)) => Value::Int32(x.wrapping_rem(y)),
        _ => match (x.to_i64_exact(), y.to_i64_exact()) {
            (Some(x), Some(y)) => Value::Int64(x.wrapping_rem(y)),
            _ => Value::Null,
        },
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::rows(&[
            (r#"{"$mod": ["$missing", "$s"]}"#, "null null"),
            (r#"{"$mod": ["$s", 1]}"#, "error 16611"),
            (r#"{"$mod": [1, 0]}"#, "error 16610"),
            (
                r#"{"$mod": [1, {"$numberDecimal": "-0"}]}"#,
                "error 5733415",
            ),
            (r#"{"$mod": [{"$numberDecimal": "1"}, 0]}"#, "error 5733415"),
            (r#"{"$mod": [-7, 3]}"#, "int -1"),
            (r#"{"$mod": [-2147483648, -1]}"#, "int 0"),
            (
                r#"{"$mod": [{"$numberLong": "-9223372036854775808"}, -1]}"#,
                "long 0",
            ),
            (r#"{"$mod": [7.5, 2]}"#, "double 1.5"),
            (
                r#"{"$mod": [{"$numberDecimal": "10.5"}, {"$numberDecimal": "3.2"}]}"#,
                "decimal 0.9",
            ),
        ]);
    }
}
