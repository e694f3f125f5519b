//! Whether a driver thread is inside the handler, and since when, for the monitor.

use std::sync::atomic::{AtomicU64, Ordering};

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
}

impl DriverState {
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
