//! Counts what the log by reference does (ADR 0051), for `serverStatus`. Promises: one atomic
//! addition per call. Must not know: rows, engines.

use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers since the start.
#[derive(Debug, Default)]
pub(crate) struct ReferenceCounters {
    made: AtomicU64,
    saved: AtomicU64,
    followed: AtomicU64,
}

/// What the log by reference did since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReferenceCounts {
    /// Inserted documents that the log refers to instead of copying them.
    pub made: u64,
    /// Documents saved in the log because their record was changed or removed.
    pub saved: u64,
    /// Entries read by readers of the log for which documents were looked up.
    pub followed: u64,
}

impl ReferenceCounters {
    pub(crate) fn add_written(&self, entries: usize) {
        self.made.fetch_add(entries as u64, Ordering::Relaxed);
    }

    pub(crate) fn add_saved(&self, documents: u64) {
        self.saved.fetch_add(documents, Ordering::Relaxed);
    }

    pub(crate) fn add_followed(&self, entries: u64) {
        self.followed.fetch_add(entries, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> ReferenceCounts {
        let of = |n: &AtomicU64| n.load(Ordering::Relaxed);
        ReferenceCounts {
            made: of(&self.made),
            saved: of(&self.saved),
            followed: of(&self.followed),
        }
    }
}
