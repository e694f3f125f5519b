//! The next sequence numbers of collections whose handles were closed. Promises: a number is never
//! given twice, even when the last document that had one was deleted. Must not know: who gives
//! numbers.

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

/// See the head of this file. By the identifiers of collections.
#[derive(Default)]
pub(crate) struct Sequences {
    next: Mutex<FxHashMap<u32, u64>>,
}

impl Sequences {
    /// Keeps the next number of a collection whose handle is closed.
    pub(crate) fn remember(&self, ident: u32, next: u64) {
        self.next.lock().insert(ident, next);
    }

    /// The next number of a collection whose handle was closed.
    pub(crate) fn get(&self, ident: u32) -> Option<u64> {
        self.next.lock().get(&ident).copied()
    }

    /// The collection was dropped.
    pub(crate) fn forget(&self, ident: u32) {
        self.next.lock().remove(&ident);
    }
}
