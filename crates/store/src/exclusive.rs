//! Exclusive use of keys that are held for a whole commit. Promises: a key has one holder; all keys
//! of a holder are taken at once, so that no two wait for each other; holders of other keys do not
//! wait. Must not know: what the keys are.

use parking_lot::{Condvar, Mutex};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::hash::Hash;

/// The keys in use.
pub(crate) struct Exclusive<K> {
    held: Mutex<HeldKeys<K>>,
    released: Condvar,
}

struct HeldKeys<K> {
    /// The number of the holder of each key, in the order in which they took them.
    holders: FxHashMap<K, u64>,
    next: u64,
}

impl<K> Default for Exclusive<K> {
    fn default() -> Exclusive<K> {
        Exclusive {
            held: Mutex::new(HeldKeys {
                holders: FxHashMap::default(),
                next: 0,
            }),
            released: Condvar::new(),
        }
    }
}

/// Keys that are held; released when dropped.
pub(crate) struct ExclusiveGuard<'e, K: Eq + Hash> {
    exclusive: &'e Exclusive<K>,
    keys: SmallVec<[K; 2]>,
}

impl<K: Clone + Eq + Hash> Exclusive<K> {
    /// Waits until nobody holds any of the keys, and takes them.
    pub(crate) fn take(&self, keys: impl IntoIterator<Item = K>) -> ExclusiveGuard<'_, K> {
        let keys: SmallVec<[K; 2]> = keys.into_iter().collect();
        let mut held = self.held.lock();
        while keys.iter().any(|key| held.holders.contains_key(key)) {
            self.released.wait(&mut held);
        }
        let holder = held.next;
        held.next += 1;
        let each = keys.iter().map(|key| (key.clone(), holder));
        held.holders.extend(each);
        drop(held);
        ExclusiveGuard {
            exclusive: self,
            keys,
        }
    }

    /// Waits until all keys that are held now have been released.
    pub(crate) fn wait_for_holders(&self) {
        let mut held = self.held.lock();
        let next = held.next;
        while held.holders.values().any(|holder| *holder < next) {
            self.released.wait(&mut held);
        }
    }
}

impl<K: Eq + Hash> ExclusiveGuard<'_, K> {
    /// Whether the key is among those that are held.
    pub(crate) fn includes(&self, key: &K) -> bool {
        self.keys.contains(key)
    }
}

impl<K: Eq + Hash> Drop for ExclusiveGuard<'_, K> {
    fn drop(&mut self) {
        let mut held = self.exclusive.held.lock();
        for key in &self.keys {
            held.holders.remove(key);
        }
        self.exclusive.released.notify_all();
    }
}
