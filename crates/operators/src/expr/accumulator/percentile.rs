//! `$percentile`, `$median` of a number or of the numbers in an array; other values give null.
//! Errors: 7436200 / 7436201 no document, else see `quantile_spec`.

use crate::Cx;
use crate::expr::quantile_spec::{QuantileSpec, quantiles};
use crate::expr::{BoxExpr, Expr, Operator, ParseCx};
use model::{Result, Value};

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "$percentile",
        parse: |cx, name, spec| parse(cx, name, spec, 7436200),
    },
    Operator {
        name: "$median",
        parse: |cx, name, spec| parse(cx, name, spec, 7436201),
    },
];

struct Quantile(QuantileSpec);

fn parse(
    cx: &mut ParseCx<'_>,
    name: &'static str,
    spec: Value<'_>,
    not_object: i32,
) -> Result<BoxExpr> {
    Ok(Box::new(Quantile(QuantileSpec::parse(
        cx, name, spec, not_object,
    )?)))
}

impl Expr for Quantile {
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let values: Vec<f64> = match self.0.input.eval(cx)? {
            Value::Array(a) => a.iter().filter_map(|v| v.as_f64()).collect(),
            v => v.as_f64().into_iter().collect(),
        };
        Ok(quantiles(&values, self.0.shares.as_deref(), cx.arena))
    }
    fn visit<'e>(&'e self, each: &mut dyn FnMut(&'e dyn Expr)) {
        each(self.0.input.as_ref());
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::table(&[
            (
                "{'$median': {'input': '$a', 'method': 'approximate'}}",
                "{'a': [3, 1, 'x', 2]}",
                "2.0",
            ),
            (
                "{'$median': {'input': 7, 'method': 'approximate'}}",
                "{}",
                "7.0",
            ),
            (
                "{'$percentile': {'input': '$a', 'p': [0.5, 1], 'method': 'approximate'}}",
                "{}",
                "[null, null]",
            ),
            ("{'$median': 1}", "{}", "!7436201"),
            ("{'$percentile': 1}", "{}", "!7436200"),
        ]);
    }
}
