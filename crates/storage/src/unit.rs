//! A unit of work: the reads on which a write depends, and its commit. Promises: what a unit has
//! read is unchanged when its batch is applied. Where one process writes to the engine, the caller
//! ensures that with locks; an engine to which several processes write checks it and reports a
//! conflict. Must not know: what is locked, why something is written.

use crate::batch::WriteBatch;
use crate::engine::{CheckedUnit, CommitPos, Cursor, CursorOpts, Durability, Engine, Reader};
use crate::error::Result;
use crate::keys::{KeyRange, Table};

/// The reads on which a write depends, and the write.
pub enum Unit<'e> {
    /// Reads the latest state; the caller keeps locks on what it reads until the commit.
    Locked(&'e dyn Engine),
    /// Reads one fixed state; the engine detects conflicts.
    Checked(Box<dyn CheckedUnit + 'e>),
}

impl dyn Engine + '_ {
    /// Begins a unit.
    ///
    /// # Cost
    /// None where the locks of the caller prevent conflicts.
    ///
    /// # Errors
    /// As [`Engine::snapshot`].
    pub fn begin(&self) -> Result<Unit<'_>> {
        Ok(match self.begin_checked()? {
            Some(unit) => Unit::Checked(unit),
            None => Unit::Locked(self),
        })
    }
}

impl dyn Engine + '_ {
    /// As [`Engine::begin_early`], for a unit.
    ///
    /// # Cost
    /// As [`Engine::begin`].
    ///
    /// # Errors
    /// As [`Engine::snapshot`].
    pub fn begin_at(&self, at: CommitPos, keys: &[(Table, &[u8])]) -> Result<Unit<'_>> {
        Ok(match self.begin_early(at, keys)? {
            Some(unit) => Unit::Checked(unit),
            None => Unit::Locked(self),
        })
    }
}

impl Unit<'_> {
    /// Whether another process, which does not know our locks, may change what this unit reads.
    pub fn is_checked(&self) -> bool {
        matches!(self, Unit::Checked(_))
    }

    /// The announcements up to its beginning, see [`CheckedUnit::announced`]; `None` where one
    /// process writes.
    pub fn announced(&self) -> Option<&[u8]> {
        match self {
            Unit::Locked(_) => None,
            Unit::Checked(unit) => Some(unit.announced()),
        }
    }

    /// Applies a batch.
    ///
    /// # Errors
    /// As [`CheckedUnit::commit`].
    pub fn commit(self, batch: &WriteBatch, durability: Durability) -> Result<CommitPos> {
        match self {
            Unit::Locked(engine) => engine.apply(batch, durability),
            Unit::Checked(unit) => unit.commit(batch, durability),
        }
    }
}

impl Reader for Unit<'_> {
    fn get_with(&self, table: Table, key: &[u8], f: &mut dyn FnMut(&[u8])) -> Result<bool> {
        match self {
            Unit::Locked(engine) => engine.get_with(table, key, f),
            Unit::Checked(unit) => unit.get_with(table, key, f),
        }
    }

    fn multi_get(
        &self,
        table: Table,
        keys: &[&[u8]],
        each: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        match self {
            Unit::Locked(engine) => engine.multi_get(table, keys, each),
            Unit::Checked(unit) => unit.multi_get(table, keys, each),
        }
    }

    fn cursor(
        &self,
        table: Table,
        range: KeyRange<'_>,
        opts: CursorOpts,
    ) -> Result<Box<dyn Cursor>> {
        match self {
            Unit::Locked(engine) => engine.cursor(table, range, opts),
            Unit::Checked(unit) => unit.cursor(table, range, opts),
        }
    }
}
