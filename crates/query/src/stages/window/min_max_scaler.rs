//! `$minMaxScaler: {input, min, max}`, or the input alone: scales the value from the range of its
//! window's values to min..max (by default 0..1). Errors: 10487002-10487006 for bad arguments,
//! 10487001 a value that is no number.

use super::bounds::Bounds;
use super::function::{WindowContext, WindowFn};
use super::partition::Partition;
use crate::exec::ExecContext;
use crate::stages::arithmetic::{add, divide, multiply, subtract};
use model::{Number, OwnedValue, Result, Value, bail, compare};
use operators::RequiredFields;
use operators::expr::{self, BoxExpr};

pub(super) fn parse(
    wcx: &mut WindowContext<'_, '_>,
    name: &'static str,
    arg: Value<'_>,
) -> Result<Box<dyn WindowFn>> {
    let spec = match arg {
        Value::Document(d) if !d.iter().next().is_some_and(|(k, _)| k.starts_with('$')) => d,
        expression => {
            let input = expr::parse(wcx.cx, expression)?;
            return scaler(wcx, input, None);
        }
    };
    let (mut input, mut min, mut max) = (None, None, None);
    for (field, v) in spec.iter() {
        match field {
            "input" => input = Some(expr::parse(wcx.cx, v)?),
            "min" | "max" => {
                let bound = expr::parse_constant(wcx.cx, v, 10487004, "'min' and 'max'")?;
                if Number::of(&bound.get()).is_none() {
                    bail!(
                        10487004,
                        "'{field}' of {name} must be a number, not {bound}"
                    );
                }
                *(if field == "min" { &mut min } else { &mut max }) = Some(bound);
            }
            _ => bail!(10487002, "{name} got unexpected argument: {field}"),
        }
    }
    let Some(input) = input else {
        bail!(10487003, "{name} requires an 'input' expression")
    };
    let range = match (min, max) {
        (None, None) => None,
        (Some(min), Some(max)) => Some((min, max)),
        _ => bail!(
            10487005,
            "{name} requires both or neither of 'min' and 'max'"
        ),
    };
    if let Some((min, max)) = &range
        && compare(&min.get(), &max.get()).is_ge()
    {
        bail!(
            10487006,
            "'min' of {name} must be less than 'max': {min}, {max}"
        );
    }
    scaler(wcx, input, range)
}

/// The function for an input and a target range, by default 0 to 1.
fn scaler(
    wcx: &mut WindowContext<'_, '_>,
    input: BoxExpr,
    range: Option<(OwnedValue, OwnedValue)>,
) -> Result<Box<dyn WindowFn>> {
    let (min, max) = range.unwrap_or_else(|| {
        (
            Value::Int32(0).to_owned_value(),
            Value::Int32(1).to_owned_value(),
        )
    });
    Ok(Box::new(MinMaxScaler {
        input,
        min,
        max,
        bounds: wcx.bounds()?,
    }))
}

struct MinMaxScaler {
    input: BoxExpr,
    min: OwnedValue,
    max: OwnedValue,
    bounds: Bounds,
}

impl WindowFn for MinMaxScaler {
    fn reads(&self, reads: &mut RequiredFields) {
        self.input.reads(reads);
    }

    fn compute(&self, part: &Partition, exec: &ExecContext<'_>) -> Result<Vec<OwnedValue>> {
        let spans = self.bounds.spans(part, exec)?;
        let values = part.values(&self.input, exec)?;
        if let Some(v) = values.iter().find(|v| Number::of(&v.get()).is_none()) {
            bail!(
                10487001,
                "$minMaxScaler requires numbers, but found {}",
                v.get().type_name()
            );
        }
        let scale = subtract(self.max.get(), self.min.get(), exec.env)?;
        let mut out = Vec::with_capacity(values.len());
        for (v, (start, end)) in values.iter().zip(spans) {
            let window = values.get(start..end).unwrap_or(&[]);
            let least = window
                .iter()
                .map(|v| v.get())
                .min_by(compare)
                .unwrap_or(v.get());
            let greatest = window
                .iter()
                .map(|v| v.get())
                .max_by(compare)
                .unwrap_or(v.get());
            let width = subtract(greatest, least, exec.env)?;
            if width.get().as_f64() == Some(0.0) {
                out.push(self.min.clone());
                continue;
            }
            let place = divide(
                subtract(v.get(), least, exec.env)?.get(),
                width.get(),
                exec.env,
            )?;
            out.push(add(
                multiply(place.get(), scale.get(), exec.env)?.get(),
                self.min.get(),
                exec.env,
            )?);
        }
        Ok(out)
    }
}
