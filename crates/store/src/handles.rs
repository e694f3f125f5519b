//! The open collections of a store by their names, and the lock under which the catalog changes.
//! Promises: a name leads to one handle, which is forgotten when its collection is dropped or gets
//! another name. Must not know: how a collection is opened.

use crate::catalog::Collection;
use model::Namespace;
use parking_lot::{Mutex, MutexGuard, RwLock};
use std::collections::HashMap;
use std::sync::Arc;

/// Open collections kept for reuse.
const HANDLES_MAX: usize = 10_000;

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Handles {
    open: RwLock<HashMap<Namespace, Arc<Collection>>>,
    /// Collections come, go and change their names one at a time.
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

    /// Keeps a handle for reuse. When there are very many, some that nobody uses are closed;
    /// opening one again costs a read.
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

    /// All that are open and for which `is_meant`.
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
