//! Tells the monitor whether a driver thread is inside the handler, and since when.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

/// Odd while the thread is inside the handler, so that two looks show whether it is still the same
/// request.
///
/// Decompression is not counted as inside: it always ends, and if a decompression bomb could start
/// a spare driver, every spare driver would decompress one more. This way the number of drivers
/// bounds how many are decompressed at once.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct DriverState {
    ticks: AtomicU64,
    /// The kernel's thread id; 0 until the thread begins.
    thread: AtomicI32,
    /// The thread is inside a journal flush, which it does for all threads.
    flushes: AtomicBool,
}

impl DriverState {
    /// Must be called by the thread itself.
    pub(super) fn begin(&self) {
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        self.thread.store(thread, Ordering::Release);
    }

    pub(super) fn thread(&self) -> i32 {
        self.thread.load(Ordering::Acquire)
    }

    /// Whether the thread is in the handler for a request, not for a journal flush.
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
