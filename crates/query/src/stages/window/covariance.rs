//! `$covariancePop` and `$covarianceSamp`, `[x, y]`: covariance over a window; pairs with anything
//! but numbers do not count. Null for no pairs (for a sample: fewer than two).

use super::bounds::Bounds;
use super::{Partition, WindowCx, WindowFn};
use crate::pipeline::Rt;
use model::{Decimal128, Number, OwnedValue, Result, Value};
use operators::expr::{self, BoxExpr};

pub(super) fn parse(
    wcx: &mut WindowCx<'_, '_>,
    name: &'static str,
    arg: Value<'_>,
) -> Result<Box<dyn WindowFn>> {
    let pair = match arg {
        Value::Array(a) if a.len() == 2 => {
            let mut items = a.iter();
            let (x, y) = (
                items.next().unwrap_or_default(),
                items.next().unwrap_or_default(),
            );
            Some((expr::parse(wcx.cx, x)?, expr::parse(wcx.cx, y)?))
        }
        // Anything else never gives a pair, but is still an expression.
        other => {
            expr::parse(wcx.cx, other)?;
            None
        }
    };
    Ok(Box::new(Covariance {
        pair,
        sample: name == "$covarianceSamp",
        bounds: wcx.bounds()?,
    }))
}

struct Covariance {
    pair: Option<(BoxExpr, BoxExpr)>,
    sample: bool,
    bounds: Bounds,
}

/// Welford's recurrence.
#[derive(Default, Clone, Copy)]
struct State {
    n: f64,
    mean_x: f64,
    mean_y: f64,
    c: f64,
    /// What is not finite; it counts only beside at least two finite pairs.
    beyond: f64,
    decimal: bool,
}

impl State {
    fn add(&mut self, x: Number, y: Number) {
        self.decimal |= matches!(x, Number::Decimal(_)) || matches!(y, Number::Decimal(_));
        let (x, y) = (x.to_f64(), y.to_f64());
        if !x.is_finite() || !y.is_finite() {
            // Each coordinate counts by itself: infinities of both signs cancel to NaN.
            self.beyond +=
                if x.is_finite() { 0.0 } else { x } + if y.is_finite() { 0.0 } else { y };
            return;
        }
        self.n += 1.0;
        let dx = x - self.mean_x;
        self.mean_x += dx / self.n;
        self.mean_y += (y - self.mean_y) / self.n;
        self.c += dx * (y - self.mean_y);
    }
    fn value(&self, sample: bool) -> Value<'static> {
        let divisor = if sample { self.n - 1.0 } else { self.n };
        if divisor <= 0.0 {
            return Value::Null;
        }
        let v = if self.n > 1.0 {
            self.c / divisor + self.beyond
        } else {
            0.0
        };
        if self.decimal {
            Value::Decimal128(Decimal128::from_f64(v))
        } else {
            Value::Double(v)
        }
    }
}

impl WindowFn for Covariance {
    fn compute(&self, part: &Partition, rt: &Rt<'_>) -> Result<Vec<OwnedValue>> {
        let spans = self.bounds.spans(part, rt)?;
        let Some((x, y)) = &self.pair else {
            return Ok(spans.iter().map(|_| Value::Null.to_owned_value()).collect());
        };
        let (xs, ys) = (part.values(x, rt)?, part.values(y, rt)?);
        let pairs: Vec<Option<(Number, Number)>> = xs
            .iter()
            .zip(&ys)
            .map(|(x, y)| Some((Number::of(&x.get())?, Number::of(&y.get())?)))
            .collect();
        let mut running: Option<(usize, usize, State)> = None;
        let mut out = Vec::with_capacity(spans.len());
        for (start, end) in spans {
            rt.env.check_interrupt()?;
            let (mut done, mut state) = match running {
                Some((s, e, state)) if s == start && e <= end => (e, state),
                _ => (start, State::default()),
            };
            for (x, y) in pairs.get(done..end).unwrap_or(&[]).iter().flatten() {
                state.add(*x, *y);
            }
            done = end;
            running = Some((start, done, state));
            out.push(state.value(self.sample).to_owned_value());
        }
        Ok(out)
    }
}
