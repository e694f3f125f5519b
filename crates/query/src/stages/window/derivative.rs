//! `$derivative` and `$integral`, `{input, unit}`: rate of change between the ends of a window, and
//! the area under it by the trapezoidal rule, over the single ascending sort field. Errors: 5490710
//! `unit` longer than a week, 5490705 an unknown one, 9 for bad arguments, 5371801-5371804 sort
//! field or window missing, 5423900 / 5423901 / 5423902 sort values that do not fit the unit,
//! 5624901 an unfit window of dates.

use super::bounds::Bounds;
use super::function::{WindowContext, WindowFn};
use super::partition::Partition;
use crate::exec::{ExecContext, SortBy};
use crate::path::plain_at;
use crate::stages::arithmetic::{add, divide, multiply, subtract};
use crate::stages::date_unit::DateUnit;
use model::{FieldPath, Number, OwnedValue, Result, Value, bail, code};
use operators::RequiredFields;
use operators::expr::{self, BoxExpr};

pub(super) fn parse(
    wcx: &mut WindowContext<'_, '_>,
    name: &'static str,
    arg: Value<'_>,
) -> Result<Box<dyn WindowFn>> {
    let Value::Document(spec) = arg else {
        bail!(
            code::FAILED_TO_PARSE,
            "{name} expects an object with 'input' and 'unit', not {}",
            arg.type_name()
        );
    };
    let (mut input, mut unit_ms) = (None, None);
    for (field, v) in spec.iter() {
        match (field, v) {
            ("input", v) => input = Some(expr::parse(wcx.cx, v)?),
            ("unit", Value::String(s)) => match DateUnit::parse(s)?.fixed_ms() {
                Some(ms) => unit_ms = Some(ms),
                None => bail!(5490710, "unit must be 'week' or smaller, not '{s}'"),
            },
            ("unit", v) => bail!(
                code::FAILED_TO_PARSE,
                "'unit' must be a string, not {}",
                v.type_name()
            ),
            _ => bail!(
                code::FAILED_TO_PARSE,
                "{name} got unexpected argument: {field}"
            ),
        }
    }
    let Some(input) = input else {
        bail!(
            code::FAILED_TO_PARSE,
            "{name} requires an 'input' expression"
        )
    };
    let by = match wcx.sort.map(|s| s.parts()) {
        Some([part]) if part.ascending || name == "$derivative" => match &part.by {
            SortBy::Path(p) => p.clone(),
            SortBy::Meta(_) => bail!(5371801, "{name} requires a non-compound sortBy"),
        },
        Some([_]) | None => bail!(5371802, "{name} requires a sortBy in ascending order"),
        Some(_) => bail!(5371803, "{name} requires a non-compound sortBy"),
    };
    if name == "$derivative" && wcx.window.is_none() {
        bail!(5371804, "{name} requires explicit window bounds");
    }
    let bounds = wcx.bounds()?;
    Ok(Box::new(OverField {
        input,
        unit_ms,
        by,
        bounds,
        integral: name == "$integral",
    }))
}

struct OverField {
    input: BoxExpr,
    unit_ms: Option<i64>,
    by: FieldPath,
    bounds: Bounds,
    integral: bool,
}

impl OverField {
    /// The position of a document on the axis: numbers as they are, dates in milliseconds.
    fn position(&self, v: Value<'_>) -> Result<OwnedValue> {
        match (v, self.unit_ms) {
            (Value::Date(ms), Some(_)) => Ok(Value::Int64(ms).to_owned_value()),
            (Value::Date(_), None) => {
                bail!(5423900, "a sortBy field of type Date requires a 'unit'")
            }
            (v, Some(_)) => bail!(
                5423901,
                "with 'unit' the sortBy field must be a Date, but it was {}",
                v.type_name()
            ),
            (v, None) if Number::of(&v).is_some() => Ok(v.to_owned_value()),
            (v, None) => bail!(
                5423902,
                "the sortBy field must be a number or a Date, but it was {}",
                v.type_name()
            ),
        }
    }

    fn derivative(
        &self,
        x: [Value<'_>; 2],
        y: [Value<'_>; 2],
        exec: &ExecContext<'_>,
    ) -> Result<OwnedValue> {
        if y.iter().any(|v| Number::of(v).is_none()) {
            return Ok(Value::Null.to_owned_value());
        }
        let run = subtract(x[1], x[0], exec.env)?;
        if run.get().as_f64() == Some(0.0) {
            return Ok(Value::Null.to_owned_value());
        }
        let rise = subtract(y[1], y[0], exec.env)?;
        let slope = divide(rise.get(), run.get(), exec.env)?;
        match self.unit_ms {
            None => Ok(slope),
            // The order of the operations decides the last digit; MongoDB's documentation shows it.
            Some(ms) => multiply(slope.get(), Value::Int64(ms), exec.env),
        }
    }

    /// The area between two neighbours; zero if either value is not a number.
    fn trapezoid(
        &self,
        x: [Value<'_>; 2],
        y: [Value<'_>; 2],
        exec: &ExecContext<'_>,
    ) -> Result<OwnedValue> {
        let width = subtract(x[1], x[0], exec.env)?;
        let height = add(y[0], y[1], exec.env)?;
        let twice = multiply(width.get(), height.get(), exec.env)?;
        let divisor = 2 * self.unit_ms.unwrap_or(1);
        let area = divide(twice.get(), Value::Int64(divisor), exec.env)?;
        Ok(area)
    }
}

impl WindowFn for OverField {
    fn reads(&self, reads: &mut RequiredFields) {
        self.input.reads(reads);
        reads.add_path(&self.by);
    }

    fn compute(&self, part: &Partition, exec: &ExecContext<'_>) -> Result<Vec<OwnedValue>> {
        let spans = self.bounds.spans(part, exec)?;
        let xs = part
            .docs
            .iter()
            .map(|d| self.position(plain_at(d, &self.by)))
            .collect::<Result<Vec<_>>>()?;
        let ys = part.values(&self.input, exec)?;
        let mut out = Vec::with_capacity(spans.len());
        for (start, end) in spans {
            exec.env.check_interrupt()?;
            let (Some(x), Some(y)) = (xs.get(start..end), ys.get(start..end)) else {
                continue;
            };
            out.push(if self.integral {
                self.area(x, y, exec)?
            } else {
                self.slope(x, y, exec)?
            });
        }
        Ok(out)
    }
}

impl OverField {
    fn slope(
        &self,
        x: &[OwnedValue],
        y: &[OwnedValue],
        exec: &ExecContext<'_>,
    ) -> Result<OwnedValue> {
        match (x, y) {
            ([x0, .., x1], [y0, .., y1]) => {
                self.derivative([x0.get(), x1.get()], [y0.get(), y1.get()], exec)
            }
            _ => Ok(Value::Null.to_owned_value()),
        }
    }

    fn area(
        &self,
        x: &[OwnedValue],
        y: &[OwnedValue],
        exec: &ExecContext<'_>,
    ) -> Result<OwnedValue> {
        let numbers: Vec<(Value<'_>, Value<'_>)> = x
            .iter()
            .zip(y)
            .map(|(x, y)| (x.get(), y.get()))
            .filter(|(_, y)| Number::of(y).is_some())
            .collect();
        if numbers.is_empty() {
            return Ok(Value::Null.to_owned_value());
        }
        let mut sum = Value::Double(0.0).to_owned_value();
        for pair in numbers.windows(2) {
            if let [(x0, y0), (x1, y1)] = pair {
                let area = self.trapezoid([*x0, *x1], [*y0, *y1], exec)?;
                sum = add(sum.get(), area.get(), exec.env)?;
            }
        }
        Ok(sum)
    }
}
