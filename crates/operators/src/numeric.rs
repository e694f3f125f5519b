//! Sums that many operators share: compensated addition of doubles, and the choice of the narrowest integer type.

use model::{Decimal128, Number, Value};

/// An int when it fits, else a long.
pub fn int_or_long(n: i64) -> Value<'static> {
    i32::try_from(n).map_or(Value::Int64(n), Value::Int32)
}

/// A sum in two doubles, so that adding many numbers keeps (about) 106 bits; integers of 64 bits stay exact.
#[derive(Clone, Copy, Default, Debug)]
pub struct DoubleDouble {
    sum: f64,
    rest: f64,
    /// Plain sum of NaN and infinities, which compensation would turn into NaN.
    special: f64,
}

impl DoubleDouble {
    /// Adds a double.
    pub fn add(&mut self, x: f64) {
        self.special += x;
        let sum = self.sum + x;
        // Knuth's two-sum: the exact error of the addition.
        let virtual_x = sum - self.sum;
        let error = (self.sum - (sum - virtual_x)) + (x - virtual_x);
        self.sum = sum;
        self.rest += error;
    }
    /// Adds a long exactly: as its upper and lower half, both of which are exact doubles.
    pub fn add_i64(&mut self, n: i64) {
        let low = n as i32;
        self.add((i128::from(n) - i128::from(low)) as f64);
        self.add(f64::from(low));
    }
    /// The nearest double.
    pub fn to_f64(self) -> f64 {
        if self.special.is_finite() { self.sum + self.rest } else { self.special }
    }
    /// The sum as a long, halves rounded away from zero; `None` when it is out of range or not finite.
    pub fn to_i64(self) -> Option<i64> {
        if !self.special.is_finite() || self.sum.abs() > 1e19 {
            return None;
        }
        // Integer parts exactly, fractions as doubles.
        let whole = self.sum.trunc() as i128 + self.rest.trunc() as i128;
        let fraction = self.sum.fract() + self.rest.fract();
        i64::try_from(whole + fraction.round() as i128).ok()
    }
    /// The sum as a decimal.
    pub fn to_decimal(self) -> Decimal128 {
        match self.to_i64() {
            Some(n) if self.sum.fract() == 0.0 && self.rest.fract() == 0.0 => Decimal128::from_i64(n),
            _ => Decimal128::from_f64(self.to_f64()),
        }
    }
}

/// The sum of numbers, typed by the widest: int, long, double, decimal.
#[derive(Clone, Copy, Debug, Default)]
pub struct NumberSum {
    doubles: DoubleDouble,
    decimals: Option<Decimal128>,
    has_long: bool,
    has_double: bool,
}

impl NumberSum {
    /// Adds a number.
    pub fn add(&mut self, n: Number) {
        match n {
            Number::Int32(i) => self.doubles.add(f64::from(i)),
            Number::Int64(i) => {
                self.has_long = true;
                self.doubles.add_i64(i);
            }
            Number::Double(x) => {
                self.has_double = true;
                self.doubles.add(x);
            }
            Number::Decimal(d) => self.decimals = Some(self.decimals.map_or(d, |sum| sum + d)),
        }
    }
    /// The sum: integers widen to long and then to double rather than overflow.
    pub fn value(&self) -> Value<'static> {
        if let Some(d) = self.decimals {
            return Value::Decimal128(d + self.doubles.to_decimal());
        }
        match self.doubles.to_i64() {
            Some(n) if !self.has_double => if self.has_long { Value::Int64(n) } else { int_or_long(n) },
            _ => Value::Double(self.doubles.to_f64()),
        }
    }
    /// The sum rounded to a long; `None` when it has none.
    pub fn to_i64(&self) -> Option<i64> {
        match self.decimals {
            Some(d) => (d + self.doubles.to_decimal()).to_i64(model::Rounding::HalfEven),
            None => self.doubles.to_i64(),
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
        assert!(matches!(sum(&[Int32(i32::MAX), Int32(1)]), Value::Int64(2_147_483_648)));
        assert!(matches!(sum(&[Int64(i64::MAX), Int64(i64::MIN)]), Value::Int64(-1)));
        assert!(matches!(sum(&[Int64(i64::MAX), Int32(1)]), Value::Double(9_223_372_036_854_775_808.0)));
        assert!(matches!(sum(&[Int64(i64::MAX), Int32(1), Int32(-1)]), Value::Int64(i64::MAX)));
        assert!(matches!(sum(&[Double(0.1), Double(0.2), Double(-0.3)]), Value::Double(x) if x.abs() < 1e-16));
        assert!(matches!(sum(&[Double(f64::INFINITY), Double(1.0)]), Value::Double(f64::INFINITY)));
        assert!(matches!(sum(&[Int32(1), Decimal(Decimal128::from_i64(2))]), Value::Decimal128(d) if d.to_string() == "3"));
    }
}
