//! `$maxN`, `$minN`: `{n, input}`, the n largest / smallest values, best first. Nullish values are
//! left out. Errors: see `n_spec`.

use super::{Accumulator, AccumulatorOp, AccumulatorSpec};
use crate::Cx;
use crate::expr::ParseCx;
use crate::expr::n_spec::{NSpec, count_of_group, known_count};
use model::{Array, MongoError, OwnedValue, Result, Value, compare_with};

pub(super) static ACCUMULATORS: &[AccumulatorOp] = &[
    AccumulatorOp {
        name: "$maxN",
        parse: |cx, name, spec| parse(cx, name, spec, true),
    },
    AccumulatorOp {
        name: "$minN",
        parse: |cx, name, spec| parse(cx, name, spec, false),
    },
];

fn parse(
    cx: &mut ParseCx<'_>,
    name: &'static str,
    spec: Value<'_>,
    max: bool,
) -> Result<AccumulatorSpec> {
    let spec = NSpec::parse(cx, name, spec)?;
    let n = known_count(&spec.n);
    let start = move || {
        Box::new(BestN {
            n,
            max,
            values: Vec::new(),
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

struct BestN {
    n: Option<usize>,
    max: bool,
    /// Best first.
    values: Vec<OwnedValue>,
    bytes: usize,
}

impl Accumulator for BestN {
    fn init(&mut self, _: &Cx<'_, '_>, value: Value<'_>) -> Result<()> {
        self.n = Some(count_of_group(value)?);
        Ok(())
    }
    fn add(&mut self, cx: &Cx<'_, '_>, value: Value<'_>) -> Result<()> {
        let n = self
            .n
            .ok_or_else(|| MongoError::internal("'n' must be initialized"))?;
        if value.is_nullish() {
            return Ok(());
        }
        let place = self.values.partition_point(|kept| {
            let order = compare_with(&kept.get(), &value, cx.collate());
            if self.max {
                order.is_ge()
            } else {
                order.is_le()
            }
        });
        if place >= n {
            return Ok(());
        }
        if self.values.len() >= n {
            self.bytes -= self.values.pop().map_or(0, |v| v.len_bytes());
        }
        let value = value.to_owned_value();
        self.bytes += value.len_bytes();
        self.values.insert(place, value);
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
                "{'$maxN': {'n': 2, 'input': '$v'}}",
                "[{'v': 1}, {'v': 3}, {}, {'v': 2}]",
                "[3, 2]",
            ),
            (
                "{'$minN': {'n': '$n', 'input': '$v'}}",
                "[{'v': 1}, {'v': 3}, {'v': null}, {'v': 2}]",
                "[1, 2]",
            ),
            ("{'$minN': {'n': 1.5, 'input': '$v'}}", "[]", "!7548606"),
            ("{'$minN': 1}", "[]", "!5787900"),
        ]);
    }
}
