//! The end of every commit of documents, of a statement or of a whole transaction. Promises:
//! counter rows, counts in memory, the insertion order and the row of the session are added to a
//! commit here and nowhere else. Must not know: how the rows of the batch came about, filters,
//! locks.

use crate::catalog::live::{CounterChange, InsertedKeys};
use crate::catalog::{Collection, Shared};
use crate::commit::{CommitHook, WriteUnit};
use crate::format::meta;
use crate::log::{EntryList, LogRows};
use crate::write::session::{Effect, SessionRecord};
use model::Result;
use operation::Operation;
use std::sync::atomic::Ordering;
use storage::{CommitPos, Table, Unit, WriteBatch};

/// Changes of one collection by the statements of a transaction, kept until its commit.
#[derive(Default)]
pub(crate) struct TransactionChanges {
    pub(crate) docs: i64,
    pub(crate) bytes: i64,
    /// Sequence numbers and keys of inserted documents.
    pub(crate) inserted: Vec<(u64, Box<[u8]>)>,
    /// Sequence numbers of deleted documents.
    pub(crate) deleted: Vec<u64>,
    /// Documents inserted, replaced or deleted.
    pub(crate) changed: u64,
    /// Their entries for the log.
    pub(crate) operations: EntryList,
}

/// Changes of a collection by one commit, apart from its rows.
pub(super) struct Delta<'d> {
    coll: &'d Collection,
    pub(super) docs: i64,
    pub(super) bytes: i64,
    pub(super) inserted: &'d dyn InsertedKeys,
    /// Sequence numbers of deleted documents.
    pub(super) deleted: &'d [u64],
    /// Documents inserted, replaced or deleted.
    pub(super) changed: u64,
    /// New measurements of a time series.
    pub(super) measurements: u64,
}

impl<'d> Delta<'d> {
    pub(super) fn of(coll: &'d Collection) -> Delta<'d> {
        Delta {
            coll,
            docs: 0,
            bytes: 0,
            inserted: &NoKeys,
            deleted: &[],
            changed: 0,
            measurements: 0,
        }
    }

    /// The changes that a transaction has kept from its statements.
    pub(super) fn of_kept(coll: &'d Collection, changes: &'d TransactionChanges) -> Delta<'d> {
        Delta {
            docs: changes.docs,
            bytes: changes.bytes,
            inserted: &changes.inserted,
            deleted: &changes.deleted,
            changed: changes.changed,
            ..Delta::of(coll)
        }
    }
}

/// Used when no document was inserted, or no insertion order is kept.
struct NoKeys;

impl InsertedKeys for NoKeys {
    fn visit_keys(&self, _: &mut dyn FnMut(u64, &[u8])) {}
}

impl InsertedKeys for Vec<(u64, Box<[u8]>)> {
    fn visit_keys(&self, f: &mut dyn FnMut(u64, &[u8])) {
        self.iter().for_each(|(seq, key)| f(*seq, key));
    }
}

/// Changes of memory after the commit.
struct Deltas<'d>(&'d [Delta<'d>]);

impl CommitHook for Deltas<'_> {
    fn note_applied(&mut self, _: CommitPos) {
        for delta in self.0 {
            delta.coll.live.apply(&CounterChange {
                docs: delta.docs,
                bytes: delta.bytes,
                inserted: delta.inserted,
                deleted: delta.deleted,
                changed: delta.changed,
            });
            if delta.measurements > 0 {
                let counted = &delta.coll.buckets.counts.measurements;
                counted.fetch_add(delta.measurements, Ordering::Relaxed);
            }
        }
    }
}

/// One commit of documents: of a statement, or of all statements of a transaction. Built in place
/// and not moved, because it is large.
pub(super) struct DocumentsCommit<'c> {
    pub(super) shared: &'c Shared,
    pub(super) operation: &'c Operation,
    /// Rows of documents, index entries, log entries.
    pub(super) batch: &'c mut WriteBatch,
    pub(super) deltas: &'c [Delta<'c>],
    pub(super) rows: Option<LogRows<'c>>,
    /// Changes of the catalog's memory when the commit is applied.
    pub(super) catalog: Option<&'c mut dyn CommitHook>,
    /// The unit whose reads decided the write.
    pub(super) decided_by: Option<Unit<'c>>,
}

impl DocumentsCommit<'_> {
    /// Commits without a session.
    ///
    /// # Errors
    /// Engine failures; memory has not changed then.
    pub(super) fn commit(&mut self) -> Result<CommitPos> {
        self.put_counters();
        self.run(None)
    }

    /// Commits together with the session's row, which records what these statements have done.
    ///
    /// # Errors
    /// As [`DocumentsCommit::commit`].
    pub(super) fn commit_in_session(
        &mut self,
        record: &mut SessionRecord,
        statements: impl Iterator<Item = (i32, Effect)>,
    ) -> Result<CommitPos> {
        self.put_counters();
        let mut staged = record.stage(self.batch, statements);
        let pos = self.run(Some(&mut staged))?;
        if let Some(rows) = &self.rows {
            record.set_log_time(rows.last());
        }
        Ok(pos)
    }

    fn put_counters(&mut self) {
        for delta in self.deltas {
            let counts = [delta.docs, delta.bytes];
            if counts != [0, 0] {
                self.batch
                    .add(Table::Meta, &meta::counter(delta.coll.ident), counts);
            }
        }
    }

    fn run(&mut self, staged: Option<&mut dyn CommitHook>) -> Result<CommitPos> {
        let mut deltas = Deltas(self.deltas);
        let mut unit = WriteUnit::with_stamp(self.batch, &mut self.rows)
            .count_for(self.operation)
            .commit_through(self.decided_by.take())
            .add_hook(&mut deltas);
        if let Some(staged) = staged {
            unit = unit.add_hook(staged);
        }
        if let Some(catalog) = self.catalog.as_deref_mut() {
            unit = unit.add_hook(catalog);
        }
        let result = self.shared.commit(unit);
        // A failed commit may have been applied.
        if let Some(rows) = self.rows.as_ref().filter(|rows| rows.references() > 0) {
            let time = rows.last();
            let collections = self.deltas.iter().map(|delta| delta.coll);
            collections.for_each(|coll| coll.live.note_referenced(time));
            if let Some(log) = &self.shared.feed {
                log.references.add_written(rows.references());
            }
        }
        result
    }
}
