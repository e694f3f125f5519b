//! Whether a driver thread is inside the handler, and since when, for the monitor.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

/// Odd while the thread is inside the handler, so that two looks tell whether it is still the same
/// request.
///
/// Decoding is left out on purpose: it always ends, and if a decompression bomb could start a spare
/// driver, every spare driver would unpack one more. This way the drivers bound how many are
/// unpacked at once.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct DriverState {
    ticks: AtomicU64,
    /// The kernel's number of the thread; 0 until it begins.
    thread: AtomicI32,
    /// Inside of a journal flush, which one thread does for all.
    flushes: AtomicBool,
}

impl DriverState {
    /// To be called by the thread itself.
    pub(super) fn begin(&self) {
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        self.thread.store(thread, Ordering::Release);
    }

    pub(super) fn thread(&self) -> i32 {
        self.thread.load(Ordering::Acquire)
    }

    /// Inside of the handler for a request of its own.
    pub(super) fn is_in_request(&self) -> bool {
        self.ticks() % 2 == 1 && !self.flushes.load(Ordering::Relaxed)
    }

    pub(super) fn flushes(&self, yes: bool) {
        self.flushes.store(yes, Ordering::Relaxed);
    }

    pub(super) fn enter(&self) {
        self.ticks.store(
            self.ticks.load(Ordering::Relaxed).wrapping_add(1),
            Ordering::Relaxed,
        );
    }

    pub(super) fn leave(&self) {
        self.enter();
    }

    pub(super) fn ticks(&self) -> u64 {
        self.ticks.load(Ordering::Relaxed)
    }
}
