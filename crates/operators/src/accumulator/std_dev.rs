//! `$stdDevPop`, `$stdDevSamp`: the standard deviation of the numbers, a double; null without
//! numbers (for a sample: with fewer than two). Other types are ignored.

use super::{Accumulator, AccumulatorOp, AccumulatorSpec};
use crate::Cx;
use crate::sums::Deviation;
use model::{Result, Value};

pub(super) static ACCUMULATORS: &[AccumulatorOp] = &[
    AccumulatorOp {
        name: "$stdDevPop",
        parse: |cx, _, spec| AccumulatorSpec::of::<StdDev<false>>(cx, spec),
    },
    AccumulatorOp {
        name: "$stdDevSamp",
        parse: |cx, _, spec| AccumulatorSpec::of::<StdDev<true>>(cx, spec),
    },
];

#[derive(Default)]
struct StdDev<const SAMPLE: bool>(Deviation);

impl<const SAMPLE: bool> Accumulator for StdDev<SAMPLE> {
    fn add(&mut self, _: &Cx<'_, '_>, value: Value<'_>) -> Result<()> {
        self.0.add(&value);
        Ok(())
    }
    fn finish<'a>(&self, _: &Cx<'_, 'a>) -> Result<Value<'a>> {
        Ok(self.0.result(SAMPLE))
    }
    fn memory_bytes(&self) -> usize {
        size_of::<Self>()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::accumulator::check::table(&[
            (
                "{'$stdDevPop': '$v'}",
                "[{'v': 1}, {'v': 3}, {'v': 'x'}, {}]",
                "1.0",
            ),
            ("{'$stdDevSamp': '$v'}", "[{'v': 1}]", "null"),
            ("{'$stdDevPop': '$v'}", "[{'v': 1}]", "0.0"),
        ]);
    }
}
