//! Collections that a transaction has made and not committed: its readers see them, nobody else
//! does. Must not know: who commits.

use crate::catalog::Collection;
use model::Namespace;
use parking_lot::RwLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Made {
    /// Spares readers the lock while there are none.
    any: AtomicBool,
    collections: RwLock<Vec<Arc<Collection>>>,
}

impl Made {
    pub(crate) fn add(&self, coll: Arc<Collection>) {
        self.collections.write().push(coll);
        self.any.store(true, Ordering::Release);
    }

    /// The one of this name.
    pub(crate) fn find(&self, ns: &Namespace) -> Option<Arc<Collection>> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let collections = self.collections.read();
        collections.iter().find(|c| c.ns() == ns).cloned()
    }

    /// All, in the order they were made.
    pub(crate) fn all(&self) -> Vec<Arc<Collection>> {
        self.collections.read().clone()
    }
}
