//! `$tsSecond`, `$tsIncrement`: the two parts of a timestamp, as longs. Null for nullish. Errors:
//! 5687301 / 5687302 no timestamp.

use crate::expr::{Operator, unary};
use model::{Result, Timestamp, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "$tsSecond",
        parse: |cx, name, spec| {
            unary(cx, name, spec, |_, v| {
                take_part(v, "$tsSecond", 5687301, |t| t.time)
            })
        },
    },
    Operator {
        name: "$tsIncrement",
        parse: |cx, name, spec| {
            unary(cx, name, spec, |_, v| {
                take_part(v, "$tsIncrement", 5687302, |t| t.increment)
            })
        },
    },
];

fn take_part<'a>(
    v: Value<'a>,
    name: &str,
    code: i32,
    take: fn(Timestamp) -> u32,
) -> Result<Value<'a>> {
    match v {
        Value::Timestamp(t) => Ok(Value::Int64(i64::from(take(t)))),
        v if v.is_nullish() => Ok(Value::Null),
        v => bail!(
            code,
            "{name} requires a timestamp argument, found: {}",
            v.type_name()
        ),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::table(&[
            (
                "{'$tsSecond': '$t'}",
                "{'t': {'$timestamp': {'t': 4294967295, 'i': 5}}}",
                "{'$numberLong': '4294967295'}",
            ),
            (
                "{'$tsIncrement': '$t'}",
                "{'t': {'$timestamp': {'t': 7, 'i': 5}}}",
                "{'$numberLong': \
                '5'}",
            ),
            ("{'$tsIncrement': '$t'}", "{}", "null"),
            ("{'$tsSecond': 1}", "{}", "!5687301"),
            ("{'$tsIncrement': 'x'}", "{}", "!5687302"),
        ]);
    }
}
