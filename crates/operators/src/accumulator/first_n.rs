//! `$firstN`, `$lastN`: `{n, input}`, the values of the first / last n documents; missing becomes
//! null. Errors: see `n_spec`.

use super::n_values::NValues;
use super::{Accumulator, AccumulatorOp};
use crate::Cx;
use model::{Result, Value};

pub(super) static ACCUMULATORS: &[AccumulatorOp] = &[
    AccumulatorOp {
        name: "$firstN",
        parse: |cx, name, spec| NValues::parse(cx, name, spec, EndN::of(false)),
    },
    AccumulatorOp {
        name: "$lastN",
        parse: |cx, name, spec| NValues::parse(cx, name, spec, EndN::of(true)),
    },
];

struct EndN {
    kept: NValues,
    last: bool,
}

impl EndN {
    fn of(last: bool) -> impl Fn(NValues) -> EndN {
        move |kept| EndN { kept, last }
    }
}

impl Accumulator for EndN {
    fn init(&mut self, _: &Cx<'_, '_>, value: Value<'_>) -> Result<()> {
        self.kept.init(value)
    }
    fn add(&mut self, _: &Cx<'_, '_>, value: Value<'_>) -> Result<()> {
        if self.kept.values().len() >= self.kept.limit()? {
            if !self.last {
                return Ok(());
            }
            self.kept.remove_first();
        }
        self.kept.insert(self.kept.values().len(), value);
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
                "{'$firstN': {'n': 2, 'input': '$v'}}",
                "[{'v': 1}, {}, {'v': 3}]",
                "[1, null]",
            ),
            (
                "{'$lastN': {'n': '$n', 'input': '$v'}}",
                "[{'v': 1}, {}, {'v': 3}]",
                "[null, 3]",
            ),
            ("{'$lastN': {'n': 9, 'input': '$v'}}", "[{'v': 1}]", "[1]"),
            ("{'$firstN': {'n': 0, 'input': '$v'}}", "[]", "!7548606"),
            (
                "{'$firstN': {'n': '$none', 'input': '$v'}}",
                "[]",
                "!7548606",
            ),
            ("{'$firstN': 1}", "[]", "!5787801"),
        ]);
    }
}
