//! The names that variables of users may have. Must not know: scopes.

use model::{Result, bail, code};

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
