//! The one way to change stored data. Promises: what a write changes on disk and what it changes in
//! memory are collected in one `WriteUnit`; memory changes only after the engine has applied the
//! batch, and not at all when it has not. `commit` is the only caller of `Engine::apply` in this
//! crate (`xtask tidy` checks it). Entries of the log are a part of the batch; they get their times
//! here, right before it is applied. Must not know: documents, indexes, the catalog.

use crate::error;
use crate::log::LogRows;
use model::Result;
use smallvec::SmallVec;
use storage::{CommitPos, Durability, Engine, WriteBatch};

/// What a commit changes in memory.
pub(crate) trait OnCommit {
    /// The batch was applied and is covered by `pos`.
    fn applied(&mut self, pos: CommitPos);
    /// The engine reported an error. The batch may have been applied all the same (a lost answer).
    fn failed(&mut self) {}
}

impl<F: FnMut(CommitPos)> OnCommit for F {
    fn applied(&mut self, pos: CommitPos) {
        self(pos);
    }
}

/// One atomic change: operations for the engine and effects on memory.
pub(crate) struct WriteUnit<'u> {
    batch: Operations<'u>,
    effects: SmallVec<[&'u mut dyn OnCommit; 4]>,
    durability: Durability,
}

/// The operations of a unit.
enum Operations<'u> {
    Plain(&'u WriteBatch),
    /// With rows of the log; their last time goes to the third part.
    Logged(&'u mut WriteBatch, LogRows<'u>, Option<&'u mut u64>),
}

impl<'u> WriteUnit<'u> {
    /// A change of what `batch` says, journaled in the background.
    pub(crate) fn new(batch: &'u WriteBatch) -> WriteUnit<'u> {
        WriteUnit::of(Operations::Plain(batch))
    }

    /// The same with rows of the log that are in the batch; `time` is set to that of the last
    /// entry.
    pub(crate) fn logged(
        batch: &'u mut WriteBatch,
        rows: LogRows<'u>,
        time: Option<&'u mut u64>,
    ) -> WriteUnit<'u> {
        WriteUnit::of(Operations::Logged(batch, rows, time))
    }

    /// The same, where there may be no rows.
    pub(crate) fn maybe_logged(
        batch: &'u mut WriteBatch,
        rows: Option<LogRows<'u>>,
    ) -> WriteUnit<'u> {
        match rows {
            Some(rows) => WriteUnit::logged(batch, rows, None),
            None => WriteUnit::new(batch),
        }
    }

    fn of(batch: Operations<'u>) -> WriteUnit<'u> {
        WriteUnit {
            batch,
            effects: SmallVec::new(),
            durability: Durability::Buffered,
        }
    }

    /// The same; the commit returns once it is durable.
    pub(crate) fn durable(self) -> WriteUnit<'u> {
        WriteUnit {
            durability: Durability::Journaled,
            ..self
        }
    }

    /// The same with another effect; effects happen in the order they were added.
    pub(crate) fn then(mut self, effect: &'u mut dyn OnCommit) -> WriteUnit<'u> {
        self.effects.push(effect);
        self
    }
}

/// Applies a unit. An empty batch is applied as no operation: its effects happen and no position is
/// new.
///
/// # Errors
/// Engine failures; nothing in memory has changed then.
pub(crate) fn commit(engine: &dyn Engine, unit: WriteUnit<'_>) -> Result<CommitPos> {
    // On its way until the effects have happened, so that who reads an entry finds memory changed.
    let (batch, _on_its_way) = match unit.batch {
        Operations::Plain(batch) => (batch, None),
        Operations::Logged(batch, rows, time) => {
            let reserved = rows.reserve(batch);
            if let Some(time) = time {
                *time = reserved.last();
            }
            (&*batch, Some(reserved))
        }
    };
    let applied = if batch.is_empty() {
        Ok(CommitPos::default())
    } else {
        engine.apply(batch, unit.durability)
    };
    match applied {
        Ok(pos) => {
            unit.effects.into_iter().for_each(|e| e.applied(pos));
            Ok(pos)
        }
        Err(e) => {
            unit.effects.into_iter().for_each(|e| e.failed());
            Err(error::storage(e))
        }
    }
}
