//! The set of documents that were changed during an index build, in bounded memory. It may contain
//! a document that was not changed, but never misses one that was. Must not know: why it is asked.

use std::hash::Hasher;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bits, as powers of two: 64 KiB to 8 MiB.
const BITS: std::ops::RangeInclusive<u32> = 19..=26;

/// A set of documents, each represented by a hash.
pub(crate) struct ChangeSet {
    words: Box<[AtomicU64]>,
}

impl ChangeSet {
    /// An empty set, large enough that a build of `documents` rarely confuses two of them.
    pub(crate) fn new(documents: u64) -> ChangeSet {
        let wanted = documents.max(1).ilog2() + 3;
        let bits = wanted.clamp(*BITS.start(), *BITS.end());
        ChangeSet {
            words: (0..1u64 << (bits - 6)).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Adds a document by its encoded `_id`. Writers call it before their commit, so that a reader
    /// that sees the commit finds the document here.
    pub(crate) fn add(&self, id: &[u8]) {
        let (word, bit) = self.place(id);
        if let Some(word) = self.words.get(word) {
            word.fetch_or(bit, Ordering::SeqCst);
        }
    }

    /// False when no commit before the caller's last one has changed the document.
    pub(crate) fn may_hold(&self, id: &[u8]) -> bool {
        let (word, bit) = self.place(id);
        let word = self.words.get(word).map(|w| w.load(Ordering::SeqCst));
        word.is_none_or(|w| w & bit != 0)
    }

    fn place(&self, id: &[u8]) -> (usize, u64) {
        let mut h = rustc_hash::FxHasher::default();
        h.write(id);
        // The low bits of this hash are weak.
        let hash = h.finish().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let word = (hash >> 6) as usize % self.words.len().max(1);
        (word, 1 << (hash & 63))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_is_held_and_little_else() {
        let changed = ChangeSet::new(1000);
        let id = |n: u32| n.to_be_bytes();
        (0..500).for_each(|n| changed.add(&id(n)));
        assert!((0..500).all(|n| changed.may_hold(&id(n))));
        let wrong = (500..10_500).filter(|n| changed.may_hold(&id(*n))).count();
        assert!(wrong < 100, "{wrong}");
        assert!(ChangeSet::new(u64::MAX).words.len() == 1 << 20);
    }
}
