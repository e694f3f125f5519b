//! Trigonometry of `Decimal128`, correct to 34 digits: decNumber has no such functions, so they are
//! computed with series and identities on 60 digits. Angles are reduced modulo a quarter turn with
//! as many digits of pi as their size needs. NaN outside a function's domain.

use crate::Decimal128;
use crate::decimal::DecimalParts;
use crate::decimal_arith::WideDecimal;
use std::sync::OnceLock;

/// A context with value semantics; `N` units of three digits.
struct Math<const N: usize>(dec::Context<dec::Decimal<N>>);

macro_rules! operations {
    ($($name:ident),*) => {$(
        fn $name(&mut self, a: &dec::Decimal<N>, b: &dec::Decimal<N>) -> dec::Decimal<N> {
            let mut result = *a;
            self.0.$name(&mut result, b);
            result
        }
    )*};
}

impl<const N: usize> Math<N> {
    fn new() -> Math<N> {
        let mut cx = dec::Context::<dec::Decimal<N>>::default();
        let _ = cx.set_max_exponent(999_999);
        let _ = cx.set_min_exponent(-999_999);
        Math(cx)
    }
    operations!(add, sub, mul, div, rem);

    fn int(&mut self, n: u32) -> dec::Decimal<N> {
        self.0.from_u32(n)
    }
    fn sqrt(&mut self, a: &dec::Decimal<N>) -> dec::Decimal<N> {
        let mut result = *a;
        self.0.sqrt(&mut result);
        result
    }
    fn ln(&mut self, a: &dec::Decimal<N>) -> dec::Decimal<N> {
        let mut result = *a;
        self.0.ln(&mut result);
        result
    }
    fn exp(&mut self, a: &dec::Decimal<N>) -> dec::Decimal<N> {
        let mut result = *a;
        self.0.exp(&mut result);
        result
    }
    fn neg(&mut self, a: &dec::Decimal<N>) -> dec::Decimal<N> {
        let mut result = *a;
        self.0.neg(&mut result);
        result
    }
    /// Below `10^power` in magnitude.
    fn is_below(a: &dec::Decimal<N>, power: i64) -> bool {
        a.is_zero() || i64::from(a.exponent()) + i64::from(a.digits()) <= power
    }

    /// `first * (1 + s1 + s2 + ...)` where each term is the last one times `x2` over `divisor(k)`.
    fn series(
        &mut self,
        first: &dec::Decimal<N>,
        x2: &dec::Decimal<N>,
        divisor: impl Fn(u32) -> u32,
    ) -> dec::Decimal<N> {
        let (mut sum, mut term) = (*first, *first);
        let scale = i64::from(first.exponent()) + i64::from(first.digits());
        for k in 1..2000 {
            term = self.mul(&term, x2);
            let d = self.int(divisor(k));
            term = self.div(&term, &d);
            sum = self.add(&sum, &term);
            if Self::is_below(&term, scale - 3 * N as i64 - 2) {
                break;
            }
        }
        sum
    }

    /// Pi with as many digits as fit.
    fn pi(&mut self) -> dec::Decimal<N> {
        static DIGITS: OnceLock<String> = OnceLock::new();
        let digits = DIGITS.get_or_init(|| include_str!("pi.txt").split_whitespace().collect());
        // One digit is before the point.
        let text = digits.get(..3 * N).unwrap_or(digits);
        self.0.parse(text).unwrap_or_else(|_| dec::Decimal::nan())
    }

    /// The angle minus whole quarter turns (at most an eighth in either direction), and the number
    /// of quarters modulo four.
    fn reduce(&mut self, d: Decimal128) -> (u32, WideDecimal) {
        let x = self
            .0
            .parse(d.abs().to_string())
            .unwrap_or_else(|_| dec::Decimal::nan());
        let pi = self.pi();
        let two = self.int(2);
        let (turn, quarter) = (self.mul(&pi, &two), self.div(&pi, &two));
        let mut rest = self.rem(&x, &turn);
        let mut quarters = 0;
        let half_quarter = self.div(&quarter, &two);
        while quarters < 4 && !self.sub(&rest, &half_quarter).is_negative() {
            rest = self.sub(&rest, &quarter);
            quarters += 1;
        }
        (quarters % 4, Math::<20>::new().0.to_width(rest))
    }
}

/// Digits enough for angles below 10^60.
const MEDIUM: usize = 40;
/// Digits enough for every angle: 6145 before the point, and digits after it for the remainder.
const LARGE: usize = 2100;

/// Sine and cosine.
fn sin_cos(d: Decimal128) -> (WideDecimal, WideDecimal) {
    let large = matches!(d.parts(), DecimalParts::Finite { exponent, .. } if exponent > 26);
    let (quarters, x) = if large {
        Math::<LARGE>::new().reduce(d)
    } else {
        Math::<MEDIUM>::new().reduce(d)
    };
    let mut m = Math::<20>::new();
    let one = m.int(1);
    let square = m.mul(&x, &x);
    let minus = m.neg(&square);
    let sin = if x.is_zero() {
        x
    } else {
        m.series(&x, &minus, |k| 2 * k * (2 * k + 1))
    };
    let cos = m.series(&one, &minus, |k| (2 * k - 1) * 2 * k);
    let (sin, cos) = match quarters {
        0 => (sin, cos),
        1 => (cos, m.neg(&sin)),
        2 => (m.neg(&sin), m.neg(&cos)),
        _ => (m.neg(&cos), sin),
    };
    (if d.is_negative() { m.neg(&sin) } else { sin }, cos)
}

fn pi() -> WideDecimal {
    Math::new().pi()
}

/// Arc tangent of a number that is not negative.
fn atan(m: &mut Math<20>, x: &WideDecimal) -> WideDecimal {
    if x.is_zero() {
        return *x;
    }
    let (one, two) = (m.int(1), m.int(2));
    let invert = m.sub(&one, x).is_negative();
    let mut y = if invert { m.div(&one, x) } else { *x };
    // Each halving of the angle brings the series closer to zero.
    for _ in 0..3 {
        let square = m.mul(&y, &y);
        let sum = m.add(&one, &square);
        let root = m.sqrt(&sum);
        let divisor = m.add(&one, &root);
        y = m.div(&y, &divisor);
    }
    let square = m.mul(&y, &y);
    let mut power = y;
    let mut sum = y;
    for k in 1..200u32 {
        power = m.mul(&power, &square);
        let odd = m.int(2 * k + 1);
        let term = m.div(&power, &odd);
        sum = if k % 2 == 1 {
            m.sub(&sum, &term)
        } else {
            m.add(&sum, &term)
        };
    }
    let eight = m.int(8);
    let angle = m.mul(&sum, &eight);
    if !invert {
        return angle;
    }
    let quarter = m.div(&pi(), &two);
    m.sub(&quarter, &angle)
}

/// Inverse hyperbolic tangent of a number from zero to below one.
fn atanh(m: &mut Math<20>, x: &WideDecimal) -> WideDecimal {
    let (one, two) = (m.int(1), m.int(2));
    if !Math::<20>::is_below(x, -1) {
        let (above, below) = (m.add(&one, x), m.sub(&one, x));
        let quotient = m.div(&above, &below);
        let log = m.ln(&quotient);
        return m.div(&log, &two);
    }
    let square = m.mul(x, x);
    let (mut power, mut sum) = (*x, *x);
    for k in 1..40u32 {
        power = m.mul(&power, &square);
        let odd = m.int(2 * k + 1);
        let term = m.div(&power, &odd);
        sum = m.add(&sum, &term);
    }
    sum
}

impl Decimal128 {
    /// Pi.
    pub fn pi() -> Decimal128 {
        Decimal128::from_wide(&pi())
    }
    /// Sine of an angle in radians.
    pub fn sin(self) -> Decimal128 {
        if !self.is_finite() {
            return Decimal128::NAN;
        }
        if self.is_zero() {
            self
        } else {
            Decimal128::from_wide(&sin_cos(self).0)
        }
    }
    /// Cosine of an angle in radians.
    pub fn cos(self) -> Decimal128 {
        if !self.is_finite() {
            return Decimal128::NAN;
        }
        if self.is_zero() {
            Decimal128::from_i64(1)
        } else {
            Decimal128::from_wide(&sin_cos(self).1)
        }
    }
    /// Tangent of an angle in radians.
    pub fn tan(self) -> Decimal128 {
        if !self.is_finite() {
            return Decimal128::NAN;
        }
        if self.is_zero() {
            return self;
        }
        let (sin, cos) = sin_cos(self);
        Decimal128::from_wide(&Math::<20>::new().div(&sin, &cos))
    }

    /// Applies a function of magnitudes to an odd function's argument.
    fn apply_odd(self, f: impl FnOnce(&mut Math<20>, &WideDecimal) -> WideDecimal) -> Decimal128 {
        if self.is_nan() || self.is_zero() {
            return self;
        }
        let result = Decimal128::from_wide(&f(&mut Math::new(), &self.abs().to_wide()));
        if self.is_negative() { -result } else { result }
    }

    /// Arc sine, for -1 to 1.
    pub fn asin(self) -> Decimal128 {
        self.apply_odd(|m, x| {
            let one = m.int(1);
            let (above, below) = (m.add(&one, x), m.sub(&one, x));
            let product = m.mul(&above, &below);
            let root = m.sqrt(&product);
            if root.is_zero() {
                let two = m.int(2);
                return m.div(&pi(), &two);
            }
            let ratio = m.div(x, &root);
            atan(m, &ratio)
        })
    }
    /// Arc cosine, for -1 to 1.
    pub fn acos(self) -> Decimal128 {
        let (mut m, x) = (Math::<20>::new(), self.to_wide());
        let (one, two) = (m.int(1), m.int(2));
        let (above, below) = (m.add(&one, &x), m.sub(&one, &x));
        if above.is_zero() {
            return Decimal128::pi();
        }
        let quotient = m.div(&below, &above);
        let root = m.sqrt(&quotient);
        let half = if root.is_nan() {
            root
        } else {
            atan(&mut m, &root)
        };
        Decimal128::from_wide(&m.mul(&half, &two))
    }
    /// Arc tangent.
    pub fn atan(self) -> Decimal128 {
        self.apply_odd(|m, x| {
            if x.is_infinite() {
                let two = m.int(2);
                return m.div(&pi(), &two);
            }
            atan(m, x)
        })
    }
    /// Angle of the point (`x`, `self`), from -pi to pi.
    pub fn atan2(self, x: Decimal128) -> Decimal128 {
        if self.is_nan() || x.is_nan() {
            return Decimal128::NAN;
        }
        let mut m = Math::<20>::new();
        let (two, four) = (m.int(2), m.int(4));
        let (quarter, eighth) = (m.div(&pi(), &two), m.div(&pi(), &four));
        let angle = match (self.is_infinite(), x.is_infinite()) {
            (true, true) => eighth,
            (true, false) => quarter,
            (false, true) => m.int(0),
            _ if x.is_zero() && self.is_zero() => m.int(0),
            _ if x.is_zero() => quarter,
            _ => {
                let ratio = m.div(&self.abs().to_wide(), &x.abs().to_wide());
                atan(&mut m, &ratio)
            }
        };
        let angle = if x.is_negative() {
            m.sub(&pi(), &angle)
        } else {
            angle
        };
        let result = Decimal128::from_wide(&angle);
        if self.is_negative() { -result } else { result }
    }

    /// Beyond this magnitude the exponential is out of range.
    fn is_huge(self) -> bool {
        self.to_f64().abs() > 20_000.0
    }

    /// Hyperbolic sine.
    pub fn sinh(self) -> Decimal128 {
        if !self.is_nan() && self.is_huge() {
            return if self.is_negative() {
                Decimal128::NEG_INFINITY
            } else {
                Decimal128::INFINITY
            };
        }
        self.apply_odd(|m, x| {
            if Math::<20>::is_below(x, 0) {
                let square = m.mul(x, x);
                return m.series(x, &square, |k| 2 * k * (2 * k + 1));
            }
            let minus = m.neg(x);
            let (up, down) = (m.exp(x), m.exp(&minus));
            let (difference, two) = (m.sub(&up, &down), m.int(2));
            m.div(&difference, &two)
        })
    }
    /// Hyperbolic cosine.
    pub fn cosh(self) -> Decimal128 {
        if self.is_nan() {
            return self;
        }
        if self.is_huge() {
            return Decimal128::INFINITY;
        }
        let (mut m, x) = (Math::<20>::new(), self.to_wide());
        let minus = m.neg(&x);
        let (up, down) = (m.exp(&x), m.exp(&minus));
        let (sum, two) = (m.add(&up, &down), m.int(2));
        Decimal128::from_wide(&m.div(&sum, &two))
    }
    /// Hyperbolic tangent.
    pub fn tanh(self) -> Decimal128 {
        if self.is_nan() || self.is_zero() {
            return self;
        }
        if self.to_f64().abs() > 100.0 {
            let one = Decimal128::from_i64(1);
            return if self.is_negative() { -one } else { one };
        }
        self.apply_odd(|m, x| {
            let minus = m.neg(x);
            let (up, down) = (m.exp(x), m.exp(&minus));
            let cosh = m.add(&up, &down);
            let sinh = if Math::<20>::is_below(x, 0) {
                let (square, two) = (m.mul(x, x), m.int(2));
                let half = m.series(x, &square, |k| 2 * k * (2 * k + 1));
                m.mul(&half, &two)
            } else {
                m.sub(&up, &down)
            };
            m.div(&sinh, &cosh)
        })
    }
    /// Inverse hyperbolic sine.
    pub fn asinh(self) -> Decimal128 {
        if self.is_infinite() {
            return self;
        }
        self.apply_odd(|m, x| {
            let one = m.int(1);
            let square = m.mul(x, x);
            let sum = m.add(&square, &one);
            let root = m.sqrt(&sum);
            if Math::<20>::is_below(x, -1) {
                let ratio = m.div(x, &root);
                return atanh(m, &ratio);
            }
            let argument = m.add(x, &root);
            m.ln(&argument)
        })
    }
    /// Inverse hyperbolic cosine, from 1.
    pub fn acosh(self) -> Decimal128 {
        if self == Decimal128::INFINITY {
            return self;
        }
        let (mut m, x) = (Math::<20>::new(), self.to_wide());
        let one = m.int(1);
        let (above, below) = (m.add(&x, &one), m.sub(&x, &one));
        let product = m.mul(&above, &below);
        let root = m.sqrt(&product);
        let argument = m.add(&x, &root);
        Decimal128::from_wide(&m.ln(&argument))
    }
    /// Inverse hyperbolic tangent, for -1 to 1; infinite at both.
    pub fn atanh(self) -> Decimal128 {
        if self.abs().compare(&Decimal128::from_i64(1)).is_eq() {
            return if self.is_negative() {
                Decimal128::NEG_INFINITY
            } else {
                Decimal128::INFINITY
            };
        }
        self.apply_odd(atanh)
    }
    /// From degrees to radians: times π/180 rounded to 34 digits, as MongoDB's last digits show.
    pub fn to_radians(self) -> Decimal128 {
        self.multiply_by("0.01745329251994329576923690768488613")
    }
    /// From radians to degrees: times 180/π rounded to 34 digits.
    pub fn to_degrees(self) -> Decimal128 {
        self.multiply_by("57.29577951308232087679815481410517")
    }
    fn multiply_by(self, factor: &str) -> Decimal128 {
        match Decimal128::parse(factor) {
            Some(f) if self.is_finite() && !self.is_zero() => self * f,
            _ => self,
        }
    }
}

#[cfg(test)]
mod tests;
