//! `$maxN`, `$minN`: `{n, input}`, the n largest / smallest values, best first. Nullish values are
//! ignored. Errors: see `n_spec`.

use super::n_values::NValues;
use super::{Accumulator, AccumulatorOp};
use crate::Cx;
use model::{Result, Value, compare_with};

pub(super) static ACCUMULATORS: &[AccumulatorOp] = &[
    AccumulatorOp {
        name: "$maxN",
        parse: |cx, name, spec| NValues::parse(cx, name, spec, BestN::of(true)),
    },
    AccumulatorOp {
        name: "$minN",
        parse: |cx, name, spec| NValues::parse(cx, name, spec, BestN::of(false)),
    },
];

struct BestN {
    /// Best first.
    kept: NValues,
    max: bool,
}

impl BestN {
    fn of(max: bool) -> impl Fn(NValues) -> BestN {
        move |kept| BestN { kept, max }
    }
}

impl Accumulator for BestN {
    fn init(&mut self, _: &Cx<'_, '_>, value: Value<'_>) -> Result<()> {
        self.kept.init(value)
    }
    fn add(&mut self, cx: &Cx<'_, '_>, value: Value<'_>) -> Result<()> {
        let n = self.kept.limit()?;
        if value.is_nullish() {
            return Ok(());
        }
        let place = self.kept.values().partition_point(|kept| {
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
        if self.kept.values().len() >= n {
            self.kept.remove_last();
        }
        self.kept.insert(place, value);
        Ok(())
    }
    fn finish<'a>(&self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        Ok(self.kept.array(cx))
    }
    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.kept.held_bytes()
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
