//! When the log is to be cut. Promises: who cuts it is woken by the commit that makes it too large,
//! so that it does not grow for as long as nobody looks. Must not know: what is cut, and how.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, Thread};

/// Whether the log is to be cut, and who does it.
pub(super) struct Due {
    /// The log is to be cut once so many bytes were ever written.
    at_bytes: AtomicU64,
    is_due: AtomicBool,
    cutter: Mutex<Option<Thread>>,
}

impl Default for Due {
    /// Never, until it was looked at for the first time.
    fn default() -> Due {
        Due {
            at_bytes: AtomicU64::new(u64::MAX),
            is_due: AtomicBool::new(false),
            cutter: Mutex::new(None),
        }
    }
}

impl Due {
    pub(super) fn is_due(&self) -> bool {
        self.is_due.load(Ordering::Acquire)
    }

    /// To be called when `bytes_total` were ever written.
    pub(super) fn written(&self, bytes_total: u64) {
        if bytes_total >= self.at_bytes.load(Ordering::Relaxed)
            && !self.is_due.swap(true, Ordering::AcqRel)
            && let Some(thread) = &*self.cutter.lock()
        {
            thread.unpark();
        }
    }

    /// The calling thread has looked, and looks again when so many bytes were ever written; until
    /// then it may park.
    pub(super) fn looked(&self, again_at_bytes: u64) {
        let mut cutter = self.cutter.lock();
        let here = thread::current();
        if cutter.as_ref().is_none_or(|t| t.id() != here.id()) {
            *cutter = Some(here);
        }
        self.at_bytes.store(again_at_bytes, Ordering::Relaxed);
        self.is_due.store(false, Ordering::Release);
    }
}
