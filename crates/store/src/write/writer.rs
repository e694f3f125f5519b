//! A collection for the writes of one operation. Promises: commits are counted for the operation,
//! and its waits can be interrupted or set aside. Must not know: what is written.

use crate::catalog::{Collection, Shared};
use crate::commit::WriteUnit;
use crate::error;
use crate::write::session::SessionRecord;
use model::Result;
use operation::Operation;
use std::ops::Deref;
use std::sync::Arc;
use storage::{CommitPos, Table, Unit};

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

    /// Begins a unit for a write to the collection. `keys` are to be read; an empty list costs
    /// requests where other processes write, too.
    ///
    /// # Errors
    /// 175 QueryPlanKilled, or [`model::ErrorKind::SetAside`], when another process has changed the
    /// collection since it was opened: the operation has to find it again; engine failures.
    pub(crate) fn begin_unit(&self, keys: &[(Table, &[u8])]) -> Result<Unit<'w>> {
        let shared = &self.coll.shared;
        if !shared.has_joined {
            return shared.engine.begin().map_err(error::storage);
        }
        let moment = self.operation.take_moment();
        // What this process keeps of others is as of now.
        let is_plain = !self.is_capped() && !self.is_series();
        let at = CommitPos(if is_plain { moment } else { 0 });
        let begin = |at| shared.engine.begin_at(at, keys).map_err(error::storage);
        let mut unit = begin(at)?;
        Shared::check_expected(self.operation, &unit)?;
        if at.0 != 0 && !self.coll.is_current(&unit) {
            // The collection was found at a later moment.
            unit = begin(CommitPos(0))?;
        }
        self.check_current(&unit)?;
        Ok(unit)
    }

    /// As [`Writer::begin_unit`], for a statement that is recorded for a session.
    ///
    /// # Errors
    /// As [`Writer::begin_unit`], also when another process has changed the record of the session:
    /// it may have run the statement.
    pub(crate) fn begin_in_session(
        &self,
        record: &SessionRecord,
        keys: &[(Table, &[u8])],
    ) -> Result<Unit<'w>> {
        if !self.coll.shared.has_joined {
            return self.begin_unit(keys);
        }
        let of_record = record.newest_row();
        let keys: Vec<_> = keys
            .iter()
            .copied()
            .chain([(Table::Meta, &of_record[..])])
            .collect();
        let unit = self.begin_unit(&keys)?;
        if !record.is_current(&unit)? {
            return Err(self.coll.outdated_error(self.operation));
        }
        Ok(unit)
    }

    /// As [`Writer::begin_unit`], for a change of the catalog. `None` where one process writes.
    ///
    /// # Errors
    /// As [`Writer::begin_unit`].
    pub(crate) fn begin_exclusive(&self) -> Result<Option<Unit<'w>>> {
        let unit = self.coll.shared.begin_exclusive(self.operation)?;
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
