//! The open collections of a store by name, and locks on names for changes of the catalog.
//! Promises: a name leads to one handle, which is removed when its collection is dropped or
//! renamed; changes of different names do not wait for each other. Must not know: how a collection
//! is opened.

use crate::catalog::Collection;
use model::Namespace;
use parking_lot::{Condvar, Mutex, RwLock};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;

/// Number of open collections that are cached.
const HANDLES_MAX: usize = 10_000;

/// The open collections by name, and the locks on names.
#[derive(Default)]
pub(crate) struct Handles {
    open: RwLock<HashMap<Namespace, Arc<Collection>>>,
    /// A name is locked while its collection is opened, created, dropped or renamed, until the
    /// commit: on an engine that flushes each commit, other names need not wait for that.
    locked: Mutex<LockedNames>,
    unlocked: Condvar,
}

#[derive(Default)]
struct LockedNames {
    /// The number of the lock on each name.
    numbers: FxHashMap<Namespace, u64>,
    next: u64,
}

/// Names that are locked. Whoever holds this must not wait for writers of a collection.
pub(crate) struct NameLocks<'h> {
    handles: &'h Handles,
    names: SmallVec<[Namespace; 2]>,
}

impl NameLocks<'_> {
    /// Whether the name is among those that are locked.
    pub(crate) fn include(&self, ns: &Namespace) -> bool {
        self.names.contains(ns)
    }
}

impl Drop for NameLocks<'_> {
    fn drop(&mut self) {
        let mut locked = self.handles.locked.lock();
        for name in &self.names {
            locked.numbers.remove(name);
        }
        self.handles.unlocked.notify_all();
    }
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
        let names: SmallVec<[Namespace; 2]> = names.into_iter().cloned().collect();
        let mut locked = self.locked.lock();
        while names.iter().any(|n| locked.numbers.contains_key(n)) {
            self.unlocked.wait(&mut locked);
        }
        let number = locked.next;
        locked.next += 1;
        let each = names.iter().map(|name| (name.clone(), number));
        locked.numbers.extend(each);
        drop(locked);
        NameLocks {
            handles: self,
            names,
        }
    }

    /// Waits for everybody who has locked a name by now.
    pub(crate) fn wait_for_names(&self) {
        let mut locked = self.locked.lock();
        let next = locked.next;
        while locked.numbers.values().any(|number| *number < next) {
            self.unlocked.wait(&mut locked);
        }
    }
}
