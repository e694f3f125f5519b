//! The open collections of a store by name, and locks on names for changes of the catalog. Promises:
//! a name leads to one handle, which is removed when its collection is dropped or renamed; changes
//! of different names rarely wait for each other. Must not know: how a collection is opened.

use crate::catalog::Collection;
use model::Namespace;
use parking_lot::{Mutex, MutexGuard, RwLock};
use rustc_hash::FxHasher;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Number of open collections that are cached.
const HANDLES_MAX: usize = 10_000;

/// Number of locks that the names share.
const NAME_LOCKS: usize = 256;

/// The open collections by name, and the locks on names.
pub(crate) struct Handles {
    open: RwLock<HashMap<Namespace, Arc<Collection>>>,
    /// One of them is held while a collection is opened, created, dropped or renamed, until the
    /// commit: on an engine that flushes each commit, other names need not wait for that.
    names: Box<[Mutex<()>]>,
}

impl Default for Handles {
    fn default() -> Handles {
        Handles {
            open: RwLock::default(),
            names: (0..NAME_LOCKS).map(|_| Mutex::default()).collect(),
        }
    }
}

/// Names that are locked. Whoever holds this must not wait for writers of a collection.
pub(crate) struct NameLocks<'h> {
    /// Numbers of the locks, ascending.
    numbers: SmallVec<[usize; 2]>,
    _guards: SmallVec<[MutexGuard<'h, ()>; 2]>,
}

impl NameLocks<'_> {
    /// Whether the name is among those that are locked.
    pub(crate) fn include(&self, ns: &Namespace) -> bool {
        self.numbers.contains(&lock_number(ns))
    }
}

fn lock_number(ns: &Namespace) -> usize {
    let mut hasher = FxHasher::default();
    ns.hash(&mut hasher);
    // The low bits of this hash are weak.
    (hasher.finish() >> 32) as usize % NAME_LOCKS
}

impl Handles {
    pub(crate) fn get(&self, ns: &Namespace) -> Option<Arc<Collection>> {
        self.open.read().get(ns).cloned()
    }

    /// Caches a handle. When there are very many, some unused ones are removed; opening a
    /// collection again costs a read.
    pub(crate) fn insert(&self, c: Arc<Collection>) {
        let mut open = self.open.write();
        if open.len() >= HANDLES_MAX {
            let mut budget = HANDLES_MAX / 10;
            open.retain(|_, handle| {
                let closes = budget > 0 && Arc::strong_count(handle) == 1;
                if closes {
                    let next = handle.live.next_seq();
                    handle.shared.sequences.remember(handle.ident, next);
                }
                budget -= usize::from(closes);
                !closes
            });
        }
        open.insert(c.ns().clone(), c);
    }

    /// The open collections for which `is_meant` is true.
    pub(crate) fn list(&self, is_meant: &dyn Fn(&Collection) -> bool) -> Vec<Arc<Collection>> {
        let open = self.open.read();
        open.values().filter(|c| is_meant(c)).cloned().collect()
    }

    pub(crate) fn remove(&self, ns: &Namespace) {
        self.open.write().remove(ns);
    }

    /// Locks names. All that an operation needs are locked at once, so that no two operations wait
    /// for each other.
    pub(crate) fn lock_names<'n>(
        &self,
        names: impl IntoIterator<Item = &'n Namespace>,
    ) -> NameLocks<'_> {
        let mut numbers: SmallVec<[usize; 2]> = names.into_iter().map(lock_number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let locks = numbers.iter().filter_map(|n| self.names.get(*n));
        let guards = locks.map(Mutex::lock).collect();
        NameLocks {
            numbers,
            _guards: guards,
        }
    }

    /// Waits for everybody who has locked a name by now.
    pub(crate) fn wait_for_names(&self) {
        self.names.iter().for_each(|lock| drop(lock.lock()));
    }
}
