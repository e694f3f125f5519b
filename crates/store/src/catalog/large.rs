//! How large documents are known to be. Operations on large ones take many times their length of
//! memory, so who admits operations asks before they begin. Must not know: who asks.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Documents of this many bytes are large.
pub const LARGE_BYTES: usize = 256 << 10;

/// The largest document seen, 0 for none that is large.
#[derive(Default)]
pub(crate) struct Largest(AtomicUsize);

impl Largest {
    pub(crate) fn note(&self, bytes: usize) {
        // Written seldom, so that reading it stays cheap.
        if bytes >= LARGE_BYTES && bytes > self.0.load(Relaxed) {
            self.0.fetch_max(bytes, Relaxed);
        }
    }

    /// The same with one of `bytes` beside it.
    pub(crate) fn or(&self, bytes: usize) -> usize {
        let seen = self.0.load(Relaxed);
        match bytes {
            LARGE_BYTES.. => seen.max(bytes),
            _ => seen,
        }
    }
}
