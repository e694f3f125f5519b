//! How many requests a server that does not hold the database has executed itself, and how many it
//! has handed on.

use std::sync::atomic::AtomicU64;

/// Since the start.
#[derive(Debug, Default)]
pub struct ReadsHere {
    /// Requests that were answered here.
    pub executed: AtomicU64,
    /// Requests that were handed to the server that holds the database.
    pub handed_on: AtomicU64,
}
