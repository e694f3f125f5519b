//! Small helpers shared by operators: integers of any numeric type, argument documents, user
//! variables.
//! Must not know any single operator.

use super::ParseCx;
use crate::VarId;
use model::{MongoError, Number, Result, Value, bail, code};

/// The value as an `i32`, when it is a number with exactly such a value.
pub(crate) fn int32_exact(v: &Value<'_>) -> Option<i32> {
    i32::try_from(Number::of(v)?.to_i64_exact()?).ok()
}

/// Checks a variable name a user wants to bind (`as`, `vars`): it begins with a lower-case letter
/// or a non-ASCII character; `CURRENT` is the one exception.
///
/// # Errors
/// 9 FailedToParse.
pub fn check_user_variable(name: &str) -> Result<()> {
    if name == "CURRENT" {
        return Ok(());
    }
    let Some(first) = name.chars().next() else {
        bail!(
            code::FAILED_TO_PARSE,
            "empty variable names are not allowed"
        );
    };
    if first.is_ascii() && !first.is_ascii_lowercase() {
        bail!(
            code::FAILED_TO_PARSE,
            "'{name}' starts with an invalid character for a user variable name"
        );
    }
    if let Some(c) = name
        .chars()
        .skip(1)
        .find(|c| !(c.is_ascii_alphanumeric() || *c == '_' || !c.is_ascii()))
    {
        bail!(
            code::FAILED_TO_PARSE,
            "'{name}' contains an invalid character for a variable name: '{c}'"
        );
    }
    Ok(())
}

/// Defines the variable named by an `as` argument, or `this` without one.
///
/// # Errors
/// 9 FailedToParse for names that are no user variables (anything but a string counts as the empty
/// name).
pub(crate) fn define_as(cx: &mut ParseCx<'_>, name: Value<'_>) -> Result<VarId> {
    let name = match name {
        Value::Missing => "this",
        v => {
            let name = v.as_str().unwrap_or("");
            check_user_variable(name)?;
            name
        }
    };
    Ok(cx.define(name))
}

/// The error for a missing argument field.
pub(crate) fn missing(code: i32, operator: &str, field: &str) -> MongoError {
    MongoError::new(code, format!("Missing '{field}' parameter to {operator}"))
}
