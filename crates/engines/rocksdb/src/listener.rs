//! Counts stalls and stores background errors. Callbacks run on RocksDB's threads while it may hold
//! its lock: they use only atomics and one short mutex.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rust_rocksdb::event_listener::{
    BackgroundErrorRecoveryInfo, CompactionJobInfo, DBBackgroundErrorReason, DBWriteStallCondition,
    EventListener, FlushJobInfo, MemTableInfo, MutableStatus, WriteStallInfo,
};

use crate::error;

/// The events reported by the callbacks so far.
#[derive(Default)]
pub(crate) struct Events {
    pub(crate) stall_delays: AtomicU64,
    pub(crate) stall_stops: AtomicU64,
    pub(crate) flushes: AtomicU64,
    pub(crate) compactions: AtomicU64,
    pub(crate) background_errors: AtomicU64,
    pub(crate) damaged_compactions: AtomicU64,
    background_error: Mutex<Option<String>>,
    write_failed: AtomicBool,
    // Bytes that each running compaction reads, by its job number.
    pub(crate) compacting: Mutex<BTreeMap<i32, u64>>,
    journal_broken: AtomicBool,
    sealed: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Events {
    /// Bytes that the running compactions read: they write about as much before they delete what
    /// they read.
    pub(crate) fn compacting_bytes(&self) -> u64 {
        self.compacting.lock().values().sum()
    }

    /// The text of the persisting background error.
    pub(crate) fn background_error(&self) -> Option<String> {
        self.background_error.lock().clone()
    }

    /// Whether an append to the journal or its fdatasync failed for another reason than a full
    /// device.
    pub(crate) fn journal_broken(&self) -> bool {
        self.journal_broken.load(Ordering::SeqCst)
    }

    /// Has `hook` called whenever a memtable is sealed. At that moment no writer is between its
    /// journal record and its memtable, and all later records go to the journal file that is the
    /// newest then.
    pub(crate) fn on_sealed(&self, hook: Box<dyn Fn() + Send + Sync>) {
        // Set once, when the engine opens.
        let _ = self.sealed.set(hook);
    }

    pub(crate) fn clear_background_error(&self) {
        *self.background_error.lock() = None;
        self.write_failed.store(false, Ordering::SeqCst);
    }

    /// Records that a write failed because of a persisting error. Further writes would fail, too,
    /// and would end RocksDB's recovery, which treats any error during the recovery as its own: see
    /// [`Events::recovers`].
    pub(crate) fn write_was_refused(&self) {
        self.write_failed.store(true, Ordering::SeqCst);
    }

    /// Whether a write was refused and RocksDB's error still persists.
    pub(crate) fn recovers(&self) -> bool {
        self.write_failed.load(Ordering::SeqCst) && self.background_error.lock().is_some()
    }
}

/// Whether a compaction failed to read its input. RocksDB would refuse all writes after it, as it
/// does, rightly, when its own new output is damaged.
fn is_damage_of_old_files(reason: DBBackgroundErrorReason, text: &str) -> bool {
    matches!(reason, DBBackgroundErrorReason::KCompaction) && text.starts_with("Corruption")
}

/// Forwards to the shared counters.
pub(crate) struct Listener(pub(crate) Arc<Events>);

impl EventListener for Listener {
    fn on_memtable_sealed(&self, _info: &MemTableInfo) {
        if let Some(hook) = self.0.sealed.get() {
            hook();
        }
    }

    fn on_flush_completed(&self, _info: &FlushJobInfo) {
        self.0.flushes.fetch_add(1, Ordering::Relaxed);
    }

    fn on_compaction_begin(&self, info: &CompactionJobInfo) {
        let bytes = info.total_input_bytes();
        self.0.compacting.lock().insert(info.job_id(), bytes);
    }

    fn on_compaction_completed(&self, info: &CompactionJobInfo) {
        self.0.compacting.lock().remove(&info.job_id());
        self.0.compactions.fetch_add(1, Ordering::Relaxed);
    }

    fn on_stall_conditions_changed(&self, info: &WriteStallInfo) {
        match info.cur() {
            DBWriteStallCondition::KDelayed => self.0.stall_delays.fetch_add(1, Ordering::Relaxed),
            DBWriteStallCondition::KStopped => self.0.stall_stops.fetch_add(1, Ordering::Relaxed),
            DBWriteStallCondition::KNormal => 0,
        };
    }

    fn on_background_error(&self, reason: DBBackgroundErrorReason, status: MutableStatus) {
        self.0.background_errors.fetch_add(1, Ordering::Relaxed);
        if let Err(error) = status.result() {
            let text = error.to_string();
            if is_damage_of_old_files(reason, &text) {
                // The compaction has failed and is retried a second later; its input and all other
                // files are unchanged.
                self.0.damaged_compactions.fetch_add(1, Ordering::Relaxed);
                status.reset();
                return;
            }
            // A write that is refused because of an earlier error reports this error again.
            if matches!(reason, DBBackgroundErrorReason::KWriteCallback)
                && !error::leaves_journal(&text)
                && !error::is_beside_journal(&text)
            {
                self.0.journal_broken.store(true, Ordering::SeqCst);
            }
            *self.0.background_error.lock() = Some(text);
        }
    }

    fn on_error_recovery_end(&self, info: &BackgroundErrorRecoveryInfo) {
        if info.new_bg_error().result().is_ok() {
            self.0.clear_background_error();
        }
    }
}
