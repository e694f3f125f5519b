//! `$first`, `$last`: the first / last document's value; missing becomes null.

use super::{Accumulator, AccumulatorOp, AccumulatorSpec, Merge};
use crate::Cx;
use model::{OwnedValue, Result, Value};

pub(super) static ACCUMULATORS: &[AccumulatorOp] = &[
    AccumulatorOp {
        name: "$first",
        parse: |cx, _, spec| AccumulatorSpec::of_parts::<EdgeValue<false>>(cx, spec),
    },
    AccumulatorOp {
        name: "$last",
        parse: |cx, _, spec| AccumulatorSpec::of_parts::<EdgeValue<true>>(cx, spec),
    },
];

#[derive(Default)]
struct EdgeValue<const LAST: bool>(Option<OwnedValue>);

impl<const LAST: bool> Accumulator for EdgeValue<LAST> {
    fn add(&mut self, _: &Cx<'_, '_>, value: Value<'_>) -> Result<()> {
        if LAST || self.0.is_none() {
            self.0 = Some(value.to_owned_value());
        }
        Ok(())
    }
    fn finish<'a>(&self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let arena = cx.arena;
        Ok(match self.0.as_ref().map_or(Value::Null, OwnedValue::get) {
            Value::Missing => Value::Null,
            v => v.copy_into(arena),
        })
    }
    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.0.as_ref().map_or(0, OwnedValue::len_bytes)
    }
}

impl<const LAST: bool> Merge for EdgeValue<LAST> {
    fn merge(&mut self, _: &Cx<'_, '_>, later: EdgeValue<LAST>) -> Result<()> {
        if LAST && later.0.is_some() || self.0.is_none() {
            *self = later;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::accumulator::check::table(&[
            ("{'$first': '$v'}", "[{'v': 'a'}, {'v': 'b'}]", "'a'"),
            ("{'$last': '$v'}", "[{'v': 'a'}, {'v': [1]}]", "[1]"),
            ("{'$first': '$v'}", "[{}, {'v': 'b'}]", "null"),
            ("{'$last': '$v'}", "[]", "null"),
        ]);
    }
}
