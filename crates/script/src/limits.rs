//! The limits of a call, and the environment of a script.

use operation::ConnectionId;
use std::time::Duration;

/// Receives the lines that scripts print, with their connection.
pub type PrintCallback = Box<dyn Fn(ConnectionId, &str) + Send + Sync>;

/// The limits of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of values on one thread.
    pub heap_bytes: usize,
    /// Longest time of one call.
    pub call: Duration,
    /// Most bytes that the calls for one document may emit.
    pub emitted_bytes: usize,
}

impl Default for Limits {
    /// MongoDB's limits.
    fn default() -> Limits {
        Limits {
            heap_bytes: 100 << 20,
            call: Duration::from_secs(60),
            emitted_bytes: 100 << 20,
        }
    }
}

/// The parameters of a call.
pub(crate) struct Settings<'e> {
    /// Its limits.
    pub(crate) limits: Limits,
    /// Receives printed lines.
    pub(crate) print: &'e PrintCallback,
    /// The version of the server.
    pub(crate) version: &'static str,
}
