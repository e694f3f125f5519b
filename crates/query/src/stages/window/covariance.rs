//! `$covariancePop` and `$covarianceSamp`, `[x, y]`: covariance over a window; a pair counts only
//! if both are numbers. Null without pairs (for a sample: with fewer than two).

use super::bounds::Bounds;
use super::function::{WindowContext, WindowFn};
use super::partition::Partition;
use super::removable::{Slider, SlidingSum, is_finite};
use crate::exec::ExecContext;
use model::{Number, OwnedValue, Result, Value};
use operators::RequiredFields;
use operators::expr::{self, BoxExpr};

pub(super) fn parse(
    wcx: &mut WindowContext<'_, '_>,
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
        // Any other argument never gives a pair, but it must be a valid expression.
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

/// The coordinates of one document.
#[derive(Clone, Copy)]
struct Pair {
    x: Number,
    y: Number,
}

/// Welford's recurrence, with sums from which pairs can be removed.
#[derive(Default, Clone, Copy)]
struct State {
    count: i64,
    x: SlidingSum,
    y: SlidingSum,
    products: SlidingSum,
    /// Number of pairs with an infinity or NaN.
    beyond: i64,
    /// The sum of these infinities and NaNs.
    beyond_sum: SlidingSum,
}

impl State {
    /// Counts a pair with an infinity or NaN; returns whether it was one. The coordinates are added
    /// separately: infinities of both signs give NaN.
    fn update_beyond(&mut self, pair: Pair, times: i64) -> bool {
        let special = [pair.x, pair.y].into_iter().filter(|n| !is_finite(*n));
        let mut found = false;
        for n in special {
            found = true;
            let n = Number::Double(n.to_f64());
            match times > 0 {
                true => self.beyond_sum.add(n),
                false => self.beyond_sum.remove(n),
            }
        }
        self.beyond += if found { times } else { 0 };
        found
    }

    /// The product of the distances from the means; `None` while there is no mean.
    fn product(&self, Pair { x, y }: Pair) -> Option<Number> {
        Some(multiply(
            subtract(x, self.x.mean()?),
            subtract(y, self.y.mean()?),
        ))
    }

    fn add(&mut self, pair: Pair) {
        if self.update_beyond(pair, 1) {
            return;
        }
        self.count += 1;
        self.y.add(pair.y);
        if let Some(p) = self.product(pair) {
            self.products.add(p);
        }
        self.x.add(pair.x);
    }

    fn remove(&mut self, pair: Pair) {
        if self.update_beyond(pair, -1) {
            return;
        }
        self.count -= 1;
        self.x.remove(pair.x);
        if let Some(p) = self.product(pair) {
            self.products.remove(p);
        }
        self.y.remove(pair.y);
    }

    fn value(&self, sample: bool) -> Value<'static> {
        let divisor = self.count - i64::from(sample);
        if divisor <= 0 {
            return Value::Null;
        }
        if self.count == 1 {
            return Value::Double(0.0);
        }
        if self.beyond > 0 {
            return Value::Double(self.beyond_sum.value().to_f64());
        }
        let divisor = Number::Double(divisor as f64);
        match self.products.value() {
            Number::Decimal(d) => Value::Decimal128(d / divisor.to_decimal()),
            n => Value::Double(n.to_f64() / divisor.to_f64()),
        }
    }
}

/// `a - b`, a decimal when either is one, else a double.
fn subtract(a: Number, b: Number) -> Number {
    match (a, b) {
        (Number::Decimal(_), _) | (_, Number::Decimal(_)) => {
            Number::Decimal(a.to_decimal() - b.to_decimal())
        }
        _ => Number::Double(a.to_f64() - b.to_f64()),
    }
}

/// `a * b`, a decimal when either is one, else a double.
fn multiply(a: Number, b: Number) -> Number {
    match (a, b) {
        (Number::Decimal(_), _) | (_, Number::Decimal(_)) => {
            Number::Decimal(a.to_decimal() * b.to_decimal())
        }
        _ => Number::Double(a.to_f64() * b.to_f64()),
    }
}

impl WindowFn for Covariance {
    fn reads(&self, reads: &mut RequiredFields) {
        for e in self.pair.iter().flat_map(|(x, y)| [x, y]) {
            e.reads(reads);
        }
    }

    fn compute(&self, part: &Partition, exec: &ExecContext<'_>) -> Result<Vec<OwnedValue>> {
        let spans = self.bounds.spans(part, exec)?;
        let Some((x, y)) = &self.pair else {
            return Ok(spans.iter().map(|_| Value::Null.to_owned_value()).collect());
        };
        let (xs, ys) = (part.values(x, exec)?, part.values(y, exec)?);
        let pairs: Vec<Option<Pair>> = xs
            .iter()
            .zip(&ys)
            .map(|(x, y)| {
                Some(Pair {
                    x: Number::of(&x.get())?,
                    y: Number::of(&y.get())?,
                })
            })
            .collect();
        let pair = |i: usize| pairs.get(i).copied().flatten();
        let (mut state, mut slider) = (State::default(), Slider::default());
        let mut out = Vec::with_capacity(spans.len());
        for (start, end) in spans {
            exec.env.check_interrupt()?;
            let add = |s: &mut State, i| pair(i).into_iter().for_each(|p| s.add(p));
            let remove = |s: &mut State, i| pair(i).into_iter().for_each(|p| s.remove(p));
            slider.move_to(start..end, &mut state, add, remove);
            out.push(state.value(self.sample).to_owned_value());
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Decimal128;

    fn compute_covariance(pairs: &[(Number, Number)], sample: bool) -> String {
        let mut state = State::default();
        pairs.iter().for_each(|&(x, y)| state.add(Pair { x, y }));
        format!("{:?}", state.value(sample))
    }

    #[test]
    fn decimals_keep_their_exponents() {
        let d = |t: &str| Number::Decimal(Decimal128::parse(t).unwrap());
        let (i, f) = (Number::Int32, Number::Double);
        let mixed = [
            (d("1"), f(2.0)),
            (f(2.0), i(4)),
            (i(3), Number::Int64(6)),
            (Number::Int64(4), d("8")),
        ];
        assert_eq!(
            compute_covariance(&mixed, false),
            "Decimal128(2.50000000000000)"
        );
        let equal = [(d("42.5"), d("99.9")); 3];
        assert_eq!(compute_covariance(&equal, true), "Decimal128(0E+12)");
        assert_eq!(compute_covariance(&equal[..1], false), "Double(0.0)");
        let most = "9.999999999999999999999999999999999E+6144";
        let large = [(d(most), d("1")), (d(most), d("2"))];
        assert_eq!(compute_covariance(&large, true), "Decimal128(0E+14)");
        assert_eq!(
            compute_covariance(&[large[0], large[1], (d(most), d("3"))], true),
            "Decimal128(-Infinity)"
        );
        let nan = [(d("1"), d("2")), (d("NaN"), d("4")), (d("3"), d("6"))];
        assert_eq!(compute_covariance(&nan, false), "Double(NaN)");
    }

    /// Removing pairs leaves the same rounding errors as in MongoDB.
    #[test]
    fn pairs_leave_in_the_order_they_came() {
        let pairs = [
            (1.0, 10.0),
            (2.0, 20.0),
            (f64::INFINITY, 30.0),
            (4.0, 40.0),
            (5.0, 50.0),
        ];
        let pair = |i: usize| Pair {
            x: Number::Double(pairs[i].0),
            y: Number::Double(pairs[i].1),
        };
        let (mut state, mut slider, mut all) = (State::default(), Slider::default(), Vec::new());
        for positions in [0..2, 0..3, 1..4, 2..5, 3..5] {
            let (add, remove) = (
                |s: &mut State, i| s.add(pair(i)),
                |s: &mut State, i| s.remove(pair(i)),
            );
            slider.move_to(positions, &mut state, add, remove);
            all.push(state.value(false).as_f64().unwrap());
        }
        let infinite = f64::INFINITY;
        assert_eq!(
            all,
            [2.5, infinite, infinite, infinite, 2.500_000_000_000_010_7]
        );
    }
}
