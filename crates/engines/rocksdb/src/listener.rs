//! Counts stalls and remembers background errors. Callbacks run on RocksDB's threads while it may hold its lock:
//! they touch atomics and one short mutex only.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rust_rocksdb::event_listener::{
    BackgroundErrorRecoveryInfo, CompactionJobInfo, DBBackgroundErrorReason, DBWriteStallCondition, EventListener,
    FlushJobInfo, MutableStatus, WriteStallInfo,
};

/// What the callbacks have seen so far.
#[derive(Default)]
pub(crate) struct Events {
    pub(crate) stall_delays: AtomicU64,
    pub(crate) stall_stops: AtomicU64,
    pub(crate) flushes: AtomicU64,
    pub(crate) compactions: AtomicU64,
    pub(crate) background_errors: AtomicU64,
    background_error: Mutex<Option<String>>,
}

impl Events {
    /// The background error that stands, in RocksDB's words.
    pub(crate) fn background_error(&self) -> Option<String> {
        self.background_error.lock().clone()
    }

    pub(crate) fn clear_background_error(&self) {
        *self.background_error.lock() = None;
    }
}

/// Forwards to the shared counters.
pub(crate) struct Listener(pub(crate) Arc<Events>);

impl EventListener for Listener {
    fn on_flush_completed(&self, _info: &FlushJobInfo) {
        self.0.flushes.fetch_add(1, Ordering::Relaxed);
    }

    fn on_compaction_completed(&self, _info: &CompactionJobInfo) {
        self.0.compactions.fetch_add(1, Ordering::Relaxed);
    }

    fn on_stall_conditions_changed(&self, info: &WriteStallInfo) {
        match info.cur() {
            DBWriteStallCondition::KDelayed => self.0.stall_delays.fetch_add(1, Ordering::Relaxed),
            DBWriteStallCondition::KStopped => self.0.stall_stops.fetch_add(1, Ordering::Relaxed),
            DBWriteStallCondition::KNormal => 0,
        };
    }

    fn on_background_error(&self, _reason: DBBackgroundErrorReason, status: MutableStatus) {
        self.0.background_errors.fetch_add(1, Ordering::Relaxed);
        if let Err(error) = status.result() {
            *self.0.background_error.lock() = Some(error.to_string());
        }
    }

    fn on_error_recovery_end(&self, info: &BackgroundErrorRecoveryInfo) {
        if info.new_bg_error().result().is_ok() {
            self.0.clear_background_error();
        }
    }
}
