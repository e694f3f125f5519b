//! `$avg`: the mean of the numbers, a double or (once a decimal was seen) a decimal; null without
//! numbers. Other types are ignored.

use super::{Accumulator, AccumulatorOp, AccumulatorSpec, Merge};
use crate::Cx;
use crate::sums::Mean;
use model::{Result, Value};

pub(super) static ACCUMULATORS: &[AccumulatorOp] = &[AccumulatorOp {
    name: "$avg",
    parse: |cx, _, spec| Ok(AccumulatorSpec::of_parts::<Avg>(cx, spec)?.in_any_order()),
}];

#[derive(Default)]
struct Avg(Mean<true>);

impl Accumulator for Avg {
    fn add(&mut self, _: &Cx<'_, '_>, value: Value<'_>) -> Result<()> {
        self.0.add(&value);
        Ok(())
    }
    fn finish<'a>(&self, _: &Cx<'_, 'a>) -> Result<Value<'a>> {
        Ok(self.0.result())
    }
    fn memory_bytes(&self) -> usize {
        size_of::<Self>()
    }
}

impl Merge for Avg {
    fn merge(&mut self, _: &Cx<'_, '_>, later: Avg) -> Result<()> {
        self.0.merge(&later.0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::accumulator::check::table(&[
            (
                "{'$avg': '$v'}",
                "[{'v': 1}, {'v': 2}, {'v': 'x'}, {}]",
                "1.5",
            ),
            (
                "{'$avg': '$v'}",
                "[{'v': 1}, {'v': {'$numberDecimal': '2'}}]",
                "{'$numberDecimal': \
                '1.5'}",
            ),
            ("{'$avg': '$v'}", "[{'v': null}]", "null"),
        ]);
    }
}
