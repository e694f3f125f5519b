//! The largest known documents. Operations on large documents take many times their length of
//! memory, so admission asks for this before an operation begins. Must not know: who asks.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Documents of this many bytes are large.
pub const LARGE_BYTES: usize = 256 << 10;

/// The largest document seen; 0 when no large one was.
#[derive(Default)]
pub(crate) struct LargestDocument(AtomicUsize);

impl LargestDocument {
    pub(crate) fn note(&self, bytes: usize) {
        // Written rarely, so that reading stays cheap.
        if bytes >= LARGE_BYTES && bytes > self.0.load(Relaxed) {
            self.0.fetch_max(bytes, Relaxed);
        }
    }

    /// The largest of these and of `bytes`.
    pub(crate) fn max_with(&self, bytes: usize) -> usize {
        let seen = self.0.load(Relaxed);
        match bytes {
            LARGE_BYTES.. => seen.max(bytes),
            _ => seen,
        }
    }
}
