//! `$bitAnd`, `$bitOr`, `$bitXor` of any number of ints and longs, `$bitNot` of one: int, or long
//! when an operand is one. Null and missing give null; no operands give the neutral element. 14
//! other types (28765 what is no number at all in `$bitNot`).

use crate::Cx;
use crate::expr::{Operator, nary, unary};
use model::{Result, Value, bail, code};

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "$bitAnd",
        parse: |cx, name, spec| nary(cx, name, spec, 0..=usize::MAX, and),
    },
    Operator {
        name: "$bitOr",
        parse: |cx, name, spec| nary(cx, name, spec, 0..=usize::MAX, or),
    },
    Operator {
        name: "$bitXor",
        parse: |cx, name, spec| nary(cx, name, spec, 0..=usize::MAX, xor),
    },
    Operator {
        name: "$bitNot",
        parse: |cx, name, spec| unary(cx, name, spec, not),
    },
];

fn and<'a>(_: &Cx<'_, 'a>, operands: &[Value<'a>]) -> Result<Value<'a>> {
    combine("$bitAnd", operands, -1, |x, y| x & y)
}
fn or<'a>(_: &Cx<'_, 'a>, operands: &[Value<'a>]) -> Result<Value<'a>> {
    combine("$bitOr", operands, 0, |x, y| x | y)
}
fn xor<'a>(_: &Cx<'_, 'a>, operands: &[Value<'a>]) -> Result<Value<'a>> {
    combine("$bitXor", operands, 0, |x, y| x ^ y)
}

/// Sign extension makes the 64-bit result correct for ints, too.
fn combine<'a>(
    name: &str,
    operands: &[Value<'a>],
    neutral: i64,
    f: fn(i64, i64) -> i64,
) -> Result<Value<'a>> {
    let (mut bits, mut long) = (neutral, false);
    for v in operands {
        bits = match *v {
            v if v.is_nullish() => return Ok(Value::Null),
            Value::Int32(n) => f(bits, n.into()),
            Value::Int64(n) => {
                long = true;
                f(bits, n)
            }
            _ => bail!(
                code::TYPE_MISMATCH,
                "{name} only supports int and long operands, not {}",
                v.type_name()
            ),
        };
    }
    Ok(if long {
        Value::Int64(bits)
    } else {
        Value::Int32(bits as i32)
    })
}

fn not<'a>(_: &Cx<'_, 'a>, v: Value<'a>) -> Result<Value<'a>> {
    Ok(match v {
        v if v.is_nullish() => Value::Null,
        Value::Int32(n) => Value::Int32(!n),
        Value::Int64(n) => Value::Int64(!n),
        v if v.is_number() => bail!(
            code::TYPE_MISMATCH,
            "$bitNot only supports int and long, not \
            {}",
            v.type_name()
        ),
        v => bail!(
            28765,
            "$bitNot only supports numeric types, not {}",
            v.type_name()
        ),
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::rows(&[
            (r#"{"$bitAnd": []}"#, "int -1"),
            (r#"{"$bitOr": []}"#, "int 0"),
            (r#"{"$bitOr": [5, 3]}"#, "int 7"),
            (r#"{"$bitXor": [5, {"$numberLong": "3"}]}"#, "long 6"),
            (r#"{"$bitAnd": [-1, -8]}"#, "int -8"),
            (r#"{"$bitAnd": ["$missing", "$s"]}"#, "null null"),
            (r#"{"$bitAnd": ["$s"]}"#, "error 14"),
            (r#"{"$bitOr": [1.0]}"#, "error 14"),
            (r#"{"$bitNot": 0}"#, "int -1"),
            (r#"{"$bitNot": "$n"}"#, "null null"),
            (r#"{"$bitNot": 1.5}"#, "error 14"),
            (r#"{"$bitNot": "$s"}"#, "error 28765"),
            (r#"{"$bitNot": [1, 2]}"#, "error 16020"),
        ]);
    }
}
