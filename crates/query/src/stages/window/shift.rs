//! `$shift: {output, by, default}`: a value of the document `by` positions away. Errors: 9 for bad
//! arguments, a window, or no sortBy.

use super::function::{WindowContext, WindowFn};
use super::partition::Partition;
use crate::exec::ExecContext;
use model::{OwnedValue, Result, Value, bail, code};
use operators::RequiredFields;
use operators::expr::{self, BoxExpr};

pub(super) fn parse(
    wcx: &mut WindowContext<'_, '_>,
    name: &'static str,
    arg: Value<'_>,
) -> Result<Box<dyn WindowFn>> {
    wcx.no_window(name, code::FAILED_TO_PARSE)?;
    if wcx.sort.is_none() {
        bail!(code::FAILED_TO_PARSE, "{name} requires a sortBy");
    }
    let Value::Document(spec) = arg else {
        bail!(
            code::FAILED_TO_PARSE,
            "Argument to {name} must be an object, not {}",
            arg.type_name()
        );
    };
    let (mut output, mut by, mut default) = (None, None, Value::Null.to_owned_value());
    for (field, v) in spec.iter() {
        match field {
            "output" => output = Some(expr::parse(wcx.cx, v)?),
            "by" => {
                let Some(n) = v.as_i64_exact().filter(|n| i32::try_from(*n).is_ok()) else {
                    bail!(
                        code::FAILED_TO_PARSE,
                        "'{name}:by' field must be an integer, not {v}"
                    );
                };
                by = Some(n);
            }
            "default" => {
                default = expr::parse_constant(
                    wcx.cx,
                    v,
                    code::FAILED_TO_PARSE,
                    "'$shift:default' expression",
                )?
            }
            _ => bail!(code::FAILED_TO_PARSE, "Unknown argument in {name}: {field}"),
        }
    }
    let (Some(output), Some(by)) = (output, by) else {
        bail!(code::FAILED_TO_PARSE, "{name} requires 'output' and 'by'");
    };
    Ok(Box::new(Shift {
        output,
        by,
        default,
    }))
}

struct Shift {
    output: BoxExpr,
    by: i64,
    default: OwnedValue,
}

impl WindowFn for Shift {
    fn reads(&self, reads: &mut RequiredFields) {
        self.output.reads(reads);
    }

    fn compute(&self, part: &Partition, exec: &ExecContext<'_>) -> Result<Vec<OwnedValue>> {
        let values = part.values(&self.output, exec)?;
        let shifted = (0..values.len() as i64).map(|i| {
            let at = usize::try_from(i.saturating_add(self.by)).ok();
            at.and_then(|at| values.get(at))
                .unwrap_or(&self.default)
                .clone()
        });
        Ok(shifted.collect())
    }
}
