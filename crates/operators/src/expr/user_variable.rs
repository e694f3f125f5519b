//! Which names variables may have. Must not know: scopes.

use model::{Result, bail, code};

/// Checks a variable name that a user wants to bind (`as`, `vars`): it must begin with a lower-case
/// letter or a non-ASCII character; `CURRENT` is the only exception.
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
    check_rest(name)
}

/// Checks the name of a variable that is read, also a system variable: it must begin with a letter
/// or a non-ASCII character.
///
/// # Errors
/// 9 FailedToParse.
pub(super) fn check_variable(name: &str) -> Result<()> {
    let first = name.chars().next();
    if !first.is_some_and(|c| c.is_ascii_alphabetic() || !c.is_ascii()) {
        bail!(
            code::FAILED_TO_PARSE,
            "'{name}' starts with an invalid character for a variable name"
        );
    }
    check_rest(name)
}

fn check_rest(name: &str) -> Result<()> {
    let valid = |c: &char| c.is_ascii_alphanumeric() || *c == '_' || !c.is_ascii();
    match name.chars().skip(1).find(|c| !valid(c)) {
        Some(c) => bail!(
            code::FAILED_TO_PARSE,
            "'{name}' contains an invalid character for a variable name: '{c}'"
        ),
        None => Ok(()),
    }
}
