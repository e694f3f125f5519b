//! Limits the helper threads of all operations together: one for each processor but the caller's,
//! unless the process sets another number. Must not know: what the threads do.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

static FREE: LazyLock<AtomicUsize> = LazyLock::new(|| AtomicUsize::new(processors() - 1));

/// Processors of the machine, as far as the process may use them.
fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Sets the number of threads that may work for one operation, instead of one for each processor.
/// Must be called when the process starts.
pub fn set_scan_threads(threads: usize) {
    FREE.store(threads.saturating_sub(1), Ordering::Release);
}

/// The right to run one helper thread.
pub(crate) struct Permit(());

impl Permit {
    /// Takes a permit, if one is free.
    pub(crate) fn take() -> Option<Permit> {
        FREE.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_sub(1))
            .ok()
            .map(|_| Permit(()))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        FREE.fetch_add(1, Ordering::AcqRel);
    }
}
