//! Small helpers shared by operators: integers of any numeric type, argument documents, variables
//! of `as`.
//! Must not know any single operator.

use super::state::ParseCx;
use super::user_variable::check_user_variable;
use crate::{Frame, VarId};
use model::{MongoError, Number, Result, Value};

/// The value as an `i32`, when it is a number exactly equal to one.
pub(crate) fn int32_exact(v: &Value<'_>) -> Option<i32> {
    i32::try_from(Number::of(v)?.to_i64_exact()?).ok()
}

/// Defines the variable named by an `as` argument, or `this` if absent.
///
/// # Errors
/// 9 FailedToParse for names that are not allowed for user variables (a value that is not a string
/// counts as the empty name).
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

/// Defines the variable for the index of an element, named by `arrayIndexAs` (8.3), else `IDX`.
///
/// # Errors
/// The errors of [`define_as`].
pub(crate) fn define_index(cx: &mut ParseCx<'_>, name: Value<'_>) -> Result<VarId> {
    match name {
        Value::Missing => Ok(cx.define("IDX")),
        name => define_as(cx, name),
    }
}

/// Checks that the variables of an operator have different names.
///
/// # Errors
/// `code` for a name used twice.
pub(crate) fn check_distinct(
    code: i32,
    operator: &str,
    names: &[(Value<'_>, &'static str)],
) -> Result<()> {
    let name = |(given, default): &(Value<'_>, &'static str)| match given {
        Value::Missing => (*default).to_owned(),
        v => v.as_str().unwrap_or("").to_owned(),
    };
    for (i, one) in names.iter().enumerate() {
        if names.iter().take(i).any(|other| name(other) == name(one)) {
            return Err(MongoError::new(
                code,
                format!("{operator} has two variables of the name '{}'", name(one)),
            ));
        }
    }
    Ok(())
}

/// A frame with the index of an element.
pub(crate) fn index_frame<'t, 'a>(
    id: VarId,
    index: usize,
    outer: Option<&'t Frame<'t, 'a>>,
) -> Frame<'t, 'a> {
    Frame {
        id,
        value: Value::Int32(i32::try_from(index).unwrap_or(i32::MAX)),
        outer,
    }
}

/// The error for a missing argument field.
pub(crate) fn missing_error(code: i32, operator: &str, field: &str) -> MongoError {
    MongoError::new(code, format!("Missing '{field}' parameter to {operator}"))
}
