//! `$addToSet`: the distinct values (by the operation's collation) in input order; missing values
//! are ignored.

use super::elements::Elements;
use super::{Accumulator, AccumulatorOp, AccumulatorSpec, Merge};
use crate::Cx;
use model::{Result, Value};

pub(super) static ACCUMULATORS: &[AccumulatorOp] = &[AccumulatorOp {
    name: "$addToSet",
    parse: |cx, _, spec| AccumulatorSpec::of_parts::<DistinctValues>(cx, spec),
}];

/// Values with the keys that distinguish them.
#[derive(Default)]
pub(super) struct DistinctValues {
    keys: rustc_hash::FxHashSet<Vec<u8>>,
    key_bytes: usize,
    values: Elements,
    scratch: Vec<u8>,
}

/// Bytes of memory for an entry of the set besides its value.
const ENTRY_BYTES: usize = 32;

impl Accumulator for DistinctValues {
    fn add(&mut self, cx: &Cx<'_, '_>, value: Value<'_>) -> Result<()> {
        if value.is_missing() {
            return Ok(());
        }
        self.scratch.clear();
        model::compare::equality_key(&value, cx.collate(), &mut self.scratch);
        if !self.keys.contains(&self.scratch) {
            self.key_bytes += self.scratch.len() + ENTRY_BYTES;
            self.keys.insert(self.scratch.clone());
            self.values.push(&value);
        }
        Ok(())
    }
    fn finish<'a>(&self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let arena = cx.arena;
        Ok(Value::Array(self.values.build(arena)))
    }
    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.key_bytes + self.values.memory_bytes()
    }
}

impl Merge for DistinctValues {
    fn merge(&mut self, cx: &Cx<'_, '_>, later: DistinctValues) -> Result<()> {
        later.values.iter().try_for_each(|v| self.add(cx, v))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::accumulator::check::table(&[
            (
                "{'$addToSet': '$v'}",
                "[{'v': 2}, {'v': 1}, {'v': 2.0}, {}, {'v': null}, {'v': [1]}]",
                "[2, 1, null, [1]]",
            ),
            ("{'$addToSet': '$v'}", "[]", "[]"),
        ]);
    }
}
