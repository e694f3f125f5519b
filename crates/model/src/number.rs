//! `Number`: one of the four BSON numeric types, compared exactly across types.

use crate::decimal::DecimalParts;
use crate::{Decimal128, Value};
use std::cmp::Ordering;

/// A numeric value with its BSON type.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum Number {
    Int32(i32),
    Int64(i64),
    Double(f64),
    Decimal(Decimal128),
}

/// 2^63 as a double: the first value above every `i64`.
const TWO_63: f64 = 9_223_372_036_854_775_808.0;

impl Number {
    /// The number in a value, if it is one.
    pub fn of(v: &Value<'_>) -> Option<Number> {
        Some(match v {
            Value::Int32(n) => Number::Int32(*n),
            Value::Int64(n) => Number::Int64(*n),
            Value::Double(n) => Number::Double(*n),
            Value::Decimal128(n) => Number::Decimal(*n),
            _ => return None,
        })
    }
    /// The value of the same type.
    pub fn value(self) -> Value<'static> {
        match self {
            Number::Int32(n) => Value::Int32(n),
            Number::Int64(n) => Value::Int64(n),
            Number::Double(n) => Value::Double(n),
            Number::Decimal(n) => Value::Decimal128(n),
        }
    }
    /// Nearest double.
    pub fn to_f64(self) -> f64 {
        match self {
            Number::Int32(n) => f64::from(n),
            Number::Int64(n) => n as f64,
            Number::Double(n) => n,
            Number::Decimal(n) => n.to_f64(),
        }
    }
    /// As a decimal: integers exactly, doubles rounded to 15 digits as in MongoDB.
    pub fn to_decimal(self) -> Decimal128 {
        match self {
            Number::Int32(n) => Decimal128::from_i64(i64::from(n)),
            Number::Int64(n) => Decimal128::from_i64(n),
            Number::Double(n) => Decimal128::from_f64(n),
            Number::Decimal(n) => n,
        }
    }
    /// The exact integer value, if it is in the range of `i64`.
    pub fn to_i64_exact(self) -> Option<i64> {
        match self {
            Number::Int32(n) => Some(i64::from(n)),
            Number::Int64(n) => Some(n),
            Number::Double(n) => {
                (n.trunc() == n && (-TWO_63..TWO_63).contains(&n)).then_some(n as i64)
            }
            Number::Decimal(n) => n.to_i64_exact(),
        }
    }
    /// The whole number of MongoDB's lenient conversions, clamped to 64 bits: doubles are
    /// truncated, decimals round half to even, NaN is 0.
    pub fn to_i64_lenient(self) -> i64 {
        match self {
            n if n.is_nan() => 0,
            Number::Decimal(d) => round_half_even(&d),
            n => n.to_i64_exact().unwrap_or_else(|| n.to_f64() as i64),
        }
    }

    /// NaN of either kind.
    pub fn is_nan(self) -> bool {
        match self {
            Number::Double(n) => n.is_nan(),
            Number::Decimal(n) => n.is_nan(),
            Number::Int32(_) | Number::Int64(_) => false,
        }
    }
    /// Exact comparison by value; NaN equals NaN and is below every number.
    pub fn compare(&self, other: &Number) -> Ordering {
        use Number::{Decimal, Double, Int32, Int64};
        match (*self, *other) {
            (Int32(a), Int32(b)) => a.cmp(&b),
            (Int32(a), Int64(b)) => i64::from(a).cmp(&b),
            (Int64(a), Int32(b)) => a.cmp(&i64::from(b)),
            (Int64(a), Int64(b)) => a.cmp(&b),
            (Double(a), Double(b)) => compare_f64(a, b),
            (Int32(a), Double(b)) => compare_f64(f64::from(a), b),
            (Double(a), Int32(b)) => compare_f64(a, f64::from(b)),
            (Int64(a), Double(b)) => compare_i64_f64(a, b),
            (Double(a), Int64(b)) => compare_i64_f64(b, a).reverse(),
            (Decimal(a), Decimal(b)) => a.compare(&b),
            (Decimal(a), Int32(b)) => a.compare(&Decimal128::from_i64(i64::from(b))),
            (Int32(a), Decimal(b)) => Decimal128::from_i64(i64::from(a)).compare(&b),
            (Decimal(a), Int64(b)) => a.compare(&Decimal128::from_i64(b)),
            (Int64(a), Decimal(b)) => Decimal128::from_i64(a).compare(&b),
            (Double(a), Decimal(b)) => compare_f64_decimal(a, &b),
            (Decimal(a), Double(b)) => compare_f64_decimal(b, &a).reverse(),
        }
    }

    /// Appends bytes equal exactly for equal numbers.
    pub fn equality_key(self, out: &mut Vec<u8>) {
        if self.is_nan() {
            out.push(0);
        } else if let Some(n) = self.to_i64_exact() {
            out.push(1);
            out.extend_from_slice(&n.to_le_bytes());
        } else {
            match self {
                Number::Decimal(d) => {
                    let nearest = d.to_f64();
                    if compare_f64_decimal(nearest, &d) == Ordering::Equal {
                        out.push(2);
                        out.extend_from_slice(&nearest.to_le_bytes());
                    } else {
                        out.push(3);
                        out.extend_from_slice(&d.canonical().to_le_bytes());
                    }
                }
                other => {
                    out.push(2);
                    out.extend_from_slice(&other.to_f64().to_le_bytes());
                }
            }
        }
    }
}

impl Value<'_> {
    /// The number as an `i64`, if it equals one exactly (any numeric type).
    pub fn as_i64_exact(&self) -> Option<i64> {
        Number::of(self)?.to_i64_exact()
    }
    /// The number as the nearest double (any numeric type).
    pub fn as_f64(&self) -> Option<f64> {
        Some(Number::of(self)?.to_f64())
    }
}

fn compare_f64(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b)
        .unwrap_or_else(|| b.is_nan().cmp(&a.is_nan()))
}

fn compare_i64_f64(a: i64, b: f64) -> Ordering {
    if b.is_nan() || b < -TWO_63 {
        Ordering::Greater
    } else if b >= TWO_63 {
        Ordering::Less
    } else {
        // In range: compare integer parts exactly, then the fraction.
        let whole = b.trunc();
        a.cmp(&(whole as i64)).then_with(|| compare_f64(whole, b))
    }
}

fn compare_f64_decimal(a: f64, b: &Decimal128) -> Ordering {
    if a.is_nan() || b.is_nan() {
        return b.is_nan().cmp(&a.is_nan());
    }
    if a.is_infinite() {
        // A finite decimal may exceed every finite double, so it is not converted to a double here.
        let same = b.is_infinite() && b.is_negative() == (a < 0.0);
        return if same {
            Ordering::Equal
        } else {
            compare_f64(a, 0.0)
        };
    }
    // Large finite decimals have no finite double; they are still below infinity.
    if a.is_infinite() {
        return if a > 0.0 {
            Ordering::Greater
        } else {
            Ordering::Less
        };
    }
    // The nearest double decides unless it is equal; then the exact digits do.
    compare_f64(a, b.to_f64()).then_with(|| Decimal128::from_f64_exact34(a).compare(b))
}

fn round_half_even(d: &Decimal128) -> i64 {
    let DecimalParts::Finite {
        negative,
        coefficient,
        exponent,
    } = d.parts()
    else {
        return d.to_f64() as i64;
    };
    let Ok(digits) = u32::try_from(-exponent) else {
        return d.to_f64() as i64;
    };
    // More dropped digits than a coefficient can have: below one half.
    let Some(unit) = 10u128.checked_pow(digits) else {
        return 0;
    };
    let (whole, rest) = (coefficient / unit, coefficient % unit);
    let up = match rest.cmp(&(unit - rest)) {
        Ordering::Less => false,
        Ordering::Greater => true,
        Ordering::Equal => whole % 2 == 1,
    };
    let n = i64::try_from(whole + u128::from(up && rest > 0)).unwrap_or(i64::MAX);
    if negative { -n } else { n }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_across_types() {
        let big = (1i64 << 53) + 1;
        assert_eq!(
            Number::Int64(big).compare(&Number::Double(big as f64)),
            Ordering::Greater
        );
        assert_eq!(
            Number::Int64(i64::MAX).compare(&Number::Double(TWO_63)),
            Ordering::Less
        );
        let tenth = Decimal128::parse("0.1").unwrap();
        assert_eq!(
            Number::Double(0.1).compare(&Number::Decimal(tenth)),
            Ordering::Greater
        );
        assert_eq!(
            Number::Double(0.5).compare(&Number::Decimal(Decimal128::parse("0.50").unwrap())),
            Ordering::Equal
        );
        assert_eq!(
            Number::Double(-0.0).compare(&Number::Int32(0)),
            Ordering::Equal
        );
        let large = Decimal128::parse("1E+6000").unwrap();
        assert_eq!(
            Number::Double(f64::INFINITY).compare(&Number::Decimal(large)),
            Ordering::Greater
        );
        assert_eq!(
            Number::Decimal(large).compare(&Number::Double(f64::MAX)),
            Ordering::Greater
        );
    }

    #[test]
    fn equality_keys_agree_with_comparison() {
        let all = [
            Number::Int32(0),
            Number::Double(-0.0),
            Number::Double(0.1),
            Number::Int64(1 << 60),
            Number::Double(1.5),
            Number::Decimal(Decimal128::parse("1.50").unwrap()),
            Number::Decimal(Decimal128::parse("0.1").unwrap()),
            Number::Decimal(Decimal128::parse("1E+2").unwrap()),
            Number::Int32(100),
            Number::Double(f64::NAN),
            Number::Double(f64::INFINITY),
            Number::Decimal(Decimal128::parse("Infinity").unwrap()),
            Number::Decimal(Decimal128::parse("0E+10").unwrap()),
            Number::Double(1e300),
        ];
        for a in all {
            for b in all {
                let (mut x, mut y) = (vec![], vec![]);
                a.equality_key(&mut x);
                b.equality_key(&mut y);
                assert_eq!(x == y, a.compare(&b) == Ordering::Equal, "{a:?} {b:?}");
            }
        }
    }
}
