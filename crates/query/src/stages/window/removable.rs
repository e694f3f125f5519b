//! Sums and deviations from which values can be removed. The steps are MongoDB's for sliding
//! windows, because rounding, result types and the effect of infinities depend on their order.

use model::decimal::DecimalParts;
use model::{Decimal128, Number, Value};
use operators::numeric::DoubleDouble;
use std::ops::Range;

/// The sum of the numbers in a window: a double or, if the window has a decimal, a decimal.
#[derive(Clone, Copy)]
pub(super) struct SlidingSum {
    count: i64,
    decimals: i64,
    nans: i64,
    positive_infinities: i64,
    negative_infinities: i64,
    binary: DoubleDouble,
    decimal: Decimal128,
}

impl Default for SlidingSum {
    fn default() -> SlidingSum {
        SlidingSum {
            count: 0,
            decimals: 0,
            nans: 0,
            positive_infinities: 0,
            negative_infinities: 0,
            binary: DoubleDouble::default(),
            decimal: Decimal128::ZERO,
        }
    }
}

impl SlidingSum {
    pub(super) fn add(&mut self, n: Number) {
        self.update(n, 1);
    }

    /// Removes a number that was added.
    pub(super) fn remove(&mut self, n: Number) {
        self.update(n, -1);
    }

    fn update(&mut self, n: Number, times: i64) {
        self.count += times;
        self.decimals += if matches!(n, Number::Decimal(_)) {
            times
        } else {
            0
        };
        if n.is_nan() {
            self.nans += times;
        } else if !is_finite(n) {
            match n.to_f64() > 0.0 {
                true => self.positive_infinities += times,
                false => self.negative_infinities += times,
            }
        } else {
            match n {
                Number::Int32(i) => self.binary.add_integer(i128::from(i) * i128::from(times)),
                Number::Int64(i) => self.binary.add_integer(i128::from(i) * i128::from(times)),
                Number::Double(x) => self.binary.add(x * times as f64),
                Number::Decimal(d) if times < 0 => self.decimal = self.decimal + -d,
                Number::Decimal(d) => self.decimal = self.decimal + d,
            }
        }
    }

    /// The sum.
    pub(super) fn value(&self) -> Number {
        let special = match (self.positive_infinities > 0, self.negative_infinities > 0) {
            (true, true) => Some(f64::NAN),
            _ if self.nans > 0 => Some(f64::NAN),
            (true, false) => Some(f64::INFINITY),
            (false, true) => Some(f64::NEG_INFINITY),
            (false, false) => None,
        };
        match (special, self.decimals > 0) {
            (Some(x), true) => Number::Decimal(Decimal128::from_f64(x)),
            (Some(x), false) => Number::Double(x),
            (None, true) => Number::Decimal(self.decimal + self.binary.to_decimal()),
            (None, false) => Number::Double(self.binary.value()),
        }
    }

    /// The mean; `None` without numbers.
    pub(super) fn mean(&self) -> Option<Number> {
        (self.count > 0).then(|| match self.value() {
            Number::Decimal(d) => Number::Decimal(d / Decimal128::from_i64(self.count)),
            n => Number::Double(n.to_f64() / self.count as f64),
        })
    }
}

/// Neither infinite nor NaN.
pub(super) fn is_finite(n: Number) -> bool {
    match n {
        Number::Double(x) => x.is_finite(),
        Number::Decimal(d) => matches!(d.parts(), DecimalParts::Finite { .. }),
        Number::Int32(_) | Number::Int64(_) => true,
    }
}

/// The standard deviation of the numbers in a sliding window.
#[derive(Clone, Copy, Default)]
pub(super) struct SlidingDeviation {
    /// Number of finite values, and of others.
    count: i64,
    beyond: i64,
    sum: DoubleDouble,
    squares: DoubleDouble,
}

impl SlidingDeviation {
    pub(super) fn add(&mut self, n: Number) {
        self.update(n, 1);
    }

    /// Removes a number that was added.
    pub(super) fn remove(&mut self, n: Number) {
        self.update(n, -1);
    }

    fn update(&mut self, n: Number, times: i64) {
        if !is_finite(n) {
            self.beyond += times;
            return;
        }
        let x = n.to_f64();
        if self.count == 0 {
            self.count = 1;
            self.sum.add(x);
            return;
        }
        if self.count + times == 0 {
            *self = SlidingDeviation {
                beyond: self.beyond,
                ..SlidingDeviation::default()
            };
            return;
        }
        let delta = self.count as f64 * x - self.sum.value();
        self.count += times;
        self.sum.add(x * times as f64);
        let weight = (self.count * (self.count - times)) as f64;
        self.squares.add(delta * delta * times as f64 / weight);
    }

    /// Null with infinities, NaN or too few numbers; the integer zero for a single number, and if
    /// rounding has made the sum of squares negative.
    pub(super) fn value(&mut self, sample: bool) -> Value<'static> {
        let divisor = self.count - i64::from(sample);
        if self.beyond > 0 || divisor <= 0 {
            return Value::Null;
        }
        let squares = self.squares.value();
        if squares < 0.0 || (!sample && self.count == 1) {
            self.squares = DoubleDouble::default();
            return Value::Int32(0);
        }
        Value::Double((squares / divisor as f64).sqrt())
    }
}

/// Moves a window from one range of a partition to the next: first the new values are added, then
/// the old ones are removed, as in MongoDB.
#[derive(Default)]
pub(super) struct Slider {
    start: usize,
    end: usize,
}

impl Slider {
    /// Calls `add` and `remove` with the positions that enter and leave.
    pub(super) fn move_to<S>(
        &mut self,
        positions: Range<usize>,
        state: &mut S,
        add: impl Fn(&mut S, usize),
        remove: impl Fn(&mut S, usize),
    ) {
        let Range { start, end } = positions;
        (self.end.max(start)..end).for_each(|i| add(state, i));
        (self.start..start.min(self.end)).for_each(|i| remove(state, i));
        (self.start, self.end) = (start, end.max(self.end).max(start));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_has_no_trace_of_removed_values() {
        let mut sum = SlidingSum::default();
        assert!(sum.mean().is_none());
        sum.add(Number::Double(f64::INFINITY));
        sum.add(Number::Int32(3));
        assert_eq!(sum.value().to_f64(), f64::INFINITY);
        sum.remove(Number::Double(f64::INFINITY));
        assert!(matches!(sum.value(), Number::Double(3.0)));
        let half = Decimal128::parse("0.50").unwrap();
        sum.add(Number::Decimal(half));
        assert!(matches!(sum.value(), Number::Decimal(d) if d.to_string() == "3.50"));
        sum.remove(Number::Decimal(half));
        assert!(matches!(sum.value(), Number::Double(3.0)));
    }

    #[test]
    fn deviation_of_a_moving_window() {
        let mut d = SlidingDeviation::default();
        assert!(d.value(false).is_nullish());
        d.add(Number::Int32(1));
        assert!(matches!(d.value(false), Value::Int32(0)) && d.value(true).is_nullish());
        d.add(Number::Int32(3));
        assert_eq!(d.value(false).as_f64(), Some(1.0));
        d.add(Number::Double(f64::NAN));
        assert!(d.value(false).is_nullish());
        d.remove(Number::Double(f64::NAN));
        d.remove(Number::Int32(1));
        assert!(matches!(d.value(false), Value::Int32(0)));
        // An infinity or NaN leaves no trace when it is removed, even if it came first.
        let mut d = SlidingDeviation::default();
        for n in [f64::INFINITY, 10.0, 20.0] {
            d.add(Number::Double(n));
        }
        d.remove(Number::Double(f64::INFINITY));
        assert_eq!(d.value(false).as_f64(), Some(5.0));
    }
}
