//! An error in one line. Promises: it contains no password; temporary errors are distinguished from
//! permanent ones.

use mongodb::error::{Error, ErrorKind};

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Options or names that are not possible. Nothing was changed.
    Options,
    /// A server that is unreachable or busy: trying again later may help.
    Network,
    /// Data or an answer that is not as it must be.
    Data,
}

/// A message of one line and the kind of error.
#[derive(Clone, Debug)]
pub struct FollowError {
    /// What kind.
    pub cause: Cause,
    /// One line.
    pub message: String,
    /// The server's error code, if it refused.
    pub code: Option<i32>,
}

/// A result with such an error.
pub type Result<T> = std::result::Result<T, FollowError>;

impl std::fmt::Display for FollowError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for FollowError {}

impl FollowError {
    /// Options or names that cannot be served.
    pub(crate) fn of_options(message: impl Into<String>) -> FollowError {
        FollowError::new(Cause::Options, message)
    }

    /// An unreachable server.
    pub(crate) fn of_network(message: impl Into<String>) -> FollowError {
        FollowError::new(Cause::Network, message)
    }

    /// Something that is not as it must be.
    pub(crate) fn of_data(message: impl Into<String>) -> FollowError {
        FollowError::new(Cause::Data, message)
    }

    fn new(cause: Cause, message: impl Into<String>) -> FollowError {
        FollowError {
            cause,
            message: message.into(),
            code: None,
        }
    }

    /// The same error, with the failed step in front of it.
    pub(crate) fn in_step(mut self, what: &str) -> FollowError {
        self.message = format!("{what}: {}", self.message);
        self
    }

    pub(crate) fn is(&self, code: i32) -> bool {
        self.code == Some(code)
    }
}

/// MongoDB's error codes that are handled.
pub(crate) mod code {
    pub(crate) const NAMESPACE_NOT_FOUND: i32 = 26;
    pub(crate) const INDEX_NOT_FOUND: i32 = 27;
    pub(crate) const NAMESPACE_EXISTS: i32 = 48;
    pub(crate) const INDEX_OPTIONS_CONFLICT: i32 = 85;
    pub(crate) const INDEX_KEY_CONFLICT: i32 = 86;
    pub(crate) const HISTORY_LOST: i32 = 286;
    pub(crate) const UUID_MISMATCH: i32 = 361;
    pub(crate) const DUPLICATE_KEY: i32 = 11000;
}

/// Error codes of a server that is temporarily not ready: unreachable hosts, elections, shutdowns,
/// cursors lost with them, interrupted reads and writes, overload.
const PASSING: &[i32] = &[
    6, 7, 24, 43, 50, 64, 89, 91, 112, 134, 146, 175, 189, 202, 237, 246, 262, 358, 402, 462, 9001,
    10107, 11600, 11602, 13435, 13436,
];

/// The driver's error for servers that it did not find, without the details of each.
fn shorten_unanswered(message: &str) -> String {
    let why = message.split_once("Error: Kind: ").map(|(_, rest)| rest);
    let why = why.and_then(|rest| rest.split(", labels: ").next());
    match why {
        Some(why) => format!("does not answer: {why}"),
        None => "does not answer, or none of its members takes commands".to_owned(),
    }
}

fn server_code(error: &Error) -> Option<i32> {
    match error.kind.as_ref() {
        ErrorKind::Command(e) => Some(e.code),
        _ => None,
    }
}

impl From<Error> for FollowError {
    fn from(e: Error) -> FollowError {
        let code = server_code(&e);
        let (cause, message) = match e.kind.as_ref() {
            ErrorKind::Command(c) if PASSING.contains(&c.code) => {
                (Cause::Network, format!("{} (code {})", c.message, c.code))
            }
            ErrorKind::Command(c) => (Cause::Data, format!("{} (code {})", c.message, c.code)),
            ErrorKind::ServerSelection { message, .. } => {
                (Cause::Network, shorten_unanswered(message))
            }
            ErrorKind::Io(_)
            | ErrorKind::ConnectionPoolCleared { .. }
            | ErrorKind::DnsResolve { .. } => (Cause::Network, e.kind.to_string()),
            ErrorKind::Authentication { .. } => (Cause::Options, e.kind.to_string()),
            _ => (Cause::Data, e.kind.to_string()),
        };
        FollowError {
            cause,
            message: message.replace('\n', " "),
            code,
        }
    }
}

impl From<mongodb::bson::error::Error> for FollowError {
    fn from(e: mongodb::bson::error::Error) -> FollowError {
        FollowError::of_data(format!("an answer is not as expected: {e}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_does_not_answer_is_reported_in_one_short_line() {
        let driver = "Server selection timeout: No available servers. Topology: { Type: Unknown, \
                      Servers: [ { Address: a:1, Type: Unknown, Error: Kind: I/O error: refused, \
                      labels: {\"x\"}, source: None } ] }";
        assert_eq!(
            shorten_unanswered(driver),
            "does not answer: I/O error: refused"
        );
        let none =
            shorten_unanswered("Server selection timeout: No available servers. Topology: { }");
        assert!(none.starts_with("does not answer"), "{none}");
    }
}
