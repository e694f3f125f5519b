//! `$sum`: the sum of the numbers in the widest type seen (int, long, double, decimal); 0 without
//! numbers. Other types are ignored.

use super::{Accumulator, AccumulatorOp, AccumulatorSpec, Merge};
use crate::Cx;
use crate::sums::Sum;
use model::{Result, Value};

pub(super) static ACCUMULATORS: &[AccumulatorOp] = &[AccumulatorOp {
    name: "$sum",
    parse: |cx, _, spec| Ok(AccumulatorSpec::of_parts::<Total>(cx, spec)?.in_any_order()),
}];

#[derive(Default)]
pub(super) struct Total(Sum);

impl Accumulator for Total {
    fn add(&mut self, _: &Cx<'_, '_>, value: Value<'_>) -> Result<()> {
        self.0.add(&value);
        Ok(())
    }
    fn finish<'a>(&self, _: &Cx<'_, 'a>) -> Result<Value<'a>> {
        Ok(self.0.total())
    }
    fn memory_bytes(&self) -> usize {
        size_of::<Self>()
    }
}

impl Merge for Total {
    fn merge(&mut self, _: &Cx<'_, '_>, later: Total) -> Result<()> {
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
                "{'$sum': '$v'}",
                "[{'v': 1}, {'v': 2}, {'v': 'x'}, {}, {'v': [5]}]",
                "3",
            ),
            (
                "{'$sum': '$v'}",
                "[{'v': 2147483647}, {'v': 1}]",
                "{'$numberLong': '2147483648'}",
            ),
            ("{'$sum': '$v'}", "[{'v': 1}, {'v': 2.0}]", "3.0"),
            ("{'$sum': '$v'}", "[]", "0"),
        ]);
    }
}
