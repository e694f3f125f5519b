//! Quarry: the locks that this process has met. A lock expires by the oracle's time, which stands
//! still after it was moved ahead, until the clock of its machine has caught up. A lock that was
//! seen unchanged for as long as it may live is taken for expired then; only the store decides
//! whether its transaction was committed.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Locks that are remembered.
const LOCKS_MAX: usize = 4096;

struct SeenLock {
    ttl_ms: u64,
    since: Instant,
    last: Instant,
}

/// The transactions of locks, by their start timestamps.
#[derive(Default)]
pub(crate) struct SeenLocks(Mutex<HashMap<u64, SeenLock>>);

impl SeenLocks {
    /// Records a lock; whether it was seen with the same time to live for that long, or its
    /// transaction has begun so long ago.
    ///
    /// # Input
    /// `begun`: the transaction had begun at this time.
    pub(crate) fn is_outwaited(&self, start_ts: u64, ttl_ms: u64, begun: Option<Instant>) -> bool {
        let now = Instant::now();
        let mut seen = self.0.lock().unwrap_or_else(|e| e.into_inner());
        if seen.len() >= LOCKS_MAX {
            seen.retain(|_, lock| lock.last + Duration::from_millis(lock.ttl_ms) > now);
        }
        if seen.len() >= LOCKS_MAX {
            seen.clear();
        }
        let lock = seen.entry(start_ts).or_insert(SeenLock { ttl_ms, since: now, last: now });
        if lock.ttl_ms != ttl_ms {
            // Its transaction is alive.
            (lock.ttl_ms, lock.since) = (ttl_ms, now);
        }
        lock.last = now;
        let since = begun.map_or(lock.since, |begun| begun.min(lock.since));
        now - since > Duration::from_millis(ttl_ms)
    }
}
