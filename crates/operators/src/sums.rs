//! The sum of numbers of mixed types as `$sum` and `$avg` compute it: integers exactly, doubles in
//! double-double precision, decimals as decimals; the widest type seen decides the type of the
//! result.

use crate::numeric::DoubleDouble;
use model::{Decimal128, Number, Value};

/// Types seen, from narrow to wide.
#[derive(Clone, Copy, PartialEq, PartialOrd, Default)]
enum NumericWidth {
    #[default]
    Int32,
    Int64,
    Double,
    Decimal,
}

/// The running sum.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sum {
    width: NumericWidth,
    integers: i128,
    doubles: DoubleDouble,
    decimals: Option<Decimal128>,
}

impl Sum {
    /// Adds a number; other values are ignored.
    pub(crate) fn add(&mut self, v: &Value<'_>) {
        let Some(n) = Number::of(v) else { return };
        let width = match n {
            Number::Int32(n) => {
                self.integers += i128::from(n);
                NumericWidth::Int32
            }
            Number::Int64(n) => {
                self.integers += i128::from(n);
                NumericWidth::Int64
            }
            Number::Double(n) => {
                self.doubles.add(n);
                NumericWidth::Double
            }
            Number::Decimal(n) => {
                self.decimals = Some(self.decimals.unwrap_or(Decimal128::ZERO) + n);
                NumericWidth::Decimal
            }
        };
        if width > self.width {
            self.width = width;
        }
    }

    /// Adds another sum.
    pub(crate) fn merge(&mut self, other: &Sum) {
        self.integers += other.integers;
        self.doubles.merge(&other.doubles);
        self.decimals = add_sums(self.decimals, other.decimals);
        if other.width > self.width {
            self.width = other.width;
        }
    }

    fn binary(&self) -> DoubleDouble {
        let mut all = self.doubles;
        all.add_integer(self.integers);
        all
    }

    fn decimal(&self) -> Decimal128 {
        // Zero is added too: it decides the exponent of the sum.
        self.decimals.unwrap_or(Decimal128::ZERO) + self.binary().to_decimal()
    }

    /// The sum, in the widest type seen; integers that overflow their type become long, then
    /// double.
    pub(crate) fn total(&self) -> Value<'static> {
        match self.width {
            NumericWidth::Decimal => Value::Decimal128(self.decimal()),
            NumericWidth::Double => Value::Double(self.binary().value()),
            NumericWidth::Int32 if i32::try_from(self.integers).is_ok() => {
                Value::Int32(self.integers as i32)
            }
            _ => i64::try_from(self.integers)
                .map_or(Value::Double(self.integers as f64), Value::Int64),
        }
    }
}

/// The sum of two sums; `None` is the sum of no numbers.
fn add_sums(a: Option<Decimal128>, b: Option<Decimal128>) -> Option<Decimal128> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a + b),
        (one, other) => one.or(other),
    }
}

/// The running mean. MongoDB adds integers as doubles in the expression, and exactly in the
/// accumulator.
#[derive(Clone, Copy, Default)]
pub(crate) struct Mean<const EXACT: bool> {
    doubles: DoubleDouble,
    decimals: Option<Decimal128>,
    count: i64,
}

impl<const EXACT: bool> Mean<EXACT> {
    /// Adds a number; other values are ignored.
    pub(crate) fn add(&mut self, v: &Value<'_>) {
        let Some(n) = Number::of(v) else { return };
        self.count += 1;
        match n {
            Number::Decimal(n) => {
                self.decimals = Some(self.decimals.unwrap_or(Decimal128::ZERO) + n)
            }
            Number::Int64(n) if EXACT => self.doubles.add_integer(i128::from(n)),
            n => self.doubles.add(n.to_f64()),
        }
    }

    /// Adds the numbers of another mean.
    pub(crate) fn merge(&mut self, other: &Mean<EXACT>) {
        self.count += other.count;
        self.doubles.merge(&other.doubles);
        self.decimals = add_sums(self.decimals, other.decimals);
    }

    /// A double, or a decimal when one was seen; null without numbers.
    pub(crate) fn result(&self) -> Value<'static> {
        match (self.count, self.decimals) {
            (0, _) => Value::Null,
            (n, Some(d)) => {
                Value::Decimal128((d + self.doubles.to_decimal()) / Decimal128::from_i64(n))
            }
            (n, None) => Value::Double(self.doubles.value() / n as f64),
        }
    }
}

/// Mean and squared deviations in one pass (Welford).
#[derive(Clone, Copy, Default)]
pub(crate) struct Deviation {
    count: i64,
    mean: f64,
    squares: f64,
}

impl Deviation {
    /// Adds a number; other values are ignored.
    pub(crate) fn add(&mut self, v: &Value<'_>) {
        let Some(x) = v.as_f64() else { return };
        self.count += 1;
        let delta = x - self.mean;
        // Equal infinities would make NaN of nothing.
        if delta != 0.0 {
            self.mean += delta / self.count as f64;
            self.squares += delta * (x - self.mean);
        }
    }

    /// The standard deviation of the population or of a sample; null of too few numbers.
    pub(crate) fn result(&self, sample: bool) -> Value<'static> {
        let divisor = self.count - i64::from(sample);
        if divisor <= 0 {
            return Value::Null;
        }
        Value::Double((self.squares / divisor as f64).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Total and mean, with their types.
    fn sum(values: &[Value<'_>]) -> String {
        let mut s = Sum::default();
        let (mut m, mut exact) = (Mean::<false>::default(), Mean::<true>::default());
        values.iter().for_each(|v| s.add(v));
        values.iter().for_each(|v| m.add(v));
        values.iter().for_each(|v| exact.add(v));
        format!("{:?} {:?} {:?}", s.total(), m.result(), exact.result())
    }

    #[test]
    fn promotes_and_keeps_precision() {
        let (int, double) = (Value::Int32, Value::Double);
        let half = Value::Decimal128(Decimal128::parse("0.50").unwrap());
        let rows: [(&[Value<'_>], &str); 9] = [
            (
                &[Value::Int64(i64::MAX), Value::Int64(i64::MIN)],
                "Int64(-1) Double(0.0) Double(-0.5)",
            ),
            (
                &[int(i32::MAX), int(1)],
                "Int64(2147483648) Double(1073741824.0) Double(1073741824.0)",
            ),
            (
                &[Value::Int64(i64::MAX), int(1)],
                "Double(9.223372036854776e18) Double(4.611686018427388e18) \
                    Double(4.611686018427388e18)",
            ),
            (
                &[double(1e100), double(1.0), double(-1e100)],
                "Double(1.0) Double(0.3333333333333333) Double(0.3333333333333333)",
            ),
            (&[double(0.1); 10], "Double(1.0) Double(0.1) Double(0.1)"),
            (
                &[double(f64::INFINITY), int(1)],
                "Double(inf) Double(inf) Double(inf)",
            ),
            (&[Value::Null, Value::Bool(true)], "Int32(0) Null Null"),
            (&[int(1), int(2)], "Int32(3) Double(1.5) Double(1.5)"),
            (
                &[half, int(1)],
                "Decimal128(1.50) Decimal128(0.75) Decimal128(0.75)",
            ),
        ];
        for (values, want) in rows {
            assert_eq!(sum(values), want);
        }
    }

    #[test]
    fn deviation() {
        let mut d = Deviation::default();
        [2, 4, 4, 4, 5, 5, 7, 9]
            .iter()
            .for_each(|n| d.add(&Value::Int32(*n)));
        assert_eq!(d.result(false).as_f64(), Some(2.0));
        assert!(d.result(true).as_f64().is_some_and(|s| s > 2.0));
        assert!(Deviation::default().result(false).is_nullish());
    }
}
