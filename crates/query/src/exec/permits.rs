//! How many threads help others at a time: one for each processor but the caller's, for all
//! operations together. Must not know: what they do.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

static FREE: LazyLock<AtomicUsize> = LazyLock::new(|| AtomicUsize::new(processors() - 1));

/// Processors of the machine, as far as the process may use them.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
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
