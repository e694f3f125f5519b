//! Code that sessions and the target share: reading rows, and errors in one line.

/// How rows are read by id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Interface {
    /// `SELECT`.
    #[default]
    Select,
    /// `HANDLER ... READ`, which bypasses the optimizer.
    Handler,
}

/// The server's message on one line.
pub(crate) fn one_line(error: &mysql::Error) -> String {
    let text = match error {
        mysql::Error::MySqlError(error) => format!("{} ({})", error.message, error.code),
        other => other.to_string(),
    };
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
