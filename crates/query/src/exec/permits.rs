//! How many threads help others at a time: one for each processor but the caller's, unless the
//! process was told otherwise, for all operations together. Must not know: what they do.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

static FREE: LazyLock<AtomicUsize> = LazyLock::new(|| AtomicUsize::new(processors() - 1));

/// Processors of the machine, as far as the process may use them.
fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Lets so many threads at most work for one operation, in place of one for each processor. To be
/// called when the process begins.
pub fn set_scan_threads(threads: usize) {
    FREE.store(threads.saturating_sub(1), Ordering::Release);
}

/// One helper's right to run.
pub(crate) struct Permit(());

impl Permit {
    /// Takes one, if one is free.
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
