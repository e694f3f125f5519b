//! `$mod: [divisor, remainder]`: integers after truncation; only finite numbers match. Errors: 2
//! for anything but two finite numbers, and for a divisor that truncates to zero.

use model::{Number, Result, Value, bail, code};

/// A parsed `$mod`.
pub struct Mod {
    divisor: i64,
    remainder: i64,
}

/// The integer part, when it fits `i64`.
pub(crate) fn truncate(n: Number) -> Option<i64> {
    match n {
        Number::Double(d) => Number::Double(d.trunc()).to_i64_exact(),
        Number::Decimal(d) => match d.parts() {
            model::decimal::DecimalParts::Finite {
                negative,
                coefficient,
                exponent,
            } => {
                let mut c = coefficient;
                for _ in 0..exponent.unsigned_abs().min(64) {
                    c = if exponent < 0 {
                        c / 10
                    } else {
                        c.checked_mul(10)?
                    };
                }
                if exponent > 64 && c != 0 {
                    return None;
                }
                let signed = i128::try_from(c).ok()?;
                i64::try_from(if negative { -signed } else { signed }).ok()
            }
            _ => None,
        },
        n => n.to_i64_exact(),
    }
}

impl Mod {
    /// Parses the operand.
    ///
    /// # Errors
    /// 2 BadValue unless the operand is an array of a valid divisor and remainder.
    pub(super) fn parse(spec: Value<'_>) -> Result<Mod> {
        let Value::Array(a) = spec else {
            bail!(code::BAD_VALUE, "malformed mod, needs to be an array")
        };
        match a.len() {
            0 | 1 => bail!(code::BAD_VALUE, "malformed mod, not enough elements"),
            2 => {}
            _ => bail!(code::BAD_VALUE, "malformed mod, too many elements"),
        }
        let part = |index: usize, what: &str| -> Result<i64> {
            let v = a.get(index).unwrap_or(Value::Missing);
            let Some(n) = Number::of(&v) else {
                bail!(code::BAD_VALUE, "malformed mod, {what} not a number")
            };
            match truncate(n) {
                Some(n) => Ok(n),
                None => bail!(
                    code::BAD_VALUE,
                    "malformed mod, {what} value is invalid: {}",
                    v
                ),
            }
        };
        let (divisor, remainder) = (part(0, "divisor")?, part(1, "remainder")?);
        if divisor == 0 {
            bail!(code::BAD_VALUE, "divisor cannot be 0");
        }
        Ok(Mod { divisor, remainder })
    }

    pub(super) fn matches(&self, v: &Value<'_>) -> bool {
        Number::of(v)
            .and_then(truncate)
            .is_some_and(|n| n.checked_rem(self.divisor).unwrap_or(0) == self.remainder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::doc;

    #[test]
    fn truncates_and_refuses() {
        let d = doc! { "a": [4i32, 1.5], "zero": [0.5, 0i32], "short": [1i32], "nan": [f64::NAN,
        1i32] };
        let m = Mod::parse(d.doc().field("a")).unwrap();
        for (v, wanted) in [
            (Value::Int32(5), true),
            (Value::Double(5.9), true),
            (Value::Double(f64::NAN), false),
            (Value::Null, false),
            (Value::Missing, false),
            (Value::Int64(i64::MIN), false),
        ] {
            assert_eq!(m.matches(&v), wanted, "{v:?}");
        }
        for field in ["zero", "short", "nan", "none"] {
            assert_eq!(
                Mod::parse(d.doc().field(field)).err().map(|e| e.code()),
                Some(2),
                "{field}"
            );
        }
    }
}
