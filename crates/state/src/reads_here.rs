//! Counts of requests on a server whose data another server holds: executed here, and forwarded to
//! the other.

use std::sync::atomic::AtomicU64;

/// Counts since the start.
#[derive(Debug, Default)]
pub struct ForwardCounters {
    /// Requests that this server has executed.
    pub executed: AtomicU64,
    /// Requests that were forwarded to the server that holds the data.
    pub handed_on: AtomicU64,
}
