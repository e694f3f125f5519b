//! `$sin`, `$cos`, `$tan` (finite angles), `$asin`, `$acos`, `$atanh` (-1 to 1), `$acosh` (from 1),
//! `$atan`, `$atan2`, `$sinh`, `$cosh`, `$tanh`, `$asinh`, `$degreesToRadians`,
//! `$radiansToDegrees`. Null and missing give null, NaN gives NaN. 28765 not a number (`$atan2`:
//! 51044 / 51045 first / second operand), 50989 outside the range.

use crate::Cx;
use crate::expr::{Operator, nary, unary};
use model::{Decimal128, Number, Result, Value, bail};

macro_rules! angles {
    ($($name:literal $f:ident $low:expr, $high:expr, $double:expr, $decimal:expr;)*) => {
        $(fn $f<'a>(_: &Cx<'_, 'a>, v: Value<'a>) -> Result<Value<'a>> {
            apply($name, v, $low, $high, $double, $decimal)
        })*
        pub(super) static OPERATORS: &[Operator] = &[
            Operator { name: "$atan2", parse: |cx, name, spec| nary(cx, name, spec, 2..=2,
                atan2) },
            $(Operator { name: $name, parse: |cx, name, spec| unary(cx, name, spec, $f) }),*
        ];
    };
}

const INF: f64 = f64::INFINITY;
/// Finite values only.
const LOW: f64 = f64::MIN;
const HIGH: f64 = f64::MAX;

// The standard library computes the inverse hyperbolic functions with naive formulas; libm has
// those of the C library, whose last digits match MongoDB.
angles! {
    "$sin" sin LOW, HIGH, f64::sin, Decimal128::sin;
    "$cos" cos LOW, HIGH, f64::cos, Decimal128::cos;
    "$tan" tan LOW, HIGH, f64::tan, Decimal128::tan;
    "$asin" asin -1.0, 1.0, f64::asin, Decimal128::asin;
    "$acos" acos -1.0, 1.0, f64::acos, Decimal128::acos;
    "$atan" atan -INF, INF, f64::atan, Decimal128::atan;
    "$sinh" sinh -INF, INF, f64::sinh, Decimal128::sinh;
    "$cosh" cosh -INF, INF, f64::cosh, Decimal128::cosh;
    "$tanh" tanh -INF, INF, f64::tanh, Decimal128::tanh;
    "$asinh" asinh -INF, INF, libm::asinh, Decimal128::asinh;
    "$acosh" acosh 1.0, INF, libm::acosh, Decimal128::acosh;
    "$atanh" atanh -1.0, 1.0, libm::atanh, Decimal128::atanh;
    "$degreesToRadians" to_radians -INF, INF, |x| x * (std::f64::consts::PI / 180.0),
        Decimal128::to_radians;
    "$radiansToDegrees" to_degrees -INF, INF, |x| x * (180.0 / std::f64::consts::PI),
        Decimal128::to_degrees;
}

fn apply<'a>(
    name: &str,
    v: Value<'a>,
    low: f64,
    high: f64,
    double: fn(f64) -> f64,
    decimal: fn(Decimal128) -> Decimal128,
) -> Result<Value<'a>> {
    if v.is_nullish() {
        return Ok(Value::Null);
    }
    let Some(n) = Number::of(&v) else {
        bail!(
            28765,
            "{name} only supports numeric types, not {}",
            v.type_name()
        )
    };
    if n.is_nan() {
        return Ok(v);
    }
    let inside = match (n, low == LOW) {
        // A finite decimal may be larger than every double.
        (Number::Decimal(d), true) => d.is_finite(),
        _ => n.compare(&Number::Double(low)).is_ge() && n.compare(&Number::Double(high)).is_le(),
    };
    if !inside {
        let shown = |x: f64, infinity: &str| {
            if x.abs() >= HIGH {
                infinity.to_owned()
            } else {
                format!("[{x}]")
            }
        };
        bail!(
            50989,
            "cannot apply {name} to {}, value must be between {} and {}",
            v,
            shown(low, "(-inf)"),
            shown(high, "(inf)")
        );
    }
    Ok(match n {
        Number::Decimal(d) => Value::Decimal128(decimal(d)),
        n => Value::Double(double(n.to_f64())),
    })
}

fn atan2<'a>(_: &Cx<'_, 'a>, v: &[Value<'a>]) -> Result<Value<'a>> {
    let [y, x] = v else { return Ok(Value::Null) };
    if y.is_nullish() || x.is_nullish() {
        return Ok(Value::Null);
    }
    let Some(a) = Number::of(y) else {
        bail!(
            51044,
            "$atan2 only supports numeric types, not {}",
            y.type_name()
        )
    };
    let Some(b) = Number::of(x) else {
        bail!(
            51045,
            "$atan2 only supports numeric types, not {}",
            x.type_name()
        )
    };
    Ok(match (a, b) {
        (Number::Decimal(_), _) | (_, Number::Decimal(_)) => {
            Value::Decimal128(a.to_decimal().atan2(b.to_decimal()))
        }
        _ => Value::Double(a.to_f64().atan2(b.to_f64())),
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::rows(&[
            (r#"{"$sin": "$missing"}"#, "null null"),
            (r#"{"$cos": 0}"#, "double 1.0"),
            (r#"{"$cos": "$s"}"#, "error 28765"),
            (r#"{"$tan": {"$numberDouble": "Infinity"}}"#, "error 50989"),
            (
                r#"{"$sin": {"$numberDecimal": "-Infinity"}}"#,
                "error 50989",
            ),
            (r#"{"$sin": {"$numberDouble": "NaN"}}"#, "double nan"),
            (r#"{"$asin": 1.5}"#, "error 50989"),
            (r#"{"$acosh": 0.5}"#, "error 50989"),
            (r#"{"$atanh": -1}"#, "double -inf"),
            (r#"{"$atanh": {"$numberDecimal": "1"}}"#, "decimal Infinity"),
            (
                r#"{"$acos": {"$numberDecimal": "-1"}}"#,
                "decimal 3.141592653589793238462643383279503",
            ),
            (r#"{"$degreesToRadians": 180}"#, "double 3.141592653589793"),
            (
                r#"{"$radiansToDegrees": {"$numberDecimal": "1"}}"#,
                "decimal 57.29577951308232087679815481410517",
            ),
            (r#"{"$atan2": ["$n", "$s"]}"#, "null null"),
            (r#"{"$atan2": ["$s", 1]}"#, "error 51044"),
            (r#"{"$atan2": [1, "$s"]}"#, "error 51045"),
            (r#"{"$atan2": [1, 1]}"#, "double 0.7853981633974483"),
            (r#"{"$asinh": 0.0377}"#, "double 0.0376910752680737"),
            (r#"{"$acosh": 1.5}"#, "double 0.9624236501192069"),
            (r#"{"$sin": [1, 2]}"#, "error 16020"),
        ]);
    }
}
