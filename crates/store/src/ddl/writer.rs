//! The catalog for the writes of one operation. Must not know: what is written.

use crate::commit::WriteUnit;
use crate::store::Store;
use model::{Namespace, Result};
use operation::Operation;
use std::ops::Deref;
use storage::CommitPos;

/// The catalog, and the operation that writes to it.
#[derive(Clone, Copy)]
pub struct CatalogWriter<'w> {
    pub(crate) store: &'w Store,
    pub(crate) operation: &'w Operation,
}

impl Deref for CatalogWriter<'_> {
    type Target = Store;

    fn deref(&self) -> &Store {
        self.store
    }
}

impl Store {
    /// The catalog for the writes of an operation.
    pub fn writer<'w>(&'w self, operation: &'w Operation) -> CatalogWriter<'w> {
        CatalogWriter {
            store: self,
            operation,
        }
    }
}

impl<'w> CatalogWriter<'w> {
    /// The operation that writes.
    pub fn operation(&self) -> &'w Operation {
        self.operation
    }

    /// Called right before a change, so that an operation that changes nothing is not refused.
    ///
    /// # Errors
    /// Why the operation may not write to the collection.
    pub(crate) fn check_write(&self, ns: &Namespace) -> Result<()> {
        self.shared.hooks.check_write(self.operation, ns)
    }

    /// Commits for the operation.
    ///
    /// # Errors
    /// As [`crate::commit::commit`].
    pub(crate) fn commit<'u>(&'u self, unit: WriteUnit<'u>) -> Result<CommitPos> {
        self.shared.commit(unit.count_for(self.operation))
    }
}
