//! Fills the batch of a modification: records, index entries, counts. Must not know: locks,
//! commits.

use crate::catalog::{Collection, State};
use crate::error;
use crate::format::record;
use crate::view::capped::order_key;
use crate::write::change::{Change, ModifyOutcome};
use crate::write::duplicate::duplicate_key;
use crate::write::entries::put_entry;
use crate::write::mode::Mode;
use crate::write::modify::{ChunkBatch, Decisions, Scratch};
use crate::write::reads::WriteReader;
use crate::write::session::{Effect, RetryImage, StatementLog};
use crate::write::writer::Writer;
use model::{Doc, Result};
use smallvec::SmallVec;
use storage::{CommitPos, Table};

/// A batch that is being filled.
struct Fill<'f, 'm, 'l, 'r> {
    coll: &'f Collection,
    state: &'f State,
    s: &'f mut Scratch,
    mode: &'f Mode<'m, 'l>,
    reads: &'f WriteReader<'r>,
    filled: ChunkBatch,
}

/// A document as it is stored.
struct StoredDocument<'d> {
    key: &'d [u8],
    header: record::Header,
    doc: Doc<'d>,
    /// Its position in the chunk.
    n: usize,
}

impl StoredDocument<'_> {
    fn id(&self) -> &[u8] {
        self.key.get(4..).unwrap_or_default()
    }
}

impl Writer<'_> {
    /// Adds the changes to the batch, up to the first that is refused.
    pub(super) fn fill_changes(
        &self,
        state: &State,
        s: &mut Scratch,
        keys: &[&[u8]],
        decided: Decisions,
        mode: &Mode<'_, '_>,
        reads: &WriteReader<'_>,
    ) -> Result<ChunkBatch> {
        s.batch.clear();
        s.log.clear();
        let records = std::mem::take(&mut s.old);
        let mut fill = Fill {
            coll: self,
            state,
            s,
            mode,
            reads,
            filled: ChunkBatch {
                multikey: SmallVec::from_elem(0, state.indexes.len()),
                failure: decided.failure,
                ..ChunkBatch::default()
            },
        };
        let done = fill.put_all(&records, keys, &decided.changes);
        let filled = fill.filled;
        s.old = records;
        done.map(|()| filled)
    }
}

impl Fill<'_, '_, '_, '_> {
    /// Adds the changes of the documents whose concatenated records are in `records`.
    fn put_all(
        &mut self,
        records: &[u8],
        keys: &[&[u8]],
        changes: &[Option<Change>],
    ) -> Result<()> {
        let mut start = 0;
        for (n, (change, key)) in changes.iter().zip(keys).enumerate() {
            let Some(end) = self.s.old_ends.get(n).copied().flatten() else {
                self.filled.outcomes.push(ModifyOutcome::Absent);
                continue;
            };
            let (header, doc) = self.coll.parse(records.get(start..end))?;
            start = end;
            let change = match change {
                None | Some(Change::Keep) => {
                    self.filled.outcomes.push(ModifyOutcome::Kept);
                    continue;
                }
                Some(change) => change,
            };
            let new = match change {
                Change::Replace(b) | Change::Update(b, _) => {
                    Some(Doc::new(b).ok_or_else(|| error::corrupt("a document to be stored"))?)
                }
                Change::Keep | Change::Delete => None,
            };
            let old = StoredDocument {
                key,
                header,
                doc,
                n,
            };
            let (mark, log_mark) = (self.s.batch.mark(), self.s.log.mark());
            let log = &mut self.s.log;
            self.coll
                .log_change(self.state, log, doc, change, self.mode);
            if let Err(e) = self.put_change(&old, new) {
                self.s.batch.rollback_to(mark);
                self.s.log.rollback_to(log_mark);
                self.filled.failure = Some(e);
                break;
            }
            if let Mode::Logged(StatementLog { keep, .. }) = self.mode {
                self.filled.effect = Some(effect_of(*keep, doc, new));
            }
        }
        Ok(())
    }

    fn put_change(&mut self, old: &StoredDocument<'_>, new: Option<Doc<'_>>) -> Result<()> {
        self.put_entry_changes(old, new)?;
        let old_bytes = old.doc.len_bytes() as i64;
        self.coll
            .save_referenced(&mut self.s.batch, old.header, old.doc);
        let (s, filled) = (&mut *self.s, &mut self.filled);
        match new {
            Some(d) => {
                s.value.clear();
                let header = record::Header {
                    version: self.coll.shared.next_version(),
                    time: 0,
                    ..old.header
                };
                record::write(&mut s.value, header, d.as_bytes());
                s.batch.put(Table::Doc, old.key, &s.value);
                filled.bytes += d.len_bytes() as i64 - old_bytes;
                filled
                    .outcomes
                    .push(ModifyOutcome::Replaced(CommitPos::default()));
            }
            None => {
                s.batch.delete(Table::Doc, old.key);
                if self.state.capped.is_some() {
                    let place = order_key(self.coll.ident, old.header.insert_seq);
                    s.batch.delete(Table::Cap, &place);
                }
                filled.docs -= 1;
                filled.bytes -= old_bytes;
                filled.deleted.push(old.header.insert_seq);
                filled
                    .outcomes
                    .push(ModifyOutcome::Deleted(CommitPos::default()));
            }
        }
        Ok(())
    }

    /// Adds the index entries that change with a document to the batch.
    fn put_entry_changes(&mut self, old: &StoredDocument<'_>, new: Option<Doc<'_>>) -> Result<()> {
        let building = self.state.builds_unique();
        let number = self.state.indexes.len();
        for (i, index) in self.state.indexes.iter().enumerate() {
            if new.is_some_and(|d| index.sees_same(old.doc, d)) {
                continue;
            }
            let s = &mut *self.s;
            let new_keys = &s.new_keys[old.n * number + i];
            index.keys_of(old.doc, &mut s.old_keys)?;
            for k in s
                .old_keys
                .iter()
                .filter(|k| new.is_none() || !new_keys.contains(k))
            {
                index.entry_key(k, old.id(), &mut s.entry);
                index.note_change(old.id());
                if index.is_unique() {
                    if building && !self.reads.owns_entry(index, &s.entry, old.id())? {
                        continue;
                    }
                    self.filled.unique.insert(s.entry.clone(), false);
                }
                self.filled.entry_bytes -= s.entry.len() as i64;
                s.batch.delete(Table::Idx, &s.entry);
            }
            let Some(d) = new else { continue };
            for k in new_keys.keys() {
                let before = s.old_keys.get(k.components);
                if before == Some(k) {
                    continue;
                }
                index.entry_key(k.components, old.id(), &mut s.entry);
                if before.is_some() {
                    // The key is the same, but its value has another type or form.
                    index.note_change(old.id());
                    let own = || self.reads.owns_entry(index, &s.entry, old.id());
                    if building && index.is_unique() && !own()? {
                        continue;
                    }
                } else if index.is_unique() {
                    let taken = match self.filled.unique.get(&s.entry) {
                        Some(put) => *put,
                        None => self.reads.exists(Table::Idx, &s.entry)?,
                    };
                    if taken {
                        return Err(duplicate_key(self.coll, index, d));
                    }
                    self.filled.unique.insert(s.entry.clone(), true);
                }
                self.filled.entry_bytes += s.entry.len() as i64;
                put_entry(&mut s.batch, index, k, old.id(), &mut s.entry);
            }
            self.filled.multikey[i] |= new_keys.multikey;
        }
        Ok(())
    }
}

/// The effect of a change for the session's record.
pub(super) fn effect_of(keep: RetryImage, old: Doc<'_>, new: Option<Doc<'_>>) -> Effect {
    match (keep, new) {
        (RetryImage::Fact | RetryImage::Id, Some(_)) => Effect::Updated,
        (RetryImage::Fact | RetryImage::Id, None) => Effect::Deleted,
        (RetryImage::Before, Some(_)) => Effect::UpdatedBefore(old.to_buf()),
        (RetryImage::After, Some(d)) => Effect::UpdatedAfter(d.to_buf()),
        (RetryImage::Before | RetryImage::After, None) => Effect::Removed(old.to_buf()),
    }
}
