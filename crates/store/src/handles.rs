//! The open collections of a store by name, and locks on names for changes of the catalog.
//! Promises: a name leads to one handle, which is removed when its collection is dropped or
//! renamed; changes of different names do not wait for each other. Must not know: how a collection
//! is opened.

use crate::catalog::Collection;
use crate::exclusive::{Exclusive, ExclusiveGuard};
use model::Namespace;
use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::Arc;

/// Number of open collections that are cached.
const HANDLES_MAX: usize = 10_000;

/// The open collections by name, and the locks on names.
#[derive(Default)]
pub(crate) struct Handles {
    open: RwLock<HashMap<Namespace, Arc<Collection>>>,
    /// The names whose collections are opened, created, dropped or renamed, until the commit: on an
    /// engine that flushes each commit, other names need not wait for that.
    locked: Exclusive<Namespace>,
}

/// Names that are locked. Whoever holds this must not wait for writers of a collection.
pub(crate) type NameLocks<'h> = ExclusiveGuard<'h, Namespace>;

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

    /// Locks all names that an operation needs.
    pub(crate) fn lock_names<'n>(
        &self,
        names: impl IntoIterator<Item = &'n Namespace>,
    ) -> NameLocks<'_> {
        self.locked.take(names.into_iter().cloned())
    }

    /// Waits until all names that are locked now have been unlocked.
    pub(crate) fn wait_for_names(&self) {
        self.locked.wait_for_holders();
    }
}
