//! `$percentile`, `$median`: `{input, p, method: "approximate"}`. The result is exact here: all
//! numbers are kept as doubles. Other types are ignored; null without numbers. Errors: 7429703 /
//! 7436100 no document, else see `quantile_spec`.

use super::{Accumulator, AccumulatorOp, AccumulatorSpec};
use crate::Cx;
use crate::expr::ParseCx;
use crate::expr::quantile_spec::{QuantileSpec, quantiles};
use model::{Result, Value};
use std::sync::Arc;

pub(super) static ACCUMULATORS: &[AccumulatorOp] = &[
    AccumulatorOp {
        name: "$percentile",
        parse: |cx, name, spec| parse(cx, name, spec, 7429703),
    },
    AccumulatorOp {
        name: "$median",
        parse: |cx, name, spec| parse(cx, name, spec, 7436100),
    },
];

fn parse(
    cx: &mut ParseCx<'_>,
    name: &'static str,
    spec: Value<'_>,
    not_object: i32,
) -> Result<AccumulatorSpec> {
    let spec = QuantileSpec::parse(cx, name, spec, not_object)?;
    let shares: Option<Arc<[f64]>> = spec.shares.map(Into::into);
    let start = move || {
        Box::new(Quantiles {
            shares: shares.clone(),
            values: Vec::new(),
        }) as Box<dyn Accumulator>
    };
    Ok(AccumulatorSpec {
        many: None,
        any_order: false,
        input: spec.input,
        init: None,
        start: Box::new(start),
    })
}

struct Quantiles {
    shares: Option<Arc<[f64]>>,
    values: Vec<f64>,
}

impl Accumulator for Quantiles {
    fn add(&mut self, _: &Cx<'_, '_>, value: Value<'_>) -> Result<()> {
        self.values.extend(value.as_f64());
        Ok(())
    }
    fn finish<'a>(&self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let arena = cx.arena;
        Ok(quantiles(&self.values, self.shares.as_deref(), arena))
    }
    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.values.capacity() * size_of::<f64>()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        let docs = "[{'v': 30}, {'v': 10}, {'v': 'x'}, {'v': 20}, {}]";
        crate::accumulator::check::table(&[
            (
                "{'$median': {'input': '$v', 'method': 'approximate'}}",
                docs,
                "20.0",
            ),
            (
                "{'$percentile': {'input': '$v', 'p': [0, 0.5, 0.95], 'method': 'approximate'}}",
                docs,
                "[10.0, 20.0, 30.0]",
            ),
            (
                "{'$percentile': {'input': '$v', 'p': [0.5], 'method': 'approximate'}}",
                "[{}]",
                "[null]",
            ),
            (
                "{'$median': {'input': '$v', 'method': 'exact'}}",
                docs,
                "!2",
            ),
            ("{'$median': {'input': '$v', 'method': 1}}", docs, "!14"),
            ("{'$median': {'input': '$v'}}", docs, "!40414"),
            (
                "{'$median': {'input': '$v', 'method': 'approximate', 'p': [1]}}",
                docs,
                "!40415",
            ),
            (
                "{'$percentile': {'input': '$v', 'p': ['$v'], 'method': 'approximate'}}",
                docs,
                "!7750300",
            ),
            (
                "{'$percentile': {'input': '$v', 'p': [], 'method': 'approximate'}}",
                docs,
                "!7750301",
            ),
            (
                "{'$percentile': {'input': '$v', 'p': ['x'], 'method': 'approximate'}}",
                docs,
                "!7750302",
            ),
            (
                "{'$percentile': {'input': '$v', 'p': [1.1], 'method': 'approximate'}}",
                docs,
                "!7750303",
            ),
            ("{'$percentile': 1}", docs, "!7429703"),
        ]);
    }
}
