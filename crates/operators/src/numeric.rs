//! Sums that many operators share: compensated addition of doubles, and the choice of the narrowest
//! integer type.

use model::decimal::DecimalParts;
use model::{Decimal128, Number, Value};

/// The number as an int where it fits, else as a long.
pub fn int_or_long(n: i64) -> Value<'static> {
    i32::try_from(n).map_or(Value::Int64(n), Value::Int32)
}

/// A sum held as an unevaluated pair of doubles (about 106 bits).
#[derive(Clone, Copy, Default)]
pub struct DoubleDouble {
    sum: f64,
    rest: f64,
    /// The plain sum; used when infinities make the pair NaN.
    plain: f64,
}

/// a + b and its rounding error.
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let s = a + b;
    let z = s - a;
    (s, (a - (s - z)) + (b - z))
}

impl DoubleDouble {
    /// Adds a double.
    pub fn add(&mut self, x: f64) {
        self.plain += x;
        let (x, low) = two_sum(x, self.rest);
        let (s, rest) = two_sum(self.sum, x);
        let small = rest + low;
        self.sum = s + small;
        self.rest = small - (self.sum - s);
    }
    /// Adds an integer, exactly within 106 bits.
    pub fn add_integer(&mut self, n: i128) {
        let high = n as f64;
        self.add(high);
        let low = n.saturating_sub(high as i128);
        if low != 0 {
            self.add(low as f64);
        }
    }
    /// Adds another sum.
    pub fn merge(&mut self, other: &DoubleDouble) {
        let plain = self.plain + other.plain;
        self.add(other.sum);
        self.add(other.rest);
        self.plain = plain;
    }
    /// The nearest double.
    pub fn value(&self) -> f64 {
        if self.sum.is_nan() {
            self.plain
        } else {
            self.sum
        }
    }
    /// The sum as a decimal, with the exact digits of both doubles.
    pub fn to_decimal(self) -> Decimal128 {
        if self.sum.is_nan() {
            return exact(self.plain);
        }
        exact(self.sum) + exact(self.rest)
    }
}

/// A double with 34 digits, without trailing zeros in its fraction: they would count in the sum's
/// exponent.
fn exact(n: f64) -> Decimal128 {
    let d = Decimal128::from_f64_exact34(n);
    let DecimalParts::Finite {
        negative,
        mut coefficient,
        mut exponent,
    } = d.parts()
    else {
        return d;
    };
    while exponent < 0 && coefficient != 0 && coefficient % 10 == 0 {
        coefficient /= 10;
        exponent += 1;
    }
    Decimal128::from_parts(negative, coefficient, exponent).unwrap_or(d)
}

/// The sum of numbers as `$add` computes it, typed by the widest: int, long, double, decimal.
/// Unlike in `$sum`, doubles are converted to decimals with 15 digits.
#[derive(Clone, Copy, Default)]
pub(crate) struct NumberSum {
    integers: i128,
    doubles: Option<DoubleDouble>,
    decimals: Option<Decimal128>,
    has_long: bool,
}

impl NumberSum {
    /// Adds a number.
    pub(crate) fn add(&mut self, n: Number) {
        match n {
            Number::Int32(i) => self.integers += i128::from(i),
            Number::Int64(i) => {
                self.has_long = true;
                self.integers += i128::from(i);
            }
            Number::Double(x) => self.doubles.get_or_insert_default().add(x),
            Number::Decimal(d) => self.decimals = Some(self.decimals.map_or(d, |sum| sum + d)),
        }
    }

    /// The sum of everything but the decimals, if there is a double.
    fn binary(&self) -> Option<DoubleDouble> {
        let mut sum = self.doubles?;
        sum.add_integer(self.integers);
        Some(sum)
    }

    fn decimal(&self) -> Option<Decimal128> {
        let others = match self.binary() {
            Some(sum) => Decimal128::from_f64(sum.value()),
            None => Decimal128::from_i128(self.integers),
        };
        self.decimals.map(|d| d + others)
    }

    /// The sum: integers widen to long and then to double rather than overflow.
    pub(crate) fn value(&self) -> Value<'static> {
        if let Some(d) = self.decimal() {
            return Value::Decimal128(d);
        }
        match (self.binary(), i64::try_from(self.integers)) {
            (Some(sum), _) => Value::Double(sum.value()),
            (None, Ok(n)) if self.has_long => Value::Int64(n),
            (None, Ok(n)) => int_or_long(n),
            (None, Err(_)) => Value::Double(self.integers as f64),
        }
    }

    /// The sum rounded to a long; `None` when it does not fit a long.
    pub(crate) fn to_i64(self) -> Option<i64> {
        match (self.decimal(), self.binary()) {
            (Some(d), _) => d.to_i64(model::Rounding::HalfEven),
            (None, Some(sum)) => Number::Double(sum.value().round()).to_i64_exact(),
            (None, None) => i64::try_from(self.integers).ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(numbers: &[Number]) -> Value<'static> {
        let mut s = NumberSum::default();
        numbers.iter().for_each(|n| s.add(*n));
        s.value()
    }

    #[test]
    fn sums_widen_instead_of_overflowing() {
        use Number::*;
        assert!(matches!(sum(&[]), Value::Int32(0)));
        assert!(matches!(
            sum(&[Int32(i32::MAX), Int32(1)]),
            Value::Int64(2_147_483_648)
        ));
        assert!(matches!(
            sum(&[Int64(i64::MAX), Int64(i64::MIN)]),
            Value::Int64(-1)
        ));
        assert!(matches!(
            sum(&[Int64(i64::MAX), Int32(1)]),
            Value::Double(9_223_372_036_854_775_808.0)
        ));
        assert!(matches!(
            sum(&[Int64(i64::MAX), Int32(1), Int32(-1)]),
            Value::Int64(i64::MAX)
        ));
        assert!(
            matches!(sum(&[Double(0.1), Double(0.2), Double(-0.3)]), Value::Double(x)
                if x.abs() < 1e-16)
        );
        assert!(matches!(
            sum(&[Double(f64::INFINITY), Double(1.0)]),
            Value::Double(f64::INFINITY)
        ));
        assert!(
            matches!(sum(&[Double(2.0), Decimal(Decimal128::from_i64(3))]), Value::Decimal128(d)
                if d.to_string() == "5.00000000000000")
        );
        assert!(
            matches!(sum(&[Int32(1), Decimal(Decimal128::from_i64(2))]), Value::Decimal128(d)
                if d.to_string() == "3")
        );
    }
}
