//! Old versions. TiKV keeps overwritten versions until the safe point in PD moves; the server that
//! holds the lease moves it.
//!
//! Promises: the safe point stays before every view that may still be read, of this database and of
//! others that keep versions at least as long. Must not know: views, tables.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use storage::Result;

use crate::cluster::{Cluster, earlier_timestamp};
use crate::lease::Lease;

/// A read that began in time may be answered this much later.
const GRACE: Duration = Duration::from_secs(30);
/// Shortest interval: each move costs a request to each region.
const EVERY_MIN: Duration = Duration::from_secs(1);
const EVERY_MAX: Duration = Duration::from_secs(600);

/// Tells the threads of an engine to end.
#[derive(Default)]
pub(crate) struct StopSignal {
    ended: Mutex<bool>,
    told: Condvar,
}

impl StopSignal {
    /// Waits this long; true when the engine has ended.
    pub(crate) fn wait(&self, duration: Duration) -> bool {
        let mut ended = self.ended.lock();
        if !*ended {
            self.told.wait_for(&mut ended, duration);
        }
        *ended
    }

    pub(crate) fn end(&self) {
        *self.ended.lock() = true;
        self.told.notify_all();
    }
}

/// How long versions are kept, and the current safe point.
pub(crate) struct VersionRetention {
    cluster: Arc<Cluster>,
    kept: Duration,
    safe_point: AtomicU64,
    failures: AtomicU64,
}

impl VersionRetention {
    pub(crate) fn new(cluster: &Arc<Cluster>, kept: Duration) -> VersionRetention {
        VersionRetention {
            cluster: Arc::clone(cluster),
            kept,
            safe_point: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        }
    }

    /// Moves the safe point repeatedly until the engine is closed or its lease is lost.
    pub(crate) fn run(&self, ending: &StopSignal, lease: &Lease) {
        loop {
            if lease.lost_reason().is_some() {
                return;
            }
            match self.move_safe_point() {
                Ok(ts) => self.safe_point.store(ts, Ordering::Relaxed),
                // The next round moves it further.
                Err(_) => _ = self.failures.fetch_add(1, Ordering::Relaxed),
            }
            if ending.wait((self.kept / 2).clamp(EVERY_MIN, EVERY_MAX)) {
                return;
            }
        }
    }

    fn move_safe_point(&self) -> Result<u64> {
        let ts = earlier_timestamp(self.cluster.fetch_timestamp()?, self.kept + GRACE);
        self.cluster.drop_versions_before(ts)?;
        Ok(ts)
    }

    /// The last safe point that was set (0 before the first), and the number of failures.
    pub(crate) fn stats(&self) -> (u64, u64) {
        let safe_point = self.safe_point.load(Ordering::Relaxed);
        (safe_point, self.failures.load(Ordering::Relaxed))
    }
}
