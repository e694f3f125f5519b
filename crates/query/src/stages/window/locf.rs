//! `$locf: expression`: replaces null and missing by the last other value. `$linearFill:
//! expression`: interpolates them between the nearest numbers over the single sort field. Errors:
//! `$locf` 9 with a window; `$linearFill` 605001 without a single sort field or with a window,
//! 605002 for two documents with the same sort value, 6050106 for values or sort values that are no
//! numbers (sort values may be dates).

use super::function::{WindowContext, WindowFn};
use super::partition::Partition;
use crate::exec::{ExecContext, SortBy};
use crate::path::plain_at;
use crate::stages::arithmetic::{add, divide, multiply, subtract};
use model::{FieldPath, Number, OwnedValue, Result, Value, bail, code, compare};
use operators::RequiredFields;
use operators::expr::{self, BoxExpr};
use std::cmp::Ordering;

pub(super) fn parse(
    wcx: &mut WindowContext<'_, '_>,
    name: &'static str,
    arg: Value<'_>,
) -> Result<Box<dyn WindowFn>> {
    wcx.no_window(name, code::FAILED_TO_PARSE)?;
    Ok(Box::new(Locf(expr::parse(wcx.cx, arg)?)))
}

struct Locf(BoxExpr);

impl WindowFn for Locf {
    fn reads(&self, reads: &mut RequiredFields) {
        self.0.reads(reads);
    }

    fn compute(&self, part: &Partition, exec: &ExecContext<'_>) -> Result<Vec<OwnedValue>> {
        let mut last = Value::Null.to_owned_value();
        let values = part.values(&self.0, exec)?.into_iter().map(|v| {
            if !v.get().is_nullish() {
                last = v;
            }
            last.clone()
        });
        Ok(values.collect())
    }
}

pub(super) fn parse_linear(
    wcx: &mut WindowContext<'_, '_>,
    name: &'static str,
    arg: Value<'_>,
) -> Result<Box<dyn WindowFn>> {
    wcx.no_window(name, code::FAILED_TO_PARSE)?;
    let by = match wcx.sort.map(|s| s.parts()) {
        Some([part]) => match &part.by {
            SortBy::Path(p) => p.clone(),
            SortBy::Meta(_) => bail!(
                605001,
                "{name} must be specified with a top level sortBy expression with exactly one \
                    element"
            ),
        },
        _ => bail!(
            605001,
            "{name} must be specified with a top level sortBy expression with exactly one element"
        ),
    };
    Ok(Box::new(LinearFill {
        input: expr::parse(wcx.cx, arg)?,
        by,
    }))
}

struct LinearFill {
    input: BoxExpr,
    by: FieldPath,
}

impl WindowFn for LinearFill {
    fn reads(&self, reads: &mut RequiredFields) {
        self.input.reads(reads);
        reads.add_path(&self.by);
    }

    fn compute(&self, part: &Partition, exec: &ExecContext<'_>) -> Result<Vec<OwnedValue>> {
        let mut values = part.values(&self.input, exec)?;
        let mut keys = Vec::with_capacity(values.len());
        for doc in part.docs.iter() {
            let key = plain_at(doc, &self.by);
            if Number::of(&key).is_none() && !matches!(key, Value::Date(_)) {
                bail!(
                    6050106,
                    "$linearFill requires sortBy values that are numbers or dates, but found {}",
                    key.type_name()
                );
            }
            if keys
                .last()
                .is_some_and(|k| compare(k, &key) == Ordering::Equal)
            {
                bail!(605002, "There can be no repeated values in the sort field");
            }
            keys.push(key);
        }
        let mut left: Option<usize> = None;
        for i in 0..values.len() {
            let Some(v) = values.get(i).map(|v| v.get()) else {
                break;
            };
            if v.is_nullish() {
                continue;
            }
            if Number::of(&v).is_none() {
                bail!(
                    6050106,
                    "$linearFill requires values that are numbers, null or missing, but found {}",
                    v.type_name()
                );
            }
            if let Some(l) = left
                && i > l + 1
            {
                self.fill(&mut values, &keys, l, i, exec)?;
            }
            left = Some(i);
        }
        for v in &mut values {
            if v.get().is_nullish() {
                *v = Value::Null.to_owned_value();
            }
        }
        Ok(values)
    }
}

impl LinearFill {
    /// Interpolates between two known values.
    fn fill(
        &self,
        values: &mut [OwnedValue],
        keys: &[Value<'_>],
        l: usize,
        r: usize,
        exec: &ExecContext<'_>,
    ) -> Result<()> {
        let (Some(y0), Some(y1)) = (values.get(l).cloned(), values.get(r).cloned()) else {
            return Ok(());
        };
        let (Some(x0), Some(x1)) = (keys.get(l), keys.get(r)) else {
            return Ok(());
        };
        let run = subtract(*x1, *x0, exec.env)?;
        let rise = subtract(y1.get(), y0.get(), exec.env)?;
        let slope = divide(rise.get(), run.get(), exec.env)?;
        for i in l + 1..r {
            let (Some(x), Some(slot)) = (keys.get(i), values.get_mut(i)) else {
                continue;
            };
            let along = subtract(*x, *x0, exec.env)?;
            let up = multiply(slope.get(), along.get(), exec.env)?;
            *slot = add(y0.get(), up.get(), exec.env)?;
        }
        Ok(())
    }
}
