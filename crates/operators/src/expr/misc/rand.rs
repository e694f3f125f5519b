//! `$rand`: a double in [0, 1), new at each evaluation. Takes `{}` or `[]`. Errors: 10065 other
//! arguments, 3040501 arguments inside them.

use crate::Cx;
use crate::expr::{BoxExpr, Expr, Operator, ParseCx};
use model::{Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$rand",
    parse: parse_rand,
}];

struct Rand;

fn parse_rand(_: &mut ParseCx<'_>, name: &'static str, spec: Value<'_>) -> Result<BoxExpr> {
    let empty = match spec {
        Value::Document(d) => d.is_empty(),
        Value::Array(a) => a.is_empty(),
        v => bail!(
            10065,
            "invalid parameter: expected an object ({name}), found {}",
            v.type_name()
        ),
    };
    if !empty {
        bail!(
            3040501,
            "{name} does not currently accept arguments, found {spec}"
        );
    }
    Ok(Box::new(Rand))
}

impl Expr for Rand {
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        Ok(Value::Double(cx.env.random_f64()))
    }
    fn is_volatile(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::expr::check::{evaluate, table};

    #[test]
    fn arguments() {
        table(&[
            ("{'$rand': 1}", "{}", "!10065"),
            ("{'$rand': [1]}", "{}", "!3040501"),
            ("{'$rand': {'a': 1}}", "{}", "!3040501"),
        ]);
    }

    #[test]
    fn draws_anew_inside_the_unit_interval() {
        let drawn = evaluate(
            "{'$map': {'input': {'$range': [0, 100]}, 'in': {'$rand': {}}}}",
            "{}",
        )
        .unwrap();
        let drawn: Vec<f64> = drawn
            .get()
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|v| v.as_f64())
            .collect();
        assert!(drawn.len() == 100 && drawn.iter().all(|x| (0.0..1.0).contains(x)));
        assert!(drawn.windows(2).any(|w| w[0] != w[1]));
    }
}
