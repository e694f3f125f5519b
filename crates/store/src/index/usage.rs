//! How often an index was used, and since when that is counted. Must not know: other facts about an
//! index.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::SystemTime;

/// Uses of one index since it was opened or made.
#[derive(Debug)]
pub struct Usage {
    count: AtomicU64,
    /// Milliseconds since the epoch.
    since_ms: i64,
}

impl Default for Usage {
    /// Starts counting now.
    fn default() -> Usage {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let since_ms = now.map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX));
        Usage {
            count: AtomicU64::new(0),
            since_ms,
        }
    }
}

impl Usage {
    /// Adds one use.
    pub fn add(&self) {
        self.count.fetch_add(1, Relaxed);
    }
    /// Number of uses so far.
    pub fn count(&self) -> u64 {
        self.count.load(Relaxed)
    }
    /// When the counting began, milliseconds since the epoch.
    pub fn since_ms(&self) -> i64 {
        self.since_ms
    }
}
