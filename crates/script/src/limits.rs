//! What one call may use, and what a script finds besides.

use operation::ConnectionId;
use std::time::Duration;

/// Takes a line that a script prints which works for a connection.
pub type Print = Box<dyn Fn(ConnectionId, &str) + Send + Sync>;

/// What one call may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of values on one thread.
    pub heap_bytes: usize,
    /// Time of one call.
    pub call: Duration,
    /// Bytes that the calls for one document may emit.
    pub emitted_bytes: usize,
}

impl Default for Limits {
    /// As in MongoDB.
    fn default() -> Limits {
        Limits {
            heap_bytes: 100 << 20,
            call: Duration::from_secs(60),
            emitted_bytes: 100 << 20,
        }
    }
}

/// What a call is made with.
pub(crate) struct Settings<'e> {
    /// What it may use.
    pub(crate) limits: Limits,
    /// Takes what it prints.
    pub(crate) print: &'e Print,
    /// The version of the server.
    pub(crate) version: &'static str,
}
