//! Helpers to read the parts of analyzers.

use super::token::{GramAnchor, Grams};
use crate::args::Args;
use crate::error::invalid;
use model::{Result, Value};

/// Most bytes of a compiled pattern.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// The type of a part.
pub(super) fn kind_of<'d>(path: &str, v: Value<'d>) -> Result<&'d str> {
    let kind = v.as_doc().and_then(|d| d.field("type").as_str());
    kind.ok_or_else(|| invalid(format!("\"{path}.type\" is required, a string")))
}

/// `{minGram, maxGram}` of an edgeGram or nGram.
pub(super) fn parse_grams(args: &Args<'_>, kind: &str) -> Result<Grams> {
    let bound = |field: &str| -> Result<usize> {
        args.required(field)?;
        let n = args.integer(field, 1, 255)?.unwrap_or(1);
        Ok(usize::try_from(n).unwrap_or(1))
    };
    let (min, max) = (bound("minGram")?, bound("maxGram")?);
    if min > max {
        return Err(invalid(format!(
            "\"{}\" is {min}, which is more than maxGram, {max}",
            args.name("minGram")
        )));
    }
    Ok(Grams {
        min,
        max,
        cut: match kind {
            "edgeGram" => GramAnchor::Beginnings,
            _ => GramAnchor::All,
        },
        with_others: args.word("termNotInBounds", &["omit", "include"])? == Some("include"),
    })
}

/// A required pattern.
pub(super) fn parse_pattern(args: &Args<'_>) -> Result<regex::Regex> {
    let text = args.as_string("pattern", args.required("pattern")?)?;
    let compiled = regex::RegexBuilder::new(text)
        .size_limit(PATTERN_BYTES_MAX)
        .build();
    compiled.map_err(|_| {
        invalid(format!(
            "\"{}\" is no usable pattern: {text}",
            args.name("pattern")
        ))
    })
}
