//! `$concatArrays`: all elements of all arrays; missing values are ignored. Errors: 14 no array
//! (null too).

use super::elements::Elements;
use super::{Accumulator, AccumulatorOp, AccumulatorSpec};
use crate::Cx;
use model::{Result, Value, bail, code};

pub(super) static ACCUMULATORS: &[AccumulatorOp] = &[AccumulatorOp {
    name: "$concatArrays",
    parse: |cx, _, spec| AccumulatorSpec::of::<ConcatArrays>(cx, spec),
}];

#[derive(Default)]
struct ConcatArrays(Elements);

impl Accumulator for ConcatArrays {
    fn add(&mut self, _: &Cx<'_, '_>, value: Value<'_>) -> Result<()> {
        match value {
            Value::Array(a) => a.iter().for_each(|v| self.0.push(&v)),
            Value::Missing => {}
            v => bail!(
                code::TYPE_MISMATCH,
                "$concatArrays requires array inputs, but input {v} \
                is of type {}",
                v.type_name()
            ),
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

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::accumulator::check::table(&[
            (
                "{'$concatArrays': '$v'}",
                "[{'v': [1, 2]}, {}, {'v': [2, [3]]}]",
                "[1, 2, 2, [3]]",
            ),
            ("{'$concatArrays': '$v'}", "[{}]", "[]"),
            ("{'$concatArrays': '$v'}", "[{'v': null}]", "!14"),
        ]);
    }
}
