//! Locks on documents and unique keys: striped, held for one short write, taken in one global order so that no two
//! writers can wait for each other. A lock is released after the commit is in the journal's buffer and before it is
//! flushed; a dependent commit is later in the same journal, so it can never be durable without its predecessor.

use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use std::hash::Hasher;

const STRIPES: usize = 4096;

/// All stripes of one store.
pub struct LockTable {
    stripes: Box<[Mutex<()>]>,
}

/// Stripes held; released when dropped.
pub struct Held<'l> {
    _guards: SmallVec<[MutexGuard<'l, ()>; 4]>,
}

/// Which stripe a key falls on.
pub type StripeId = u16;

impl LockTable {
    /// A table with all stripes free.
    pub fn new() -> LockTable {
        LockTable { stripes: (0..STRIPES).map(|_| Mutex::new(())).collect() }
    }

    /// The stripe of a full key (ident included).
    pub fn stripe(key: &[u8]) -> StripeId {
        let mut h = rustc_hash::FxHasher::default();
        h.write(key);
        // The low bits of this hash are weak; fold the high ones in.
        let h = h.finish();
        ((h ^ (h >> 29) ^ (h >> 47)) as usize % STRIPES) as StripeId
    }

    /// Takes all the stripes, sorting them first.
    pub fn lock(&self, stripes: &mut SmallVec<[StripeId; 8]>) -> Held<'_> {
        stripes.sort_unstable();
        stripes.dedup();
        Held { _guards: stripes.iter().filter_map(|&s| self.stripes.get(usize::from(s))).map(Mutex::lock).collect() }
    }
}

impl Default for LockTable {
    fn default() -> Self {
        LockTable::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_sets_never_deadlock_and_exclude() {
        let table = LockTable::new();
        let counter = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|s| {
            for t in 0..4u16 {
                let (table, counter) = (&table, &counter);
                s.spawn(move || {
                    for i in 0..2000u16 {
                        let mut set: SmallVec<[StripeId; 8]> = [7, i % 5, (i + t) % 9].into_iter().collect();
                        let _held = table.lock(&mut set);
                        let seen = counter.load(std::sync::atomic::Ordering::Relaxed);
                        counter.store(seen + 1, std::sync::atomic::Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(counter.into_inner(), 8000);
    }
}
