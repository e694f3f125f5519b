//! Small helpers shared by operators: integers of any numeric type, argument documents, variables
//! of `as`.
//! Must not know any single operator.

use super::state::ParseCx;
use super::user_variable::check_user_variable;
use crate::{Frame, VarId};
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

/// Whether an argument of `$map`, `$filter` or `$reduce` is known: an old one, and a new one where
/// the profile has them.
pub(crate) fn is_known(cx: &ParseCx<'_>, argument: &str, old: &[&str], new: &[&str]) -> bool {
    old.contains(&argument) || cx.env.profile.tells_indexes() && new.contains(&argument)
}

/// The variable of the index of an element, where the profile has one: as `arrayIndexAs` names it,
/// else `IDX`.
///
/// # Errors
/// As [`define_as`].
pub(crate) fn define_index(cx: &mut ParseCx<'_>, name: Value<'_>) -> Result<Option<VarId>> {
    if !cx.env.profile.tells_indexes() {
        return Ok(None);
    }
    match name {
        Value::Missing => Ok(Some(cx.define("IDX"))),
        name => define_as(cx, name).map(Some),
    }
}

/// A frame with the index of an element, where it has a variable.
pub(crate) fn index_frame<'t, 'a>(
    var: Option<VarId>,
    index: usize,
    outer: Option<&'t Frame<'t, 'a>>,
) -> Option<Frame<'t, 'a>> {
    var.map(|id| Frame {
        id,
        value: Value::Int32(i32::try_from(index).unwrap_or(i32::MAX)),
        outer,
    })
}

/// The error for a missing argument field.
pub(crate) fn missing(code: i32, operator: &str, field: &str) -> MongoError {
    MongoError::new(code, format!("Missing '{field}' parameter to {operator}"))
}
