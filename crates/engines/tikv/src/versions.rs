//! Old versions. TiKV keeps overwritten versions until the safe point in PD moves; the server that
//! holds the lease moves it, or one of the members.
//!
//! Promises: the safe point stays before every view that may still be read, of this database and of
//! others that keep versions at least as long. Must not know: views, tables.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use storage::{Result, StatSink};

use crate::cluster::{Cluster, earlier_timestamp, millis};

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

/// What a process has to do with the safe point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SafePointRole {
    /// It moves the safe point.
    Mover,
    /// Another process does.
    Other,
    /// It has lost its right for good.
    Ended,
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

    /// Moves the safe point repeatedly, as far as it is this process's role, until the engine is
    /// closed or its right is lost.
    pub(crate) fn run(&self, ending: &StopSignal, role: &dyn Fn() -> Result<SafePointRole>) {
        loop {
            let moved = match role() {
                Ok(SafePointRole::Ended) => return,
                Ok(SafePointRole::Other) => None,
                Ok(SafePointRole::Mover) => Some(self.move_safe_point()),
                Err(e) => Some(Err(e)),
            };
            match moved {
                None => {}
                Some(Ok(ts)) => self.safe_point.store(ts, Ordering::Relaxed),
                // The next round moves it further.
                Some(Err(_)) => _ = self.failures.fetch_add(1, Ordering::Relaxed),
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

    /// The last safe point that this process has set (0 before the first), and the number of
    /// failures.
    pub(crate) fn report(&self, sink: &mut StatSink<'_>) {
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let safe_point = self.safe_point.load(Ordering::Relaxed);
        sink("versions.safe_point_ms", number(millis(safe_point)));
        let failures = self.failures.load(Ordering::Relaxed);
        sink("versions.safe_point_failures", number(failures));
    }
}
