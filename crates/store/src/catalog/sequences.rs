//! The next sequence numbers of collections whose handles were closed. Promises: a number is never
//! given twice, even when the last document with one was deleted. Must not know: who gives numbers.

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

/// Next sequence numbers by the identifiers of collections.
#[derive(Default)]
pub(crate) struct Sequences {
    next: Mutex<FxHashMap<u32, u64>>,
}

impl Sequences {
    /// Stores the next number of a collection whose handle is closed.
    pub(crate) fn remember(&self, ident: u32, next: u64) {
        self.next.lock().insert(ident, next);
    }

    /// The next number of a collection whose handle was closed.
    pub(crate) fn get(&self, ident: u32) -> Option<u64> {
        self.next.lock().get(&ident).copied()
    }

    /// Removes the number of a collection that was dropped.
    pub(crate) fn forget(&self, ident: u32) {
        self.next.lock().remove(&ident);
    }
}
