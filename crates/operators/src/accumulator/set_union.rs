//! `$setUnion`: the distinct elements of all arrays; missing values are ignored. Errors: 14 no
//! array (null too).

use super::add_to_set::DistinctValues;
use super::{Accumulator, AccumulatorOp, AccumulatorSpec};
use crate::Cx;
use model::{Result, Value, bail, code};

pub(super) static ACCUMULATORS: &[AccumulatorOp] = &[AccumulatorOp {
    name: "$setUnion",
    parse: |cx, _, spec| AccumulatorSpec::of::<SetUnion>(cx, spec),
}];

#[derive(Default)]
struct SetUnion(DistinctValues);

impl Accumulator for SetUnion {
    fn add(&mut self, cx: &Cx<'_, '_>, value: Value<'_>) -> Result<()> {
        match value {
            Value::Array(a) => a.iter().try_for_each(|v| self.0.add(cx, v)),
            Value::Missing => Ok(()),
            v => bail!(
                code::TYPE_MISMATCH,
                "$setUnion requires array inputs, but input {v} is \
                of type {}",
                v.type_name()
            ),
        }
    }
    fn finish<'a>(&self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        self.0.finish(cx)
    }
    fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::accumulator::check::table(&[
            (
                "{'$setUnion': '$v'}",
                "[{'v': [1, 2]}, {}, {'v': [2, [3]]}]",
                "[1, 2, [3]]",
            ),
            ("{'$setUnion': '$v'}", "[{'v': 1}]", "!14"),
        ]);
    }
}
