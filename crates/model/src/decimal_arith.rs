//! Arithmetic of `Decimal128`: 34 digits, ties to even, NaN and infinities as in IEEE 754-2008 (no
//! traps, no errors). The four operations, roots and logarithms are decNumber's; rounding to a
//! place and remainders use exact integers here, because decNumber refuses quotients of more than
//! 34 digits.

use crate::decimal::{
    Decimal128, DecimalParts, EXPONENT_MAX, EXPONENT_MIN, MAX_COEFFICIENT, Rounding,
};
use std::ops::{Add, Div, Mul, Neg, Rem, Sub};

/// Working precision of the transcendental functions: enough that the 34th digit is correct after
/// the final rounding.
pub type WideDecimal = dec::Decimal<20>;
type WideCx = dec::Context<WideDecimal>;

fn quad(d: Decimal128) -> dec::Decimal128 {
    match d.parts() {
        DecimalParts::Nan => dec::Decimal128::NAN,
        DecimalParts::Infinite { negative } => {
            set_sign(dec::Decimal128::from_be_bytes(INFINITY_BE), negative)
        }
        DecimalParts::Finite {
            negative,
            coefficient,
            exponent,
        } => {
            let mut cx = dec::Context::<dec::Decimal128>::default();
            let mut q = cx.from_u128(coefficient);
            cx.set_exponent(&mut q, exponent);
            set_sign(q, negative)
        }
    }
}

/// decimal128 infinity: the same bits in both encodings.
const INFINITY_BE: [u8; 16] = [0x78, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// Sets the sign bit; arithmetic negation would lose the sign of zero.
fn set_sign(q: dec::Decimal128, negative: bool) -> dec::Decimal128 {
    let mut bytes = q.to_be_bytes();
    bytes[0] = (bytes[0] & 0x7f) | if negative { 0x80 } else { 0 };
    dec::Decimal128::from_be_bytes(bytes)
}

fn from_quad(q: dec::Decimal128) -> Decimal128 {
    if q.is_nan() {
        return Decimal128::NAN;
    }
    let negative = q.to_be_bytes()[0] & 0x80 != 0;
    if q.is_infinite() {
        return if negative {
            Decimal128::NEG_INFINITY
        } else {
            Decimal128::INFINITY
        };
    }
    Decimal128::from_parts(negative, q.coefficient().unsigned_abs(), q.exponent())
        .unwrap_or(Decimal128::NAN)
}

macro_rules! quad_operator {
    ($($trait:ident $method:ident),*) => {$(
        impl $trait for Decimal128 {
            type Output = Decimal128;
            fn $method(self, other: Decimal128) -> Decimal128 {
                from_quad(dec::Context::<dec::Decimal128>::default().$method(quad(self),
                    quad(other)))
            }
        }
    )*};
}
quad_operator!(Add add, Sub sub, Mul mul, Div div);

impl Neg for Decimal128 {
    type Output = Decimal128;
    fn neg(self) -> Decimal128 {
        self.with_sign(!self.is_negative())
    }
}

impl Rem for Decimal128 {
    type Output = Decimal128;
    /// The exact remainder of the division rounded towards zero; it has the sign of `self`.
    fn rem(self, other: Decimal128) -> Decimal128 {
        let (
            DecimalParts::Finite {
                negative,
                coefficient: a,
                exponent: ea,
            },
            divisor,
        ) = (self.parts(), other.parts())
        else {
            return Decimal128::NAN;
        };
        let (b, eb) = match divisor {
            DecimalParts::Finite {
                coefficient: b,
                exponent,
                ..
            } if b != 0 => (b, exponent),
            DecimalParts::Infinite { .. } => return self,
            _ => return Decimal128::NAN,
        };
        let (rest, exponent) = if ea >= eb {
            // a * 10^(ea - eb) mod b, digit by digit; b has 113 bits, so ten times a remainder
            // still fits.
            let mut r = a % b;
            for _ in 0..ea - eb {
                if r == 0 {
                    break;
                }
                r = r * 10 % b;
            }
            (r, eb)
        } else {
            match 10u128
                .checked_pow((eb - ea).unsigned_abs())
                .and_then(|scale| b.checked_mul(scale))
            {
                Some(divisor) => (a % divisor, ea),
                None => (a, ea),
            }
        };
        Decimal128::from_parts(negative, rest, exponent).unwrap_or(Decimal128::NAN)
    }
}

fn wide_cx() -> WideCx {
    let mut cx = WideCx::default();
    // Within decNumber's limits for its mathematical functions, and beyond the range of decimal128.
    let _ = cx.set_max_exponent(999_999);
    let _ = cx.set_min_exponent(-999_999);
    cx
}

impl Decimal128 {
    fn with_sign(self, negative: bool) -> Decimal128 {
        match self.parts() {
            DecimalParts::Nan => self,
            DecimalParts::Infinite { .. } if negative => Decimal128::NEG_INFINITY,
            DecimalParts::Infinite { .. } => Decimal128::INFINITY,
            DecimalParts::Finite {
                coefficient,
                exponent,
                ..
            } => Decimal128::from_parts(negative, coefficient, exponent).unwrap_or(self),
        }
    }

    /// Without its sign.
    pub fn abs(self) -> Decimal128 {
        self.with_sign(false)
    }

    /// From a 128-bit integer, rounded to 34 digits.
    pub fn from_i128(n: i128) -> Decimal128 {
        match Decimal128::from_parts(n < 0, n.unsigned_abs(), 0) {
            Some(d) => d,
            None => Decimal128::parse(&n.to_string()).unwrap_or(Decimal128::NAN),
        }
    }

    /// The number with this exponent, dropped digits rounded by `rounding`; NaN when it would need
    /// more than 34 digits. Infinities and NaN do not change.
    pub fn quantize(self, exponent: i32, rounding: Rounding) -> Decimal128 {
        let DecimalParts::Finite {
            negative,
            coefficient,
            exponent: from,
        } = self.parts()
        else {
            return self;
        };
        let rounded = if exponent >= from {
            Some(drop_digits(
                coefficient,
                exponent.saturating_sub(from).unsigned_abs(),
                negative,
                rounding,
            ))
        } else if coefficient == 0 {
            Some(0)
        } else {
            10u128
                .checked_pow((from - exponent).unsigned_abs())
                .and_then(|scale| coefficient.checked_mul(scale))
        };
        rounded
            .and_then(|c| Decimal128::from_parts(negative, c, exponent))
            .unwrap_or(Decimal128::NAN)
    }

    /// Rounded to an integer, exponent zero; NaN when that needs more than 34 digits.
    pub fn to_integral(self, rounding: Rounding) -> Decimal128 {
        self.quantize(0, rounding)
    }

    /// The integer part as `i64`, rounded by `rounding`; `None` for NaN, infinities and out of
    /// range.
    pub fn to_i64(self, rounding: Rounding) -> Option<i64> {
        match self.parts() {
            DecimalParts::Finite { exponent, .. } if exponent < 0 => {
                self.to_integral(rounding).to_i64_exact()
            }
            _ => self.to_i64_exact(),
        }
    }

    /// Appends zeros until there are 34 digits or the exponent reaches its minimum; zero loses its
    /// sign. Results of MongoDB's `$pow` have this form.
    pub fn pad_zeros(self) -> Decimal128 {
        let DecimalParts::Finite {
            negative,
            mut coefficient,
            mut exponent,
        } = self.parts()
        else {
            return self;
        };
        if coefficient == 0 {
            return Decimal128::from_parts(false, 0, EXPONENT_MIN).unwrap_or(self);
        }
        while exponent > EXPONENT_MIN && coefficient <= MAX_COEFFICIENT / 10 {
            coefficient *= 10;
            exponent -= 1;
        }
        Decimal128::from_parts(negative, coefficient, exponent).unwrap_or(self)
    }

    /// With the working precision of the functions below.
    pub fn to_wide(self) -> WideDecimal {
        wide_cx()
            .parse(self.to_string())
            .unwrap_or_else(|_| WideDecimal::nan())
    }

    /// Rounded to 34 digits.
    pub fn from_wide(w: &WideDecimal) -> Decimal128 {
        if w.is_nan() {
            return Decimal128::NAN;
        }
        if w.is_infinite() {
            return if w.is_negative() {
                Decimal128::NEG_INFINITY
            } else {
                Decimal128::INFINITY
            };
        }
        Decimal128::parse(&w.to_string()).unwrap_or(Decimal128::NAN)
    }

    fn wide_function(self, f: impl FnOnce(&mut WideCx, &mut WideDecimal)) -> Decimal128 {
        let mut w = self.to_wide();
        f(&mut wide_cx(), &mut w);
        Decimal128::from_wide(&w)
    }

    /// Square root; NaN below zero.
    pub fn sqrt(self) -> Decimal128 {
        let mut cx = wide_cx();
        let mut w = self.to_wide();
        let _ = cx.set_precision(34);
        cx.sqrt(&mut w);
        Decimal128::from_wide(&w)
    }
    /// e to the power.
    pub fn exp(self) -> Decimal128 {
        if self.is_finite() && self.to_f64().abs() > 20_000.0 {
            return if self.is_negative() {
                Decimal128::from_parts(false, 0, EXPONENT_MIN)
            } else {
                None
            }
            .unwrap_or(Decimal128::INFINITY);
        }
        self.wide_function(|cx, w| cx.exp(w)).trim_zeros()
    }
    /// Natural logarithm; NaN below zero, minus infinity at zero.
    pub fn ln(self) -> Decimal128 {
        self.wide_function(|cx, w| cx.ln(w)).trim_zeros()
    }
    /// Decimal logarithm; NaN below zero, minus infinity at zero.
    pub fn log10(self) -> Decimal128 {
        self.wide_function(|cx, w| cx.log10(w)).trim_zeros()
    }
    /// Removes the digits after the point of a whole number, also of one that became whole by
    /// rounding: MongoDB's library computes with binary numbers.
    fn trim_zeros(self) -> Decimal128 {
        match self.parts() {
            DecimalParts::Finite { exponent, .. } if exponent < 0 && self.is_integer() => {
                self.to_integral(Rounding::Trunc)
            }
            _ => self,
        }
    }
    /// `self` to the power `exponent`, with all 34 digits. NaN for a negative base and a fractional
    /// exponent. As in MongoDB, whose power function overflows a little early, the largest number
    /// itself becomes infinite.
    pub fn pow(self, exponent: Decimal128) -> Decimal128 {
        let one = Decimal128::from_i64(1);
        if exponent.is_zero() || self.compare(&one).is_eq() {
            return one.pad_zeros();
        }
        if self.is_nan() || exponent.is_nan() {
            return Decimal128::NAN;
        }
        if exponent.is_infinite() {
            let grows = self.abs().compare(&one).is_gt() != exponent.is_negative();
            return match self.abs().compare(&one) {
                std::cmp::Ordering::Equal => one.pad_zeros(),
                _ if grows => Decimal128::INFINITY,
                _ => Decimal128::ZERO.pad_zeros(),
            };
        }
        let power = self
            .wide_function(|cx, w| cx.pow(w, &exponent.to_wide()))
            .pad_zeros();
        match power.parts() {
            DecimalParts::Finite {
                negative,
                coefficient: MAX_COEFFICIENT,
                exponent: EXPONENT_MAX,
            } => Decimal128::INFINITY.with_sign(negative),
            _ => power,
        }
    }
    /// True for a finite number without a fraction.
    pub fn is_integer(self) -> bool {
        match self.parts() {
            DecimalParts::Finite { exponent, .. } if exponent >= 0 => true,
            DecimalParts::Finite { .. } => self.to_integral(Rounding::Trunc).compare(&self).is_eq(),
            _ => false,
        }
    }
}

fn drop_digits(coefficient: u128, count: u32, negative: bool, rounding: Rounding) -> u128 {
    // 10^38 is the largest power in range; coefficients have 34 digits, so all larger ones leave
    // the same remainder.
    let scale = 10u128.pow(count.min(38));
    let (kept, rest) = (coefficient / scale, coefficient % scale);
    let up = match rounding {
        Rounding::Trunc => false,
        Rounding::Floor => negative && rest > 0,
        Rounding::Ceiling => !negative && rest > 0,
        Rounding::HalfUp => count > 0 && rest >= scale / 2,
        Rounding::HalfEven => rest > scale / 2 || count > 0 && rest == scale / 2 && kept % 2 == 1,
    };
    kept + u128::from(up)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn d(t: &str) -> Decimal128 {
        Decimal128::parse(t).unwrap()
    }

    #[test]
    fn conversions_to_decnumber_are_exact() {
        for t in [
            "0",
            "-0",
            "0E-6176",
            "-0E+6111",
            "1",
            "-1.50",
            "9999999999999999999999999999999999",
            "1E-6176",
            "9.999999999999999999999999999999999E+6144",
            "NaN",
            "Infinity",
            "-Infinity",
            "1E+6111",
            "-1.2E-3000",
        ] {
            assert_eq!(from_quad(quad(d(t))).to_string(), d(t).to_string());
        }
    }

    #[test]
    fn four_operations_round_half_even_and_keep_the_preferred_exponent() {
        for (a, op, b, result) in [
            ("1.5", '+', "2.50", "4.00"),
            ("1", '-', "1", "0"),
            ("-0", '+', "0", "0"),
            ("0.5", '*', "2", "1.0"),
            ("-0", '*', "-5", "0"),
            ("1", '/', "3", "0.3333333333333333333333333333333333"),
            ("10", '/', "4", "2.5"),
            ("1", '/', "0", "Infinity"),
            ("-1", '/', "0", "-Infinity"),
            ("0", '/', "0", "NaN"),
            (
                "9.999999999999999999999999999999999E+6144",
                '*',
                "2",
                "Infinity",
            ),
            ("Infinity", '-', "Infinity", "NaN"),
            ("10.5", '%', "3.2", "0.9"),
            ("-9.9E+6144", '%', "3", "-0"),
            ("1E+6144", '%', "3", "1"),
            ("1", '%', "0", "NaN"),
            ("1E-6143", '%', "3", "1E-6143"),
            ("5", '%', "Infinity", "5"),
            ("Infinity", '%', "5", "NaN"),
        ] {
            let (x, y) = (d(a), d(b));
            let got = match op {
                '+' => x + y,
                '-' => x - y,
                '*' => x * y,
                '/' => x / y,
                _ => x % y,
            };
            assert_eq!(got.to_string(), result, "{a} {op} {b}");
        }
    }

    #[test]
    fn rounding_to_a_place() {
        use Rounding::*;
        for (t, e, r, result) in [
            ("2.5", 0, HalfEven, "2"),
            ("3.5", 0, HalfEven, "4"),
            ("2.5", 0, HalfUp, "3"),
            ("-1.5", 0, Floor, "-2"),
            ("-1.5", 0, Ceiling, "-1"),
            ("-0.5", 0, Ceiling, "-0"),
            ("1E-6143", 0, Ceiling, "1"),
            ("1.1", -3, Trunc, "1.100"),
            ("1E+6144", 0, Floor, "NaN"),
            ("23.298", 1, Trunc, "2E+1"),
            ("-Infinity", 0, Trunc, "-Infinity"),
            ("9999999999999999999999999999999999", -1, Trunc, "NaN"),
            ("0.4999999999999999999999999999999999", 0, HalfEven, "0"),
        ] {
            assert_eq!(d(t).quantize(e, r).to_string(), result, "{t} {e} {r:?}");
        }
        assert_eq!(d("-1.9").to_i64(Trunc), Some(-1));
        assert_eq!(d("1E+19").to_i64(Trunc), None);
        assert_eq!(d("9.3E+18").to_i64(Trunc), None);
        assert!(
            d("1E+2").is_integer()
                && d("1.0").is_integer()
                && !d("1.1").is_integer()
                && !d("NaN").is_integer()
        );
    }

    #[test]
    fn functions_have_all_digits() {
        assert_eq!(
            d("-1").exp().to_string(),
            "0.3678794411714423215955237701614609"
        );
        assert_eq!(
            d("1").exp().to_string(),
            "2.718281828459045235360287471352662"
        );
        assert_eq!(d("-0").exp().to_string(), "1");
        // Rounded to whole numbers.
        assert_eq!(d("1E-6143").exp().to_string(), "1");
        assert_eq!(
            d("9.999999999999999999999999999999999E+6144")
                .log10()
                .to_string(),
            "6145"
        );
        assert_eq!(d("1E+6000").exp().to_string(), "Infinity");
        assert_eq!(d("-Infinity").exp().to_string(), "0");
        assert_eq!(
            d("10").ln().to_string(),
            "2.302585092994045684017991454684364"
        );
        assert_eq!(d("0").ln().to_string(), "-Infinity");
        assert_eq!(d("1E-6176").log10().to_string(), "-6176");
        assert_eq!(d("4").sqrt().to_string(), "2");
        assert_eq!(
            d("2").sqrt().to_string(),
            "1.414213562373095048801688724209698"
        );
        assert_eq!(
            d("2").pow(d("100")).to_string(),
            "1267650600228229401496703205376.000"
        );
        assert_eq!(
            d("0.5").pow(d("2")).to_string(),
            "0.2500000000000000000000000000000000"
        );
        assert_eq!(d("-Infinity").pow(d("-1")).to_string(), "0E-6176");
        assert_eq!(d("-8").pow(d("0.5")).to_string(), "NaN");
        assert_eq!(
            d("-9.999999999999999999999999999999999E+6144")
                .pow(d("1"))
                .to_string(),
            "-Infinity"
        );
    }
}
