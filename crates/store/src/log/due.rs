//! Decides when the log has to be cut. Promises: the commit that makes the log too large wakes the
//! thread that cuts it, so that it does not grow until that thread's next check. Must not know:
//! what is cut, and how.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, Thread};

/// Whether the log has to be cut, and the thread that cuts it.
pub(super) struct TruncationTrigger {
    /// The total number of bytes written at which the log has to be cut.
    at_bytes: AtomicU64,
    is_due: AtomicBool,
    cutter: Mutex<Option<Thread>>,
}

impl Default for TruncationTrigger {
    /// Not due until the cutting thread has checked the log once.
    fn default() -> TruncationTrigger {
        TruncationTrigger {
            at_bytes: AtomicU64::new(u64::MAX),
            is_due: AtomicBool::new(false),
            cutter: Mutex::new(None),
        }
    }
}

impl TruncationTrigger {
    pub(super) fn is_due(&self) -> bool {
        self.is_due.load(Ordering::Acquire)
    }

    /// To be called when the total number of bytes written has reached `bytes_total`.
    pub(super) fn note_written(&self, bytes_total: u64) {
        if bytes_total >= self.at_bytes.load(Ordering::Relaxed)
            && !self.is_due.swap(true, Ordering::AcqRel)
            && let Some(thread) = &*self.cutter.lock()
        {
            thread.unpark();
        }
    }

    /// The calling thread has checked the log; the next check is due at this total number of bytes.
    /// It may park until then.
    pub(super) fn schedule_check(&self, again_at_bytes: u64) {
        let mut cutter = self.cutter.lock();
        let here = thread::current();
        if cutter.as_ref().is_none_or(|t| t.id() != here.id()) {
            *cutter = Some(here);
        }
        self.at_bytes.store(again_at_bytes, Ordering::Relaxed);
        self.is_due.store(false, Ordering::Release);
    }
}
