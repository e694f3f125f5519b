//! The one way to change stored data. Promises: what a write changes on disk and what it changes in
//! memory are collected in one `WriteUnit`; memory changes only after the engine has applied the
//! batch, and not at all when it has not. `commit` is the only caller of `Engine::apply` in this
//! crate (`xtask tidy` checks it). Values that depend on the commit's place among other commits are
//! stamped into the batch right before it is applied. Must not know: documents, indexes, the
//! catalog, the log.

use crate::error;
use model::Result;
use operation::Operation;
use smallvec::SmallVec;
use storage::{CommitPos, Durability, Engine, StorageError, Unit, WriteBatch};

/// Changes of memory that follow a commit.
pub(crate) trait CommitHook {
    /// The batch was applied; `pos` covers it.
    fn note_applied(&mut self, pos: CommitPos);
    /// The engine reported an error. The batch may still have been applied (a lost answer).
    fn note_failed(&mut self) {}
}

impl<F: FnMut(CommitPos)> CommitHook for F {
    fn note_applied(&mut self, pos: CommitPos) {
        self(pos);
    }
}

/// One atomic change: operations for the engine and changes of memory.
pub(crate) struct WriteUnit<'u> {
    batch: Operations<'u>,
    effects: SmallVec<[&'u mut dyn CommitHook; 4]>,
    durability: Durability,
    decided_by: Option<Unit<'u>>,
    /// The operation that counts the commit among its changes.
    operation: Option<&'u Operation>,
}

/// Stamps a batch with its place among other commits.
pub(crate) trait Stamp {
    /// Writes the stamp into the batch, which is applied next.
    ///
    /// # Errors
    /// Why the batch cannot be applied.
    fn stamp(&mut self, batch: &mut WriteBatch) -> Result<()>;
    /// The batch was applied, with this position.
    fn note_applied(&mut self, pos: CommitPos);
    /// The batch was not applied.
    fn note_refused(&mut self);
    /// The time in the stamp.
    fn time(&self) -> u64;
    /// The commit is complete: the batch was applied and memory changed, or the commit failed.
    fn note_complete(&mut self);
}

/// The operations of a unit.
enum Operations<'u> {
    Plain(&'u WriteBatch),
    Stamped(&'u mut WriteBatch, &'u mut dyn Stamp),
}

impl<'u> WriteUnit<'u> {
    /// A unit that applies `batch`; the journal is flushed in the background.
    pub(crate) fn new(batch: &'u WriteBatch) -> WriteUnit<'u> {
        WriteUnit::of(Operations::Plain(batch))
    }

    /// As [`WriteUnit::new`], with a stamp if there is one.
    pub(crate) fn with_stamp<S: Stamp>(
        batch: &'u mut WriteBatch,
        stamp: &'u mut Option<S>,
    ) -> WriteUnit<'u> {
        match stamp {
            Some(stamp) => WriteUnit::of(Operations::Stamped(batch, stamp)),
            None => WriteUnit::new(batch),
        }
    }

    fn of(batch: Operations<'u>) -> WriteUnit<'u> {
        WriteUnit {
            batch,
            effects: SmallVec::new(),
            durability: Durability::Buffered,
            decided_by: None,
            operation: None,
        }
    }

    /// Makes the commit return only once it is durable.
    pub(crate) fn durable(self) -> WriteUnit<'u> {
        WriteUnit {
            durability: Durability::Journaled,
            ..self
        }
    }

    /// Commits through `unit`, whose reads decided the write.
    pub(crate) fn commit_through(self, unit: Option<Unit<'u>>) -> WriteUnit<'u> {
        WriteUnit {
            decided_by: unit,
            ..self
        }
    }

    /// Counts the commit as a change by `operation`.
    pub(crate) fn count_for(self, operation: &'u Operation) -> WriteUnit<'u> {
        WriteUnit {
            operation: Some(operation),
            ..self
        }
    }

    /// Adds a change of memory; they happen in the order they were added.
    pub(crate) fn add_hook(mut self, effect: &'u mut dyn CommitHook) -> WriteUnit<'u> {
        self.effects.push(effect);
        self
    }
}

/// Applies a unit. An empty batch is not passed to the engine: the changes of memory happen, and no
/// new position results.
///
/// # Errors
/// Engine failures; nothing in memory has changed then. 112 when another process changed data that
/// the unit has read: nothing has changed at all.
pub(crate) fn commit(engine: &dyn Engine, unit: WriteUnit<'_>) -> Result<CommitPos> {
    let (batch, mut stamp) = match unit.batch {
        Operations::Plain(batch) => (batch, None),
        Operations::Stamped(batch, stamp) => {
            stamp.stamp(batch)?;
            (&*batch, Some(stamp))
        }
    };
    let applied = if batch.is_empty() {
        Ok(CommitPos::default())
    } else {
        let applied = match unit.decided_by {
            Some(decided_by) => decided_by.commit(batch, unit.durability),
            None => engine.apply(batch, unit.durability),
        };
        // After a conflict nothing has changed, so the operation may still begin again.
        if let Some(operation) = unit.operation
            && !matches!(applied, Err(StorageError::Conflict))
        {
            operation.writes().count_commit();
        }
        applied
    };
    let result = match applied {
        Ok(pos) => {
            if let Some(stamp) = &mut stamp {
                stamp.note_applied(pos);
            }
            unit.effects.into_iter().for_each(|e| e.note_applied(pos));
            if let (Some(operation), Some(stamp)) = (unit.operation, &stamp) {
                operation.writes().committed_at(stamp.time());
            }
            Ok(pos)
        }
        Err(e) => {
            if e.is_clean_refusal()
                && let Some(stamp) = &mut stamp
            {
                stamp.note_refused();
            }
            if !matches!(e, StorageError::Conflict) {
                unit.effects.into_iter().for_each(|e| e.note_failed());
            }
            Err(error::storage(e))
        }
    };
    if let Some(stamp) = stamp {
        stamp.note_complete();
    }
    result
}
