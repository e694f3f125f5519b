//! Trigonometry of `Decimal128`, correct to 34 digits: decNumber has no such functions, so they are
//! series and identities on 60 digits. Angles are reduced modulo a quarter turn with as many digits
//! of pi as their size needs. NaN outside a function's domain.

use crate::Decimal128;
use crate::decimal::Parts;
use crate::decimal_arith::Wide;
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

    /// Pi with all digits that fit.
    fn pi(&mut self) -> dec::Decimal<N> {
        static DIGITS: OnceLock<String> = OnceLock::new();
        let digits = DIGITS.get_or_init(|| include_str!("pi.txt").split_whitespace().collect());
        // One digit stands before the point.
        let text = digits.get(..3 * N).unwrap_or(digits);
        self.0.parse(text).unwrap_or_else(|_| dec::Decimal::nan())
    }

    /// The angle less whole quarter turns (at most an eighth either way), and the number of
    /// quarters modulo four.
    fn reduce(&mut self, d: Decimal128) -> (u32, Wide) {
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
/// Digits enough for every angle: 6145 before the point, and what remains of them after it.
const LARGE: usize = 2100;

/// Sine and cosine.
fn sin_cos(d: Decimal128) -> (Wide, Wide) {
    let large = matches!(d.parts(), Parts::Finite { exponent, .. } if exponent > 26);
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

fn pi() -> Wide {
    Math::new().pi()
}

/// Arc tangent of a number that is not negative.
fn atan(m: &mut Math<20>, x: &Wide) -> Wide {
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
fn atanh(m: &mut Math<20>, x: &Wide) -> Wide {
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
    fn odd(self, f: impl FnOnce(&mut Math<20>, &Wide) -> Wide) -> Decimal128 {
        if self.is_nan() || self.is_zero() {
            return self;
        }
        let result = Decimal128::from_wide(&f(&mut Math::new(), &self.abs().to_wide()));
        if self.is_negative() { -result } else { result }
    }

    /// Arc sine, for -1 to 1.
    pub fn asin(self) -> Decimal128 {
        self.odd(|m, x| {
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
        self.odd(|m, x| {
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
        self.odd(|m, x| {
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
        self.odd(|m, x| {
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
        self.odd(|m, x| {
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
        self.odd(atanh)
    }
    /// From degrees to radians: times π/180 rounded to 34 digits, as MongoDB's last digits show.
    pub fn to_radians(self) -> Decimal128 {
        self.scaled("0.01745329251994329576923690768488613")
    }
    /// From radians to degrees: times 180/π rounded to 34 digits.
    pub fn to_degrees(self) -> Decimal128 {
        self.scaled("57.29577951308232087679815481410517")
    }
    fn scaled(self, factor: &str) -> Decimal128 {
        match Decimal128::parse(factor) {
            Some(f) if self.is_finite() && !self.is_zero() => self * f,
            _ => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn d(t: &str) -> Decimal128 {
        Decimal128::parse(t).unwrap()
    }

    /// Equal but for trailing zeros and the last of 34 digits.
    fn close(a: Decimal128, b: Decimal128) -> bool {
        a.compare(&b).is_eq() || ((a - b) / b).abs().compare(&d("2E-33")).is_lt()
    }

    #[test]
    fn agrees_with_an_arbitrary_precision_library() {
        for (function, argument, expected) in [
            ("sin", "0.5", "0.4794255386042030002732879352155714"),
            ("cos", "0.5", "0.8775825618903727161162815826038297"),
            ("tan", "0.5", "0.5463024898437905132551794657802854"),
            ("sin", "1", "0.8414709848078965066525023216302990"),
            ("cos", "1", "0.5403023058681397174009366074429766"),
            ("tan", "1", "1.557407724654902230506974807458360"),
            ("sin", "-2", "-0.9092974268256816953960198659117448"),
            ("cos", "-2", "-0.4161468365471423869975682295007622"),
            ("tan", "-2", "2.185039863261518991643306102313683"),
            (
                "sin",
                "3.141592653589793238462643383279503",
                "-1.158028306006248941790250554076922E-34",
            ),
            ("cos", "3.141592653589793238462643383279503", "-1.0"),
            (
                "tan",
                "3.141592653589793238462643383279503",
                "1.158028306006248941790250554076922E-34",
            ),
            ("sin", "100", "-0.5063656411097587936565576104597854"),
            ("cos", "100", "0.8623188722876839341019385139508425"),
            ("tan", "100", "-0.5872139151569290766778096356445879"),
            ("sin", "1E+30", "-0.09011690191213805803038642895298733"),
            ("cos", "1E+30", "-0.9959311944053957023942485879970486"),
            ("tan", "1E+30", "0.09048506806330217256622313805004127"),
            ("sin", "1E-20", "1.000000000000000000000000000000000E-20"),
            ("cos", "1E-20", "1.000000000000000000000000000000000"),
            ("tan", "1E-20", "1.000000000000000000000000000000000E-20"),
            ("sin", "1E+6000", "-0.7249266534376325863453460198136025"),
            ("cos", "1E+6000", "-0.6888260645008393834757008024508130"),
            ("tan", "1E+6000", "1.052408860229401513505574301283600"),
            (
                "sin",
                "12345678901234567890",
                "0.5163502107837577394789204476822115",
            ),
            (
                "cos",
                "12345678901234567890",
                "0.8563775217878905493987274804397021",
            ),
            (
                "tan",
                "12345678901234567890",
                "0.6029469452978571812488142928345981",
            ),
            ("sin", "-7E+59", "-0.7738716258182255619518437206547342"),
            ("cos", "-7E+59", "0.6333424877216562389894555256624786"),
            ("tan", "-7E+59", "-1.221884905593653464311390549993044"),
            ("asin", "0.5", "0.5235987755982988730771072305465838"),
            ("acos", "0.5", "1.047197551196597746154214461093168"),
            (
                "asin",
                "-0.999999999999999999999999999999999",
                "-1.570796326794896574509962141643958",
            ),
            (
                "acos",
                "-0.999999999999999999999999999999999",
                "3.141592653589793193741283833283709",
            ),
            ("asin", "1E-10", "1.000000000000000000001666666666667E-10"),
            ("acos", "1E-10", "1.570796326694896619231321691639585"),
            ("asin", "-1", "-1.570796326794896619231321691639751"),
            ("acos", "-1", "3.141592653589793238462643383279503"),
            ("asin", "0.7", "0.7753974966107530637403533527149871"),
            ("acos", "0.7", "0.7953988301841435554909683389247643"),
            ("atanh", "0.5", "0.5493061443340548456976226184612629"),
            (
                "atanh",
                "-0.999999999999999999999999999999999",
                "-38.33922762468172644100547506302110",
            ),
            ("atanh", "1E-10", "1.000000000000000000003333333333333E-10"),
            ("atanh", "0.1", "0.1003353477310755806357265520600389"),
            ("atan", "0.5", "0.4636476090008061162142562314612144"),
            ("asinh", "0.5", "0.4812118250596034474977589134243684"),
            ("atan", "1", "0.7853981633974483096156608458198757"),
            ("asinh", "1", "0.8813735870195430252326093249797923"),
            ("atan", "-3", "-1.249045772398254425829917077281090"),
            ("asinh", "-3", "-1.818446459232066823483698963560709"),
            ("atan", "1E-10", "9.999999999999999999966666666666667E-11"),
            ("asinh", "1E-10", "9.999999999999999999983333333333333E-11"),
            ("atan", "1E+30", "1.570796326794896619231321691638751"),
            ("asinh", "1E+30", "69.77069997038131582995697576198910"),
            ("atan", "0.01", "0.009999666686665238206340116209279549"),
            ("asinh", "0.01", "0.009999833340832886935141612163953796"),
            ("sinh", "0.5", "0.5210953054937473616224256264114916"),
            ("cosh", "0.5", "1.127625965206380785226225161402672"),
            ("tanh", "0.5", "0.4621171572600097585023184836436725"),
            ("sinh", "1", "1.175201193643801456882381850595601"),
            ("cosh", "1", "1.543080634815243778477905620757062"),
            ("tanh", "1", "0.7615941559557648881194582826047936"),
            ("sinh", "-3", "-10.01787492740990189897459361946583"),
            ("cosh", "-3", "10.06766199577776584195393603511589"),
            ("tanh", "-3", "-0.9950547536867304513318801852554885"),
            ("sinh", "1E-10", "1.000000000000000000001666666666667E-10"),
            ("cosh", "1E-10", "1.000000000000000000005000000000000"),
            ("tanh", "1E-10", "9.999999999999999999966666666666667E-11"),
            ("sinh", "0.01", "0.01000016666750000198412973986141174"),
            ("cosh", "0.01", "1.000050000416668055558035717041448"),
            ("tanh", "0.01", "0.009999666679999460339328919708839498"),
            ("sinh", "50", "2592352764293536232043.726661466743"),
            ("cosh", "50", "2592352764293536232043.726661466743"),
            ("tanh", "50", "1.000000000000000000000000000000000"),
            (
                "acosh",
                "1.000000000000000000000000000000001",
                "4.472135954999579392818347337462552E-17",
            ),
            ("acosh", "2", "1.316957896924816708625046347307968"),
            ("acosh", "1E+30", "69.77069997038131582995697576198910"),
            ("to_radians", "180", "3.141592653589793238462643383279503"),
            ("to_radians", "1", "0.01745329251994329576923690768488613"),
            (
                "to_radians",
                "-30.5",
                "-0.5323254218582705209617256843890269",
            ),
            ("to_degrees", "1", "57.29577951308232087679815481410517"),
            ("to_degrees", "-3.5", "-200.5352282957881230687935418493681"),
        ] {
            let x = d(argument);
            let got = match function {
                "sin" => x.sin(),
                "cos" => x.cos(),
                "tan" => x.tan(),
                "asin" => x.asin(),
                "acos" => x.acos(),
                "atan" => x.atan(),
                "sinh" => x.sinh(),
                "cosh" => x.cosh(),
                "tanh" => x.tanh(),
                "asinh" => x.asinh(),
                "acosh" => x.acosh(),
                "atanh" => x.atanh(),
                "to_radians" => x.to_radians(),
                "to_degrees" => x.to_degrees(),
                _ => unreachable!("{function}"),
            };
            assert!(
                close(got, d(expected)),
                "{function}({argument}) = {got}, expected {expected}"
            );
        }
    }

    #[test]
    fn ends_of_the_domains() {
        assert_eq!(d("-0").sin().to_string(), "-0");
        assert_eq!(d("0").cos().to_string(), "1");
        assert_eq!(d("1").acos().to_string(), "0");
        assert_eq!(d("-1").atanh().to_string(), "-Infinity");
        assert_eq!(d("-Infinity").sinh().to_string(), "-Infinity");
        assert_eq!(d("1E+6000").cosh().to_string(), "Infinity");
        assert_eq!(d("-Infinity").tanh().to_string(), "-1");
        assert!(
            d("2").asin().is_nan()
                && d("0").acosh().is_nan()
                && d("Infinity").sin().is_nan()
                && d("NaN").atan().is_nan()
        );
        for (y, x, angle) in [
            ("1", "1", "0.7853981633974483096156608458198757"),
            ("-1", "0", "-1.570796326794896619231321691639751"),
            ("0", "-1", "3.141592653589793238462643383279503"),
            ("-0", "1", "-0"),
            (
                "Infinity",
                "-Infinity",
                "2.356194490192344928846982537459627",
            ),
            ("1", "-1", "2.356194490192344928846982537459627"),
        ] {
            assert_eq!(d(y).atan2(d(x)).to_string(), angle, "{y} {x}");
        }
    }
}
