//! `$all`, `$size`, `$elemMatch`. `$all` is a conjunction: of equalities, or of `$elemMatch`es;
//! `$all: []` matches nothing. `$size` is exact. `$elemMatch` matches when one element passes all
//! conditions. Errors: 2 throughout.

use super::comparison::{Compare, CompareOp, is_operator_document};
use super::node::Test;
use super::regex::Pattern;
use model::{Doc, Result, Value, bail, code};

/// Parses the operand of `$size`.
///
/// # Errors
/// 2 BadValue unless it is a non-negative integral number of 32 bits.
pub(super) fn size(spec: Value<'_>) -> Result<Test> {
    match spec.as_i64_exact() {
        Some(n) if (0..=i64::from(i32::MAX)).contains(&n) => Ok(Test::Size(n)),
        Some(n) if n > 0 => bail!(
            code::BAD_VALUE,
            "Failed to parse $size. Cannot represent as a 32-bit integer: {n}"
        ),
        Some(n) => bail!(
            code::BAD_VALUE,
            "Failed to parse $size. Expected a non-negative number in: {n}"
        ),
        None => bail!(
            code::BAD_VALUE,
            "Failed to parse $size. Expected an integer, got {}",
            spec.type_name()
        ),
    }
}

/// Parses the operand of `$all` into the tests that must all hold; an empty list matches nothing.
/// `elem_match` parses the operand of an `$elemMatch` inside.
///
/// # Errors
/// 2 BadValue, and the errors of `elem_match`.
pub(super) fn all(
    spec: Value<'_>,
    path: &str,
    elem_match: &mut dyn FnMut(Value<'_>) -> Result<Test>,
) -> Result<Vec<Test>> {
    let Value::Array(items) = spec else {
        bail!(code::BAD_VALUE, "$all needs an array")
    };
    let is_elem_match = |v: &Value<'_>| {
        v.as_doc()
            .and_then(|d| d.first())
            .is_some_and(|(n, _)| n == "$elemMatch")
    };
    let first_is_elem_match = items.iter().next().is_some_and(|v| is_elem_match(&v));
    let mut tests = Vec::new();
    for v in items.iter() {
        if first_is_elem_match {
            let inner = v
                .as_doc()
                .and_then(|d| d.get("$elemMatch"))
                .filter(|_| is_elem_match(&v));
            let Some(inner) = inner else {
                bail!(code::BAD_VALUE, "$all/$elemMatch has to be consistent")
            };
            tests.push(elem_match(inner)?);
            continue;
        }
        tests.push(match v {
            Value::Document(d) if begins_with_operator(d) => {
                bail!(code::BAD_VALUE, "no $ expressions in $all")
            }
            Value::Regex(r) => Test::Regex(Pattern::new(r.pattern, r.options)?),
            v => Test::Compare(Compare::new(CompareOp::Eq, v, path)?),
        });
    }
    Ok(tests)
}

/// `{$gt: 1}` tests elements themselves; `{a: 1}`, `{$or: [..]}` and `{}` are filters on documents.
pub(super) fn is_value_form(d: Doc<'_>) -> bool {
    is_operator_document(d)
        && d.first().is_some_and(|(n, _)| {
            !matches!(
                n,
                "$and" | "$or" | "$nor" | "$where" | "$expr" | "$jsonSchema" | "$text" | "$comment"
            )
        })
}

/// Operators that are allowed below a path. A document that begins with another name is a value.
const BELOW_PATHS: &[&str] = &[
    "$all",
    "$bitsAllClear",
    "$bitsAllSet",
    "$bitsAnyClear",
    "$bitsAnySet",
    "$elemMatch",
    "$eq",
    "$exists",
    "$geoIntersects",
    "$geoNear",
    "$geoWithin",
    "$gt",
    "$gte",
    "$in",
    "$lt",
    "$lte",
    "$maxDistance",
    "$minDistance",
    "$mod",
    "$ne",
    "$near",
    "$nearSphere",
    "$nin",
    "$not",
    "$options",
    "$regex",
    "$size",
    "$type",
    "$within",
];

fn begins_with_operator(d: Doc<'_>) -> bool {
    d.first()
        .is_some_and(|(name, _)| BELOW_PATHS.contains(&name))
}
