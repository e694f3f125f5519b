//! `$max`, `$min`: the largest / smallest value in BSON order (by the operation's collation), the
//! first of equal values. Nullish values are ignored; null without values.

use super::{Accumulator, AccumulatorOp, AccumulatorSpec, Merge};
use crate::Cx;
use model::{OwnedValue, Result, Value, compare_with};

pub(super) static ACCUMULATORS: &[AccumulatorOp] = &[
    AccumulatorOp {
        name: "$max",
        parse: |cx, _, spec| AccumulatorSpec::of_parts::<Extreme<true>>(cx, spec),
    },
    AccumulatorOp {
        name: "$min",
        parse: |cx, _, spec| AccumulatorSpec::of_parts::<Extreme<false>>(cx, spec),
    },
];

#[derive(Default)]
struct Extreme<const MAX: bool>(Option<OwnedValue>);

impl<const MAX: bool> Accumulator for Extreme<MAX> {
    fn add(&mut self, cx: &Cx<'_, '_>, value: Value<'_>) -> Result<()> {
        if value.is_nullish() {
            return Ok(());
        }
        let better = self.0.as_ref().is_none_or(|best| {
            let order = compare_with(&value, &best.get(), cx.collate());
            if MAX { order.is_gt() } else { order.is_lt() }
        });
        if better {
            self.0 = Some(value.to_owned_value());
        }
        Ok(())
    }
    fn finish<'a>(&self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let arena = cx.arena;
        Ok(self
            .0
            .as_ref()
            .map_or(Value::Null, |v| v.get().copy_into(arena)))
    }
    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.0.as_ref().map_or(0, OwnedValue::len_bytes)
    }
}

impl<const MAX: bool> Merge for Extreme<MAX> {
    fn merge(&mut self, cx: &Cx<'_, '_>, later: Extreme<MAX>) -> Result<()> {
        later.0.map_or(Ok(()), |best| self.add(cx, best.get()))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::accumulator::check::table(&[
            (
                "{'$max': '$v'}",
                "[{'v': 1}, {'v': 2}, {'v': 2.0}, {}, {'v': null}]",
                "2",
            ),
            (
                "{'$min': '$v'}",
                "[{'v': 'x'}, {'v': 2}, {}, {'v': null}]",
                "2",
            ),
            ("{'$max': '$v'}", "[{'v': null}, {}]", "null"),
        ]);
    }
}
