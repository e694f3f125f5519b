//! `$count: {}`: the number of documents. Errors: 14 with arguments.

use super::many::new_states;
use super::sum::Total;
use super::{AccumulatorOp, AccumulatorSpec};
use crate::expr::Constant;
use model::{Value, bail, code};

pub(super) static ACCUMULATORS: &[AccumulatorOp] = &[AccumulatorOp {
    name: "$count",
    parse: |_, name, spec| match spec {
        Value::Document(d) if d.is_empty() => Ok(AccumulatorSpec {
            input: Constant::new_boxed(Value::Int32(1)),
            init: None,
            start: Box::new(|| Box::new(Total::default())),
            many: Some(new_states::<Total>),
            any_order: true,
        }),
        v => bail!(
            code::TYPE_MISMATCH,
            "{name} takes no arguments, i.e. {name}:{{}}, found {v}"
        ),
    },
}];

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::accumulator::check::table(&[
            ("{'$count': {}}", "[{}, {}]", "2"),
            ("{'$count': {'a': 1}}", "[]", "!14"),
            ("{'$count': 1}", "[]", "!14"),
        ]);
    }
}
