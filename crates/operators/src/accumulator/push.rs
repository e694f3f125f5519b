//! `$push`: all values in input order; missing values are ignored.

use super::elements::Elements;
use super::{Accumulator, AccumulatorOp, AccumulatorSpec, Merge};
use crate::Cx;
use model::{Result, Value};

pub(super) static ACCUMULATORS: &[AccumulatorOp] = &[AccumulatorOp {
    name: "$push",
    parse: |cx, _, spec| AccumulatorSpec::of_parts::<Push>(cx, spec),
}];

#[derive(Default)]
struct Push(Elements);

impl Accumulator for Push {
    fn add(&mut self, _: &Cx<'_, '_>, value: Value<'_>) -> Result<()> {
        if !value.is_missing() {
            self.0.push(&value);
        }
        Ok(())
    }
    fn finish<'a>(&self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let arena = cx.arena;
        Ok(Value::Array(self.0.build(arena)))
    }
    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.0.memory_bytes()
    }
}

impl Merge for Push {
    fn merge(&mut self, _: &Cx<'_, '_>, later: Push) -> Result<()> {
        later.0.iter().for_each(|v| self.0.push(&v));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::accumulator::check::table(&[
            (
                "{'$push': '$v'}",
                "[{'v': 1}, {}, {'v': null}, {'v': [1]}]",
                "[1, null, [1]]",
            ),
            ("{'$push': '$v'}", "[]", "[]"),
        ]);
    }
}
