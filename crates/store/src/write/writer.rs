//! A collection for the writes of one operation. Promises: commits are counted for the operation,
//! and its waits can be interrupted or set aside. Must not know: what is written.

use crate::catalog::Collection;
use crate::commit::WriteUnit;
use model::Result;
use operation::Operation;
use std::ops::Deref;
use std::sync::Arc;
use storage::CommitPos;

/// A collection, and the operation that writes to it.
#[derive(Clone, Copy)]
pub struct Writer<'w> {
    pub(crate) coll: &'w Arc<Collection>,
    pub(crate) operation: &'w Operation,
}

impl Deref for Writer<'_> {
    type Target = Arc<Collection>;

    fn deref(&self) -> &Arc<Collection> {
        self.coll
    }
}

impl Collection {
    /// The collection for the writes of an operation.
    pub fn writer<'w>(self: &'w Arc<Self>, operation: &'w Operation) -> Writer<'w> {
        Writer {
            coll: self,
            operation,
        }
    }
}

impl<'w> Writer<'w> {
    /// The operation that writes.
    pub fn operation(&self) -> &'w Operation {
        self.operation
    }

    /// Called right before a change, so that an operation that changes nothing is not refused.
    ///
    /// # Errors
    /// Why the operation may not write to the collection.
    pub(crate) fn check_write(&self) -> Result<()> {
        self.shared.hooks.check_write(self.operation, &self.ns)
    }

    /// Commits for the operation.
    ///
    /// # Errors
    /// As [`crate::commit::commit`].
    pub(crate) fn commit<'u>(&'u self, unit: WriteUnit<'u>) -> Result<CommitPos> {
        self.shared.commit(unit.count_for(self.operation))
    }
}
