//! Collections that an open transaction has created: only its own readers see them. Must not know:
//! who commits.

use crate::catalog::Collection;
use model::Namespace;
use parking_lot::RwLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The uncommitted collections of one transaction.
#[derive(Default)]
pub(crate) struct UncommittedCollections {
    /// False while there are none; saves readers the lock.
    any: AtomicBool,
    collections: RwLock<Vec<Arc<Collection>>>,
}

impl UncommittedCollections {
    pub(crate) fn add(&self, coll: Arc<Collection>) {
        self.collections.write().push(coll);
        self.any.store(true, Ordering::Release);
    }

    /// The collection of this name.
    pub(crate) fn find(&self, ns: &Namespace) -> Option<Arc<Collection>> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let collections = self.collections.read();
        collections.iter().find(|c| c.ns() == ns).cloned()
    }

    /// All collections, in the order in which they were created.
    pub(crate) fn all(&self) -> Vec<Arc<Collection>> {
        self.collections.read().clone()
    }
}
