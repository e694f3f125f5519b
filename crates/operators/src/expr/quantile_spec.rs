//! The argument `{input, p, method}` of `$percentile` and `$median` (without `p`), as expressions
//! and as accumulators, and the percentile of a list: the smallest value such that at least the
//! share `p` of the list is at or below it.

use crate::expr::{BoxExpr, ParseCx, parse};
use model::{Array, Bump, Number, Result, Value, bail, code};

/// A parsed argument.
pub(crate) struct QuantileSpec {
    /// The values.
    pub(crate) input: BoxExpr,
    /// The values of `p`; none for `$median`.
    pub(crate) shares: Option<Vec<f64>>,
}

impl QuantileSpec {
    /// Parses the argument; `not_object` is the code for anything but a document.
    ///
    /// # Errors
    /// 40414 missing argument, 40415 unknown argument, 14 method no string, 2 unknown method,
    /// 7750300-7750303 bad `p`.
    pub(crate) fn parse(
        cx: &mut ParseCx<'_>,
        name: &str,
        spec: Value<'_>,
        not_object: i32,
    ) -> Result<QuantileSpec> {
        let Value::Document(d) = spec else {
            bail!(
                not_object,
                "specification must be an object; found {name}: {spec}"
            );
        };
        let median = name == "$median";
        if let Some((unknown, _)) = d
            .iter()
            .find(|(n, _)| !(["input", "method"].contains(n) || *n == "p" && !median))
        {
            bail!(40415, "BSON field '{name}.{unknown}' is an unknown field");
        }
        match d.get("method") {
            None | Some(Value::String("approximate")) => {}
            Some(Value::String(_)) => bail!(
                code::BAD_VALUE,
                "Currently only 'approximate' can be used as percentile 'method'"
            ),
            Some(v) => bail!(
                code::TYPE_MISMATCH,
                "BSON field '{name}.method' is the wrong type '{}', expected type 'string'",
                v.type_name()
            ),
        }
        for required in if median {
            &["input", "method"][..]
        } else {
            &["input", "p", "method"][..]
        } {
            if !d.contains(required) {
                bail!(
                    40414,
                    "BSON field '{name}.{required}' is missing but a required field"
                );
            }
        }
        let input = parse(cx, d.field("input"))?;
        let shares = if median {
            None
        } else {
            Some(shares(cx, d.field("p"))?)
        };
        Ok(QuantileSpec { input, shares })
    }
}

fn shares(cx: &mut ParseCx<'_>, p: Value<'_>) -> Result<Vec<f64>> {
    let parsed = parse(cx, p)?;
    let Some(list) = parsed.constant() else {
        bail!(
            7750300,
            "The $percentile 'p' field must be an array of constant values, but found value: {p}"
        );
    };
    let list = match list {
        Value::Array(a) if !a.is_empty() => a,
        v => bail!(
            7750301,
            "The $percentile 'p' field must be an array of numbers from [0.0, 1.0], but found: \
                {v}"
        ),
    };
    list.iter()
        .map(|v| {
            let Some(n) = Number::of(&v) else {
                bail!(
                    7750302,
                    "The $percentile 'p' field must be an array of numbers from [0.0, \
                    1.0], but found: {v}"
                );
            };
            let share = n.to_f64();
            if !(0.0..=1.0).contains(&share) {
                bail!(
                    7750303,
                    "The $percentile 'p' field must be an array of numbers from [0.0, \
                    1.0], but found: {share}"
                );
            }
            Ok(share)
        })
        .collect()
}

/// The percentiles of a list: an array, or the median alone without shares. Null for an empty list.
pub(crate) fn quantiles<'a>(values: &[f64], shares: Option<&[f64]>, arena: &'a Bump) -> Value<'a> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| !v.is_nan()).collect();
    sorted.sort_by(f64::total_cmp);
    let of = |share: f64| {
        let rank = (sorted.len() as f64 * share).ceil() as usize;
        sorted
            .get(rank.saturating_sub(1))
            .map_or(Value::Null, |v| Value::Double(*v))
    };
    match shares {
        None => of(0.5),
        Some(shares) => Value::Array(Array::from_values_in(arena, shares.iter().map(|p| of(*p)))),
    }
}
