//! The argument `{n, input}` of `$firstN`, `$lastN`, `$minN`, `$maxN`, as expressions and as
//! accumulators, and the value of `n`.

use crate::expr::args::missing_error;
use crate::expr::{BoxExpr, ParseCx, parse};
use model::{Number, Result, Value, bail};

/// A parsed argument.
pub(crate) struct NSpec {
    /// The number of values.
    pub(crate) n: BoxExpr,
    /// The array or value to choose from.
    pub(crate) input: BoxExpr,
}

impl NSpec {
    /// Parses the argument.
    ///
    /// # Errors
    /// 5787801 / 5787900 no document, 5787901 unknown argument, 5787906 / 5787907 no `n` / `input`.
    pub(crate) fn parse(cx: &mut ParseCx<'_>, name: &str, spec: Value<'_>) -> Result<NSpec> {
        let Value::Document(d) = spec else {
            let code = if matches!(name, "$firstN" | "$lastN") {
                5787801
            } else {
                5787900
            };
            bail!(
                code,
                "specification must be an object; found {name}: {spec}"
            );
        };
        let (mut n, mut input) = (None, None);
        for (argument, v) in d.iter() {
            match argument {
                "n" => n = Some(parse(cx, v)?),
                "input" => input = Some(parse(cx, v)?),
                _ => bail!(5787901, "Unknown argument for 'n' operator: {argument}"),
            }
        }
        let n = n.ok_or_else(|| missing_error(5787906, name, "n"))?;
        let input = input.ok_or_else(|| missing_error(5787907, name, "input"))?;
        Ok(NSpec { n, input })
    }
}

/// The value of an `n`.
///
/// # Errors
/// 5787902 no number, 5787903 no integer, 5787908 not positive.
pub(crate) fn count_of(v: Value<'_>) -> Result<usize> {
    let Some(number) = Number::of(&v) else {
        bail!(
            5787902,
            "Value for 'n' must be of integral type, but found {v}"
        );
    };
    let Some(n) = number.to_i64_exact() else {
        bail!(
            5787903,
            "Value for 'n' must be of integral type, but found {v}"
        );
    };
    match usize::try_from(n) {
        Ok(n) if n > 0 => Ok(n),
        _ => bail!(5787908, "'n' must be greater than 0, found {n}"),
    }
}

/// The value of an accumulator's `n`, which is evaluated when a group begins.
///
/// # Errors
/// 7548606 for a value that is no positive whole number.
pub(crate) fn count_of_group(v: Value<'_>) -> Result<usize> {
    count_of(v).or_else(|_| {
        bail!(
            7548606,
            "parameter 'n' must be coercible to a positive 64-bit integer, found {v}"
        )
    })
}

/// The value of `n`, if it is a valid constant.
pub(crate) fn constant_count(n: &BoxExpr) -> Option<usize> {
    n.constant().and_then(|v| count_of(v).ok())
}
