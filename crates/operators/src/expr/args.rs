//! Small helpers shared by operators: integers of any numeric type, argument documents, variables
//! of `as`.
//! Must not know any single operator.

use super::state::ParseCx;
use super::user_variable::check_user_variable;
use crate::VarId;
use model::{MongoError, Number, Result, Value};

/// The value as an `i32`, when it is a number with exactly such a value.
pub(crate) fn int32_exact(v: &Value<'_>) -> Option<i32> {
    i32::try_from(Number::of(v)?.to_i64_exact()?).ok()
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
