//! `$firstN`, `$lastN`: `{n, input}`, the values of the first / last n documents; missing becomes
//! null. Errors: see `n_spec`.

use super::{Accumulator, AccumulatorOp, AccumulatorSpec};
use crate::Cx;
use crate::expr::ParseCx;
use crate::expr::n_spec::{NSpec, count_of_group, known_count};
use model::{Array, MongoError, OwnedValue, Result, Value};
use std::collections::VecDeque;

pub(super) static ACCUMULATORS: &[AccumulatorOp] = &[
    AccumulatorOp {
        name: "$firstN",
        parse: |cx, name, spec| parse(cx, name, spec, false),
    },
    AccumulatorOp {
        name: "$lastN",
        parse: |cx, name, spec| parse(cx, name, spec, true),
    },
];

fn parse(
    cx: &mut ParseCx<'_>,
    name: &'static str,
    spec: Value<'_>,
    last: bool,
) -> Result<AccumulatorSpec> {
    let spec = NSpec::parse(cx, name, spec)?;
    let n = known_count(&spec.n);
    let start = move || {
        Box::new(EndN {
            n,
            last,
            values: VecDeque::new(),
            bytes: 0,
        }) as Box<dyn Accumulator>
    };
    Ok(AccumulatorSpec {
        many: None,
        input: spec.input,
        init: Some(spec.n),
        start: Box::new(start),
    })
}

struct EndN {
    n: Option<usize>,
    last: bool,
    values: VecDeque<OwnedValue>,
    bytes: usize,
}

impl Accumulator for EndN {
    fn init(&mut self, _: &Cx<'_, '_>, value: Value<'_>) -> Result<()> {
        self.n = Some(count_of_group(value)?);
        Ok(())
    }
    fn add(&mut self, _: &Cx<'_, '_>, value: Value<'_>) -> Result<()> {
        let n = self
            .n
            .ok_or_else(|| MongoError::internal("'n' must be initialized"))?;
        if self.values.len() >= n {
            if !self.last {
                return Ok(());
            }
            self.bytes -= self.values.pop_front().map_or(0, |v| v.len_bytes());
        }
        let value = value.to_owned_value();
        self.bytes += value.len_bytes();
        self.values.push_back(value);
        Ok(())
    }
    fn finish<'a>(&self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let arena = cx.arena;
        Ok(Value::Array(Array::from_values_in(
            arena,
            self.values.iter().map(OwnedValue::get),
        )))
    }
    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.bytes + self.values.len() * size_of::<OwnedValue>()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::accumulator::check::table(&[
            (
                "{'$firstN': {'n': 2, 'input': '$v'}}",
                "[{'v': 1}, {}, {'v': 3}]",
                "[1, null]",
            ),
            (
                "{'$lastN': {'n': '$n', 'input': '$v'}}",
                "[{'v': 1}, {}, {'v': 3}]",
                "[null, 3]",
            ),
            ("{'$lastN': {'n': 9, 'input': '$v'}}", "[{'v': 1}]", "[1]"),
            ("{'$firstN': {'n': 0, 'input': '$v'}}", "[]", "!7548606"),
            (
                "{'$firstN': {'n': '$none', 'input': '$v'}}",
                "[]",
                "!7548606",
            ),
            ("{'$firstN': 1}", "[]", "!5787801"),
        ]);
    }
}
