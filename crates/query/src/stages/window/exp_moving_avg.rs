//! `$expMovingAvg: {input, N}` or `{input, alpha}`: the exponential moving average; values that are
//! not numbers are skipped. Errors: 9 for bad arguments, a window, or no sortBy.

use super::function::{WindowContext, WindowFn};
use super::partition::Partition;
use crate::exec::ExecContext;
use crate::stages::arithmetic::{add, multiply};
use model::{Number, OwnedValue, Result, Value, bail, code};
use operators::RequiredFields;
use operators::expr::{self, BoxExpr};

pub(super) fn parse(
    wcx: &mut WindowContext<'_, '_>,
    name: &'static str,
    arg: Value<'_>,
) -> Result<Box<dyn WindowFn>> {
    wcx.no_window(name, code::FAILED_TO_PARSE)?;
    if wcx.sort.is_none() {
        bail!(
            code::FAILED_TO_PARSE,
            "{name} requires an explicit 'sortBy'"
        );
    }
    let Value::Document(spec) = arg else {
        bail!(
            code::FAILED_TO_PARSE,
            "{name} must have exactly one argument that is an object, not {}",
            arg.type_name()
        );
    };
    let (mut input, mut alpha) = (None, None);
    for (field, v) in spec.iter() {
        match field {
            "input" => input = Some(expr::parse(wcx.cx, v)?),
            "N" if alpha.is_none() => {
                let Some(n) = v.as_i64_exact().filter(|n| *n > 0) else {
                    bail!(
                        code::FAILED_TO_PARSE,
                        "'N' field must be an integer greater than zero, not {v}"
                    );
                };
                alpha = Some(2.0 / (n as f64 + 1.0));
            }
            "alpha" if alpha.is_none() => {
                let Some(a) = v.as_f64().filter(|a| *a > 0.0 && *a < 1.0) else {
                    bail!(
                        code::FAILED_TO_PARSE,
                        "'alpha' must be between 0 and 1 (exclusive), not {v}"
                    );
                };
                alpha = Some(a);
            }
            _ => bail!(
                code::FAILED_TO_PARSE,
                "{name} must have 'input' and exactly one of 'N' and 'alpha', not '{field}'"
            ),
        }
    }
    let (Some(input), Some(alpha)) = (input, alpha) else {
        bail!(
            code::FAILED_TO_PARSE,
            "{name} must have 'input' and exactly one of 'N' and 'alpha'"
        );
    };
    Ok(Box::new(ExpMovingAvg { input, alpha }))
}

struct ExpMovingAvg {
    input: BoxExpr,
    alpha: f64,
}

impl WindowFn for ExpMovingAvg {
    fn reads(&self, reads: &mut RequiredFields) {
        self.input.reads(reads);
    }

    fn compute(&self, part: &Partition, exec: &ExecContext<'_>) -> Result<Vec<OwnedValue>> {
        let mut average: Option<OwnedValue> = None;
        let mut out = Vec::with_capacity(part.docs.len());
        for v in part.values(&self.input, exec)? {
            if Number::of(&v.get()).is_some() {
                average = Some(match &average {
                    None => match v.get() {
                        Value::Decimal128(_) => v,
                        other => Value::Double(other.as_f64().unwrap_or(0.0)).to_owned_value(),
                    },
                    Some(a) => {
                        let new = multiply(v.get(), Value::Double(self.alpha), exec.env)?;
                        let old = multiply(a.get(), Value::Double(1.0 - self.alpha), exec.env)?;
                        add(new.get(), old.get(), exec.env)?
                    }
                });
            }
            out.push(
                average
                    .clone()
                    .unwrap_or_else(|| Value::Null.to_owned_value()),
            );
        }
        Ok(out)
    }
}
