//! A collection for the writes of one operation. Promises: commits are counted for the operation,
//! and its waits can be interrupted or set aside. Must not know: what is written.

use crate::catalog::Collection;
use crate::commit::WriteUnit;
use crate::error;
use crate::write::session::SessionRecord;
use model::Result;
use operation::Operation;
use std::ops::Deref;
use std::sync::Arc;
use storage::{CommitPos, Unit};

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

    /// Begins a unit for a write to the collection.
    ///
    /// # Errors
    /// 175 QueryPlanKilled, or [`model::ErrorKind::SetAside`], when another process has changed the
    /// collection since it was opened: the operation has to find it again; engine failures.
    pub(crate) fn begin_unit(&self) -> Result<Unit<'w>> {
        let shared = &self.coll.shared;
        let unit = shared.engine.begin().map_err(error::storage)?;
        self.check_current(&unit)?;
        Ok(unit)
    }

    /// As [`Writer::begin_unit`], for a statement that is recorded for a session.
    ///
    /// # Errors
    /// As [`Writer::begin_unit`], also when another process has changed the record of the session:
    /// it may have run the statement.
    pub(crate) fn begin_in_session(&self, record: &SessionRecord) -> Result<Unit<'w>> {
        let unit = self.begin_unit()?;
        if self.coll.shared.has_joined && !record.is_current(&unit)? {
            return Err(self.coll.outdated_error(self.operation));
        }
        Ok(unit)
    }

    /// As [`Writer::begin_unit`], for a change of the catalog. `None` where one process writes.
    ///
    /// # Errors
    /// As [`Writer::begin_unit`].
    pub(crate) fn begin_exclusive(&self) -> Result<Option<Unit<'w>>> {
        let unit = self.coll.shared.begin_exclusive()?;
        unit.as_ref()
            .map_or(Ok(()), |unit| self.check_current(unit))?;
        Ok(unit)
    }

    fn check_current(&self, unit: &Unit<'_>) -> Result<()> {
        match self.coll.is_current(unit) {
            true => Ok(()),
            false => Err(self.coll.outdated_error(self.operation)),
        }
    }

    /// Commits for the operation.
    ///
    /// # Errors
    /// As [`crate::commit::commit`].
    pub(crate) fn commit<'u>(&'u self, unit: WriteUnit<'u>) -> Result<CommitPos> {
        self.shared.commit(unit.count_for(self.operation))
    }
}
