//! The open collections of a store by name, and the lock for changes of the catalog. Promises: a
//! name leads to one handle, which is removed when its collection is dropped or renamed. Must not
//! know: how a collection is opened.

use crate::catalog::Collection;
use model::Namespace;
use parking_lot::{Mutex, MutexGuard, RwLock};
use std::collections::HashMap;
use std::sync::Arc;

/// Number of open collections that are cached.
const HANDLES_MAX: usize = 10_000;

/// The open collections by name, and the catalog lock.
#[derive(Default)]
pub(crate) struct Handles {
    open: RwLock<HashMap<Namespace, Arc<Collection>>>,
    /// Held while a collection is created, dropped or renamed.
    catalog: Mutex<()>,
}

/// Proof that the catalog is locked.
pub(crate) struct CatalogLock<'h> {
    _guard: MutexGuard<'h, ()>,
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

    pub(crate) fn lock_catalog(&self) -> CatalogLock<'_> {
        CatalogLock {
            _guard: self.catalog.lock(),
        }
    }
}
