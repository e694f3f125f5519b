//! How a log is opened. Must not know: its entries.

use super::audience::Audience;
use std::sync::Arc;

/// How a store with a log is opened.
#[derive(Clone)]
pub struct LogSettings {
    /// Size of a new log; an existing log keeps its own.
    pub bytes_max: u64,
    /// UUID of the collection that shows a new log.
    pub uuid: [u8; 16],
    /// The readers for which it is kept.
    pub audience: Audience,
    /// The wall clock, milliseconds since the epoch.
    pub now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
}
