//! What a process keeps of collections longer than a handle: beside other processes, handles belong
//! to generations. Promises: what somebody uses is not forgotten; the rest is bounded. Must not
//! know: what is kept.

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Collections of which something is kept before what nobody uses is forgotten.
const KEPT_MAX: usize = 1024;

/// Values of collections, by their idents.
pub(crate) struct KeptByIdent<T>(Mutex<FxHashMap<u32, Arc<T>>>);

impl<T> Default for KeptByIdent<T> {
    fn default() -> KeptByIdent<T> {
        KeptByIdent(Mutex::default())
    }
}

impl<T: Default> KeptByIdent<T> {
    /// The value of a collection; a new one when none is kept.
    pub(crate) fn get(&self, ident: u32) -> Arc<T> {
        let mut all = self.0.lock();
        if all.len() >= KEPT_MAX && !all.contains_key(&ident) {
            all.retain(|_, kept| Arc::strong_count(kept) > 1);
        }
        Arc::clone(all.entry(ident).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn what_is_in_use_is_kept_and_the_rest_is_forgotten() {
        let all = KeptByIdent::<AtomicU32>::default();
        let used = all.get(1);
        used.store(7, Ordering::Relaxed);
        all.get(2).store(8, Ordering::Relaxed);
        assert_eq!(all.get(2).load(Ordering::Relaxed), 8);
        (3..=KEPT_MAX as u32 + 1).for_each(|ident| _ = all.get(ident));
        assert_eq!(all.get(1).load(Ordering::Relaxed), 7);
        assert_eq!(all.get(2).load(Ordering::Relaxed), 0);
    }
}
