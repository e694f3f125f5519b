//! `Decimal128`: IEEE 754-2008 decimal128 in the binary-integer encoding BSON stores. Text, parts,
//! conversion and exact comparison. The decNumber library (`dec`) does arithmetic with the
//! standard's rounding, see `decimal_arith`.

use std::cmp::Ordering;

/// How dropped digits are rounded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rounding {
    /// To the nearest, ties to the even digit.
    HalfEven,
    /// To the nearest, ties away from zero.
    HalfUp,
    /// Towards zero.
    Trunc,
    /// Towards minus infinity.
    Floor,
    /// Towards plus infinity.
    Ceiling,
}

/// A decimal128 as BSON stores it (little-endian binary integer decimal).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Decimal128 {
    bits: u128,
}

/// The parts of a decimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecimalParts {
    /// (-1)^negative * coefficient * 10^exponent
    #[allow(missing_docs)]
    Finite {
        negative: bool,
        coefficient: u128,
        exponent: i32,
    },
    /// Infinity with its sign.
    #[allow(missing_docs)]
    Infinite { negative: bool },
    /// Not a number.
    Nan,
}

/// Largest coefficient: 34 digits of nine.
pub const MAX_COEFFICIENT: u128 = 9_999_999_999_999_999_999_999_999_999_999_999;
/// Smallest exponent of the last digit.
pub const EXPONENT_MIN: i32 = -6176;
/// Largest exponent of the last digit.
pub const EXPONENT_MAX: i32 = 6111;

impl Decimal128 {
    /// Zero.
    pub const ZERO: Decimal128 = Decimal128 {
        bits: (6176u128) << 113,
    };
    /// Not a number.
    pub const NAN: Decimal128 = Decimal128 { bits: 0x7c << 120 };
    /// Positive infinity.
    pub const INFINITY: Decimal128 = Decimal128 { bits: 0x78 << 120 };
    /// Negative infinity.
    pub const NEG_INFINITY: Decimal128 = Decimal128 { bits: 0xf8 << 120 };

    /// From the 16 bytes of a BSON payload.
    pub fn from_le_bytes(b: [u8; 16]) -> Decimal128 {
        Decimal128 {
            bits: u128::from_le_bytes(b),
        }
    }
    /// The 16 bytes of a BSON payload.
    pub fn to_le_bytes(self) -> [u8; 16] {
        self.bits.to_le_bytes()
    }
    /// True for a set sign bit (also of zero and NaN).
    pub fn is_negative(&self) -> bool {
        self.bits >> 127 == 1
    }
    /// NaN of any kind.
    pub fn is_nan(&self) -> bool {
        (self.bits >> 122) & 0x1f == 0x1f
    }
    /// Either infinity.
    pub fn is_infinite(&self) -> bool {
        (self.bits >> 122) & 0x1f == 0x1e
    }
    /// Neither NaN nor infinity.
    pub fn is_finite(&self) -> bool {
        !self.is_nan() && !self.is_infinite()
    }
    /// Zero of either sign and any exponent.
    pub fn is_zero(&self) -> bool {
        matches!(self.parts(), DecimalParts::Finite { coefficient: 0, .. })
    }

    /// Splits the number into its parts. Non-canonical coefficients read as zero, as the standard
    /// says.
    pub fn parts(&self) -> DecimalParts {
        let negative = self.is_negative();
        if self.is_nan() {
            return DecimalParts::Nan;
        }
        if self.is_infinite() {
            return DecimalParts::Infinite { negative };
        }
        let (exponent, coefficient) = if (self.bits >> 125) & 3 == 3 {
            // Large form: the coefficient would start with 100x, which is always above 34 digits.
            (((self.bits >> 111) & 0x3fff) as i32, 0)
        } else {
            (
                ((self.bits >> 113) & 0x3fff) as i32,
                self.bits & ((1 << 113) - 1),
            )
        };
        let coefficient = if coefficient > MAX_COEFFICIENT {
            0
        } else {
            coefficient
        };
        DecimalParts::Finite {
            negative,
            coefficient,
            exponent: exponent - 6176,
        }
    }

    /// Makes a finite number from its parts; `None` when coefficient or exponent are out of range.
    pub fn from_parts(negative: bool, coefficient: u128, exponent: i32) -> Option<Decimal128> {
        if coefficient > MAX_COEFFICIENT || !(EXPONENT_MIN..=EXPONENT_MAX).contains(&exponent) {
            return None;
        }
        let sign = u128::from(negative) << 127;
        Some(Decimal128 {
            bits: sign | (((exponent + 6176) as u128) << 113) | coefficient,
        })
    }

    /// Exact conversion.
    pub fn from_i64(n: i64) -> Decimal128 {
        Decimal128::from_parts(n < 0, u128::from(n.unsigned_abs()), 0).unwrap_or(Decimal128::ZERO)
    }
    /// Rounded to 15 significant digits, all of which are kept ("2.50000000000000"), as MongoDB
    /// converts doubles.
    pub fn from_f64(n: f64) -> Decimal128 {
        Decimal128::from_f64_digits(n, 15)
    }
    /// Rounded to 34 significant digits.
    pub fn from_f64_exact34(n: f64) -> Decimal128 {
        Decimal128::from_f64_digits(n, 34)
    }
    fn from_f64_digits(n: f64, digits: usize) -> Decimal128 {
        if n.is_nan() {
            return Decimal128::NAN;
        }
        if n.is_infinite() {
            return if n > 0.0 {
                Decimal128::INFINITY
            } else {
                Decimal128::NEG_INFINITY
            };
        }
        if n == 0.0 {
            return Decimal128::from_parts(n.is_sign_negative(), 0, 0).unwrap_or(Decimal128::ZERO);
        }
        Decimal128::parse(&format!("{:.*e}", digits - 1, n)).unwrap_or(Decimal128::NAN)
    }

    /// Nearest double.
    pub fn to_f64(&self) -> f64 {
        match self.parts() {
            DecimalParts::Nan => f64::NAN,
            DecimalParts::Infinite { negative: false } => f64::INFINITY,
            DecimalParts::Infinite { negative: true } => f64::NEG_INFINITY,
            DecimalParts::Finite {
                negative,
                coefficient,
                exponent,
            } => {
                let text = format!(
                    "{}{coefficient}e{exponent}",
                    if negative { "-" } else { "" }
                );
                text.parse().unwrap_or(f64::NAN)
            }
        }
    }

    /// The exact integer value, when it fits `i64`.
    pub fn to_i64_exact(&self) -> Option<i64> {
        let DecimalParts::Finite {
            negative,
            mut coefficient,
            mut exponent,
        } = self.parts()
        else {
            return None;
        };
        if coefficient == 0 {
            return Some(0);
        }
        while exponent < 0 {
            if coefficient % 10 != 0 {
                return None;
            }
            coefficient /= 10;
            exponent += 1;
        }
        if exponent > 19 {
            return None;
        }
        let n = i128::try_from(coefficient.checked_mul(10u128.pow(exponent as u32))?).ok()?;
        i64::try_from(if negative { -n } else { n }).ok()
    }

    /// The representative of all equal numbers: no trailing zeros, one zero, one NaN.
    pub fn canonical(&self) -> Decimal128 {
        match self.parts() {
            DecimalParts::Nan => Decimal128::NAN,
            DecimalParts::Infinite { negative } => {
                if negative {
                    Decimal128::NEG_INFINITY
                } else {
                    Decimal128::INFINITY
                }
            }
            DecimalParts::Finite { coefficient: 0, .. } => Decimal128::ZERO,
            DecimalParts::Finite {
                negative,
                mut coefficient,
                mut exponent,
            } => {
                // At the top of the range zeros are kept, and each number still has one form.
                while coefficient % 10 == 0 && exponent < EXPONENT_MAX {
                    coefficient /= 10;
                    exponent += 1;
                }
                Decimal128::from_parts(negative, coefficient, exponent).unwrap_or(*self)
            }
        }
    }

    /// Exact comparison by value; NaN equals NaN and is below everything.
    pub fn compare(&self, other: &Decimal128) -> Ordering {
        match (self.parts(), other.parts()) {
            (DecimalParts::Nan, DecimalParts::Nan) => Ordering::Equal,
            (DecimalParts::Nan, _) => Ordering::Less,
            (_, DecimalParts::Nan) => Ordering::Greater,
            (DecimalParts::Infinite { negative: a }, DecimalParts::Infinite { negative: b }) => {
                b.cmp(&a)
            }
            (DecimalParts::Infinite { negative }, DecimalParts::Finite { .. }) => {
                if negative {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }
            }
            (DecimalParts::Finite { .. }, DecimalParts::Infinite { negative }) => {
                if negative {
                    Ordering::Greater
                } else {
                    Ordering::Less
                }
            }
            (
                DecimalParts::Finite {
                    negative: n1,
                    coefficient: c1,
                    exponent: e1,
                },
                DecimalParts::Finite {
                    negative: n2,
                    coefficient: c2,
                    exponent: e2,
                },
            ) => match (c1, c2) {
                (0, 0) => Ordering::Equal,
                (0, _) => {
                    if n2 {
                        Ordering::Greater
                    } else {
                        Ordering::Less
                    }
                }
                (_, 0) => {
                    if n1 {
                        Ordering::Less
                    } else {
                        Ordering::Greater
                    }
                }
                _ if n1 != n2 => n2.cmp(&n1),
                _ => {
                    let order = compare_magnitudes(c1, e1, c2, e2);
                    if n1 { order.reverse() } else { order }
                }
            },
        }
    }

    /// Parses MongoDB's and the standard's text forms; rounds to 34 digits (half even).
    pub fn parse(text: &str) -> Option<Decimal128> {
        Decimal128::parse_with(text, Rounding::HalfEven)
    }

    /// Like [`Decimal128::parse`], rounded half-even or truncated (for any other mode).
    pub fn parse_with(text: &str, rounding: Rounding) -> Option<Decimal128> {
        let (negative, body) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let lower = body.to_ascii_lowercase();
        match lower.as_str() {
            "inf" | "infinity" => {
                return Some(if negative {
                    Decimal128::NEG_INFINITY
                } else {
                    Decimal128::INFINITY
                });
            }
            "nan" => return Some(Decimal128::NAN),
            _ => {}
        }
        let (mantissa, exponent) = match lower.split_once('e') {
            Some((m, e)) => {
                let digits = e.strip_prefix(['+', '-']).unwrap_or(e);
                if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                    return None;
                }
                // An exponent beyond the range is accepted and saturates.
                let n: i64 = digits.parse().unwrap_or(1_000_000).min(1_000_000);
                (m, if e.starts_with('-') { -n } else { n })
            }
            None => (lower.as_str(), 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        if whole.is_empty() && fraction.is_empty()
            || !(whole.bytes().chain(fraction.bytes())).all(|b| b.is_ascii_digit())
        {
            return None;
        }
        let digits = whole.bytes().chain(fraction.bytes());
        round_digits(
            negative,
            digits,
            exponent - fraction.len() as i64,
            rounding == Rounding::HalfEven,
        )
    }
}

/// Rounds a string of digits times a power of ten to 34 digits, half even or towards zero, and
/// adjusts the exponent to the range.
fn round_digits(
    negative: bool,
    digits: impl Iterator<Item = u8>,
    mut exponent: i64,
    nearest: bool,
) -> Option<Decimal128> {
    let (mut coefficient, mut kept) = (0u128, 0u32);
    let (mut next, mut sticky, mut dropped) = (0u8, false, 0i64);
    for d in digits.map(|b| b - b'0') {
        if kept == 34 {
            if dropped == 0 {
                next = d;
            } else {
                sticky |= d != 0;
            }
            dropped += 1;
        } else if kept > 0 || d > 0 {
            coefficient = coefficient * 10 + u128::from(d);
            kept += 1;
        }
    }
    exponent += dropped;
    // Below the range: drop digits, and remember what was lost.
    while exponent < i64::from(EXPONENT_MIN) && coefficient > 0 {
        sticky |= next != 0;
        next = (coefficient % 10) as u8;
        coefficient /= 10;
        exponent += 1;
    }
    if nearest && (next > 5 || next == 5 && (sticky || coefficient % 2 == 1)) {
        coefficient += 1;
        if coefficient > MAX_COEFFICIENT {
            coefficient /= 10;
            exponent += 1;
        }
    }
    if coefficient == 0 {
        exponent = exponent.clamp(i64::from(EXPONENT_MIN), i64::from(EXPONENT_MAX));
    }
    // Above the range: pad with zeros while there is room, else infinity.
    while exponent > i64::from(EXPONENT_MAX) && coefficient <= MAX_COEFFICIENT / 10 {
        coefficient *= 10;
        exponent -= 1;
    }
    if exponent > i64::from(EXPONENT_MAX) {
        return Some(if negative {
            Decimal128::NEG_INFINITY
        } else {
            Decimal128::INFINITY
        });
    }
    Decimal128::from_parts(negative, coefficient, i32::try_from(exponent).ok()?)
}

fn digit_count(n: u128) -> i32 {
    n.checked_ilog10().map_or(0, |d| d as i32 + 1)
}

fn compare_magnitudes(c1: u128, e1: i32, c2: u128, e2: i32) -> Ordering {
    let (d1, d2) = (digit_count(c1), digit_count(c2));
    (d1 + e1).cmp(&(d2 + e2)).then_with(|| {
        // Same order of magnitude: give both the same number of digits, at most 34, and compare.
        let (a, b) = if d1 < d2 {
            (c1 * 10u128.pow((d2 - d1) as u32), c2)
        } else {
            (c1, c2 * 10u128.pow((d1 - d2) as u32))
        };
        a.cmp(&b)
    })
}

impl std::fmt::Display for Decimal128 {
    /// The standard's to-scientific-string, as MongoDB prints decimals.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.parts() {
            DecimalParts::Nan => f.write_str("NaN"),
            DecimalParts::Infinite { negative } => {
                f.write_str(if negative { "-Infinity" } else { "Infinity" })
            }
            DecimalParts::Finite {
                negative,
                coefficient,
                exponent,
            } => {
                let sign = if negative { "-" } else { "" };
                let digits = coefficient.to_string();
                let count = digits.len() as i32;
                let adjusted = exponent + count - 1;
                if exponent <= 0 && adjusted >= -6 {
                    let point = count + exponent;
                    if exponent == 0 {
                        write!(f, "{sign}{digits}")
                    } else if point > 0 {
                        let (whole, fraction) = digits.split_at(point as usize);
                        write!(f, "{sign}{whole}.{fraction}")
                    } else {
                        write!(
                            f,
                            "{sign}0.{}{digits}",
                            "0".repeat(point.unsigned_abs() as usize)
                        )
                    }
                } else {
                    let (first, rest) = digits.split_at(1);
                    let point = if rest.is_empty() { "" } else { "." };
                    write!(
                        f,
                        "{sign}{first}{point}{rest}E{}{}",
                        if adjusted < 0 { "-" } else { "+" },
                        adjusted.abs()
                    )
                }
            }
        }
    }
}

impl std::fmt::Debug for Decimal128 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips() {
        for t in [
            "0",
            "1",
            "-1",
            "0.1",
            "1E+2",
            "1.50",
            "0E-6176",
            "9.999999999999999999999999999999999E+6144",
            "1E-6176",
            "0.000001234",
            "1.234E-7",
            "NaN",
            "Infinity",
            "-Infinity",
            "-0.0",
        ] {
            assert_eq!(Decimal128::parse(t).unwrap().to_string(), t);
        }
        assert_eq!(Decimal128::parse("1e6145").unwrap().to_string(), "Infinity");
        assert_eq!(
            Decimal128::parse("12345678901234567890123456789012345")
                .unwrap()
                .to_string(),
            "1.234567890123456789012345678901234E+34"
        );
        assert!(
            Decimal128::parse("1e").is_none()
                && Decimal128::parse(".").is_none()
                && Decimal128::parse("").is_none()
        );
    }

    #[test]
    fn doubles_convert_as_mongodb_does() {
        assert_eq!(Decimal128::from_f64(0.1).to_string(), "0.100000000000000");
        assert_eq!(Decimal128::from_f64(1.0).to_string(), "1.00000000000000");
        assert_eq!(Decimal128::from_f64(-2.5).to_string(), "-2.50000000000000");
        assert_eq!(Decimal128::parse("0.1").unwrap().to_f64(), 0.1);
    }

    #[test]
    fn compares_by_value() {
        let d = |t| Decimal128::parse(t).unwrap();
        assert_eq!(d("1.0").compare(&d("1.00")), Ordering::Equal);
        assert_eq!(d("-1E+10").compare(&d("-1")), Ordering::Less);
        assert_eq!(d("1E-6176").compare(&d("0")), Ordering::Greater);
        assert_eq!(
            d("9.999999999999999999999999999999999E+6144").compare(&d("1E+6144")),
            Ordering::Greater
        );
        assert_eq!(d("-Infinity").compare(&d("NaN")), Ordering::Greater);
        assert_eq!(d("123").to_i64_exact(), Some(123));
        assert_eq!(d("1.230E+2").to_i64_exact(), Some(123));
        assert_eq!(d("1.5").to_i64_exact(), None);
    }
}
