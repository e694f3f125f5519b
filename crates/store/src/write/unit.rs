//! The unit of a write to the documents of one collection. Promises: what a statement writes in
//! addition to rows and index entries (counts, log entries, statements of the session) is gathered
//! here, whether it commits by itself or with its transaction. Must not know: how the rows of the
//! batch came about, filters, locks.

use crate::catalog::State;
use crate::catalog::live::InsertedKeys;
use crate::log::{EntryList, LogRows, NewRecord};
use crate::write::end::{Delta, DocumentsCommit, TransactionChanges};
use crate::write::logged::{InsertLog, statements_at};
use crate::write::mode::Mode;
use crate::write::session::{Effect, RetryImage, StatementLog};
use crate::write::writer::Writer;
use model::{Doc, Result};
use storage::{CommitPos, Unit, WriteBatch};

/// The documents that a commit inserts for one statement.
#[derive(Clone, Copy)]
pub(super) struct NewDocuments<'d> {
    /// The documents of the chunk.
    pub(super) docs: &'d [Doc<'d>],
    /// Which of them were accepted, ascending.
    pub(super) accepted: &'d [usize],
    /// Position of the first document of the chunk in the statement.
    pub(super) base: usize,
    /// Sequence number of the first document of the chunk.
    pub(super) first_seq: u64,
    /// Concatenated record keys; empty where no insertion order is kept.
    pub(super) record_keys: &'d [u8],
    /// Where the key of each document of the chunk ends.
    pub(super) key_ends: &'d [usize],
    /// Where the record of each accepted document lies in the batch, when the log refers to it;
    /// none is referred to when this is empty.
    pub(super) records_at: &'d [Option<usize>],
}

impl<'d> NewDocuments<'d> {
    fn iter(self) -> impl Iterator<Item = Doc<'d>> + Clone {
        self.accepted
            .iter()
            .filter_map(move |n| self.docs.get(*n).copied())
    }

    /// The documents with what the log needs to refer to their records.
    fn records(self) -> impl Iterator<Item = NewRecord<'d>> + Clone {
        self.accepted.iter().enumerate().filter_map(move |(i, n)| {
            Some(NewRecord {
                doc: self.docs.get(*n).copied()?,
                key: self
                    .key(*n)
                    .and_then(|key| key.get(4..))
                    .unwrap_or_default(),
                at: self.records_at.get(i).copied().flatten(),
            })
        })
    }

    fn bytes(self) -> i64 {
        self.iter().map(|d| d.len_bytes() as i64).sum()
    }

    /// The record key of the document at this position of the chunk.
    fn key(self, n: usize) -> Option<&'d [u8]> {
        let before = n
            .checked_sub(1)
            .and_then(|before| self.key_ends.get(before));
        self.record_keys
            .get(before.copied().unwrap_or(0)..*self.key_ends.get(n)?)
    }

    /// The numbers of the statements that have inserted them, with their effects.
    fn statements(self, ids: &'d [i32], keep: RetryImage) -> impl Iterator<Item = (i32, Effect)> {
        self.accepted.iter().filter_map(move |n| {
            let id = ids.get(self.base + n)?;
            Some((*id, insert_effect(keep, *self.docs.get(*n)?)))
        })
    }
}

impl InsertedKeys for NewDocuments<'_> {
    fn visit_keys(&self, f: &mut dyn FnMut(u64, &[u8])) {
        for n in self.accepted {
            if let Some(key) = self.key(*n) {
                f(self.first_seq + *n as u64, key);
            }
        }
    }
}

/// The effect of an insert for the session's record.
fn insert_effect(keep: RetryImage, doc: Doc<'_>) -> Effect {
    match keep {
        RetryImage::Fact => Effect::Inserted,
        RetryImage::Id => Effect::Upserted(model::doc! { "_id": doc.field("_id") }),
        RetryImage::Before | RetryImage::After => Effect::Made(doc.to_buf()),
    }
}

/// The documents that a commit changes or deletes for one statement.
pub(super) struct ChangedDocuments<'d> {
    /// Change of the number of documents and of the bytes of their BSON.
    pub(super) docs: i64,
    pub(super) bytes: i64,
    /// Sequence numbers of deleted documents.
    pub(super) deleted: &'d [u64],
    /// Documents that are replaced or deleted.
    pub(super) changed: u64,
    /// The effect of the statement, where a session records it.
    pub(super) effect: Option<&'d Effect>,
    /// Their entries in the log.
    pub(super) log: &'d mut EntryList,
}

/// The changes of one commit to the documents of one collection. Rows of documents and index
/// entries are in the batch already.
pub(super) struct DocumentUnit<'u> {
    writer: Writer<'u>,
    state: &'u State,
    new: Option<NewDocuments<'u>>,
    changed: Option<ChangedDocuments<'u>>,
}

impl<'u> DocumentUnit<'u> {
    pub(super) fn new(writer: Writer<'u>, state: &'u State) -> DocumentUnit<'u> {
        DocumentUnit {
            writer,
            state,
            new: None,
            changed: None,
        }
    }

    /// Adds documents that are inserted.
    pub(super) fn add_inserts(self, new: NewDocuments<'u>) -> DocumentUnit<'u> {
        DocumentUnit {
            new: Some(new),
            ..self
        }
    }

    /// Adds documents that are changed or deleted.
    pub(super) fn add_changes(self, changed: ChangedDocuments<'u>) -> DocumentUnit<'u> {
        DocumentUnit {
            changed: Some(changed),
            ..self
        }
    }

    /// Commits the batch through the unit whose reads decided it, or hands it to the transaction.
    ///
    /// # Output
    /// The position of the commit; none for a transaction and for an empty batch.
    ///
    /// # Errors
    /// 17280 for an id that a column index cannot note; 257 TransactionTooLarge when the
    /// transaction has become too large; 112 WriteConflict when another process has changed data
    /// that was read; engine failures. Memory has not changed then.
    pub(super) fn commit(
        self,
        batch: &mut WriteBatch,
        mode: &mut Mode<'_, '_>,
        decided_by: Option<Unit<'_>>,
    ) -> Result<CommitPos> {
        if batch.is_empty() {
            return Ok(CommitPos::default());
        }
        self.writer.note_touched(self.state, batch)?;
        if let Mode::Transaction(transaction, _) = mode {
            return transaction
                .absorb(self.writer.coll, batch, self.into_changes())
                .map(|()| CommitPos::default());
        }
        let statements = match mode {
            Mode::Logged(to) => Some(&mut **to),
            Mode::Direct | Mode::Transaction(..) => None,
        };
        let rows = self.log_rows(batch, statements.as_deref());
        let mut end = DocumentsCommit {
            shared: &self.writer.shared,
            operation: self.writer.operation,
            batch,
            deltas: &[self.delta()],
            rows,
            catalog: None,
            decided_by,
        };
        let Some(StatementLog { record, ids, keep }) = statements else {
            return end.commit();
        };
        let new = self.new.iter();
        let of_new = new.flat_map(|new| new.statements(ids, *keep));
        let changed = self.changed.as_ref();
        let effect = changed.and_then(|changed| changed.effect.cloned());
        let of_changed = ids.first().copied().zip(effect);
        end.commit_in_session(record, of_new.chain(of_changed))
    }

    fn delta(&self) -> Delta<'_> {
        let mut delta = Delta::of(self.writer.coll);
        if let Some(changed) = &self.changed {
            (delta.docs, delta.bytes) = (changed.docs, changed.bytes);
            delta.deleted = changed.deleted;
            delta.changed = changed.changed;
        }
        if let Some(new) = &self.new {
            delta.docs += new.accepted.len() as i64;
            delta.bytes += new.bytes();
            delta.changed += new.accepted.len() as u64;
            match self.state.series.is_some() {
                true => delta.measurements = new.accepted.len() as u64,
                false => delta.inserted = new,
            }
        }
        delta
    }

    /// The changes that the transaction keeps until its commit.
    fn into_changes(self) -> TransactionChanges {
        let delta = self.delta();
        let mut changes = TransactionChanges {
            docs: delta.docs,
            bytes: delta.bytes,
            deleted: delta.deleted.to_vec(),
            changed: delta.changed,
            ..TransactionChanges::default()
        };
        if let Some(new) = self.new {
            new.visit_keys(&mut |seq, key| changes.inserted.push((seq, key.into())));
            changes.operations = self.writer.operations_of(self.state, new.iter());
        }
        if let Some(changed) = self.changed {
            match changes.operations.count {
                0 => changes.operations = std::mem::take(changed.log),
                _ => changes.operations.append(changed.log),
            }
        }
        changes
    }

    /// Adds the log rows to the batch: first for changed and deleted documents, then for inserted
    /// ones.
    fn log_rows(
        &self,
        batch: &mut WriteBatch,
        statements: Option<&StatementLog<'_>>,
    ) -> Option<LogRows<'u>> {
        let mut rows = self.writer.coll.log_rows(self.state)?;
        if let Some(changed) = self.changed.as_ref().filter(|c| c.log.count > 0) {
            rows.documents(batch, changed.log);
        }
        if let Some(new) = &self.new {
            let ids = statements
                .map(|to| statements_at(to.ids, new.accepted.iter().map(|n| new.base + n)));
            let log = InsertLog {
                session: statements.and_then(|to| to.record.fields()),
                statements: ids.as_deref().unwrap_or_default(),
            };
            self.writer
                .log_inserts(self.state, &mut rows, batch, &log, new.records());
        }
        Some(rows)
    }
}
