//! Error messages of the configuration on one line. Must not know: options.

/// An error message on one line: it may quote what was given, whose control characters are
/// escaped.
pub(super) fn one_line(error: &str) -> String {
    let mut line = String::with_capacity(error.len());
    for c in error.trim_end().chars() {
        match c.is_control() {
            true => line.extend(c.escape_default()),
            false => line.push(c),
        }
    }
    line
}
