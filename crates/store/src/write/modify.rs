//! Changes or deletes stored documents: lock, read the latest state, decide, commit, unlock, all in
//! one place, so that writers of a hot document each hold its lock for a few microseconds. One
//! document and many use the same code; many share the locks, the engine call and the commit. Must
//! not know: filters, update operators.

use crate::catalog::{Collection, State};
use crate::error;
use crate::format::record;
use crate::index::KeySet;
use crate::locks::{KeyId, KeyIds};
use crate::log::EntryList;
use crate::write::change::{Change, DecideFn, ModifyOutcome};
use crate::write::entries::check_length;
use crate::write::mode::Mode;
use crate::write::reads::WriteReader;
use crate::write::session::{Effect, StatementLog};
use crate::write::transaction::Transaction;
use crate::write::unit::{ChangedDocuments, DocumentUnit};
use crate::write::writer::Writer;
use model::{Doc, MongoError, Result};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::sync::atomic::Ordering;
use storage::{CommitPos, Table, WriteBatch};

/// Assumed bytes of a change before its size is known; the rest is admitted with the next write.
const WRITE_BYTES: usize = 256;
/// Most documents of one commit, and about how many bytes of them are read at once.
const CHUNK_DOCS: u64 = 128;
const CHUNK_BYTES: u64 = 1 << 20;
/// Buffers of a thread that are larger than this are freed after use.
const SCRATCH_BYTES_MAX: usize = 256 << 10;

/// As [`DecideFn`], for records; also gets the sequence number under which the record was inserted.
pub(super) type DecideRecord<'d> = dyn FnMut(usize, u64, Doc<'_>) -> Result<Change> + 'd;

#[derive(Default)]
pub(super) struct Scratch {
    pub(super) batch: WriteBatch,
    /// The concatenated records, and where each ends.
    pub(super) old: Vec<u8>,
    pub(super) old_ends: Vec<Option<usize>>,
    pub(super) value: Vec<u8>,
    pub(super) entry: Vec<u8>,
    pub(super) old_keys: KeySet,
    /// Keys of the new documents, by document and index.
    pub(super) new_keys: Vec<KeySet>,
    /// Entries of the log.
    pub(super) log: EntryList,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::default());
}

/// The decisions on the documents of a chunk, up to the first failure.
pub(super) struct Decisions {
    pub(super) changes: SmallVec<[Option<Change>; 2]>,
    pub(super) failure: Option<MongoError>,
}

/// The contents of a chunk's batch.
#[derive(Default)]
pub(super) struct ChunkBatch {
    pub(super) outcomes: SmallVec<[ModifyOutcome; 2]>,
    pub(super) docs: i64,
    pub(super) bytes: i64,
    /// Bytes of index entries put, less those deleted.
    pub(super) entry_bytes: i64,
    /// Sequence numbers of deleted documents.
    pub(super) deleted: SmallVec<[u64; 2]>,
    pub(super) multikey: SmallVec<[u32; 8]>,
    pub(super) effect: Option<Effect>,
    pub(super) failure: Option<MongoError>,
    /// Entries of unique indexes that this batch has put (true) or deleted (false).
    pub(super) unique: FxHashMap<Vec<u8>, bool>,
}

impl ChunkBatch {
    /// Reports the outcome of each document, after the commit at `pos`.
    pub(super) fn report(&self, pos: CommitPos, each: &mut dyn FnMut(usize, ModifyOutcome)) {
        for (n, outcome) in self.outcomes.iter().enumerate() {
            let outcome = match outcome {
                ModifyOutcome::Replaced(_) => ModifyOutcome::Replaced(pos),
                ModifyOutcome::Deleted(_) => ModifyOutcome::Deleted(pos),
                other => *other,
            };
            each(n, outcome);
        }
    }

    /// Documents that are replaced or deleted.
    fn count_changes(&self) -> u64 {
        let is_change = |outcome: &&ModifyOutcome| {
            matches!(
                outcome,
                ModifyOutcome::Replaced(_) | ModifyOutcome::Deleted(_)
            )
        };
        self.outcomes.iter().filter(is_change).count() as u64
    }

    /// The changes as the unit of the write needs them.
    pub(super) fn of_unit<'f>(&'f self, log: &'f mut EntryList) -> ChangedDocuments<'f> {
        ChangedDocuments {
            docs: self.docs,
            bytes: self.bytes,
            deleted: &self.deleted,
            changed: self.count_changes(),
            effect: self.effect.as_ref(),
            log,
        }
    }
}

impl Writer<'_> {
    /// Applies `decide` to the latest state of the document under `record_key`. `decide` may be
    /// called again when another writer has changed the document meanwhile.
    ///
    /// # Errors
    /// What `decide` returns; 11000 DuplicateKey; 171 parallel arrays; 175 QueryPlanKilled when the
    /// collection is gone; engine failures.
    pub fn modify(
        &self,
        record_key: &[u8],
        decide: &mut dyn FnMut(Doc<'_>) -> Result<Change>,
    ) -> Result<ModifyOutcome> {
        self.modify_logged(record_key, decide, None)
    }

    /// As [`Writer::modify`]; a change is recorded in the statement log, in the same commit.
    ///
    /// # Errors
    /// As [`Writer::modify`].
    pub fn modify_logged(
        &self,
        record_key: &[u8],
        decide: &mut dyn FnMut(Doc<'_>) -> Result<Change>,
        log: Option<&mut StatementLog<'_>>,
    ) -> Result<ModifyOutcome> {
        let mut outcome = ModifyOutcome::Absent;
        self.modify_chunk(
            &[record_key],
            &mut |_, doc| decide(doc),
            &mut Mode::of(log),
            &mut |_, m| outcome = m,
        )?;
        Ok(outcome)
    }

    /// As [`Writer::modify_many`], as part of a transaction: `decide` gets the document as the
    /// transaction sees it.
    ///
    /// # Errors
    /// As [`Writer::modify`]; 112 WriteConflict when another writer has written a key since the
    /// transaction began, 24 LockTimeout, 257 TransactionTooLarge, 263
    /// OperationNotSupportedInTransaction.
    pub fn modify_in(
        &self,
        record_keys: &[&[u8]],
        decide: &mut DecideFn<'_>,
        each: &mut dyn FnMut(usize, ModifyOutcome),
        transaction: &Transaction,
    ) -> Result<()> {
        let state = transaction.enter(self)?;
        let mut mode = Mode::Transaction(transaction, state);
        for (n, chunk) in record_keys.chunks(CHUNK_DOCS as usize).enumerate() {
            let base = n * CHUNK_DOCS as usize;
            self.modify_chunk(
                chunk,
                &mut |i, doc| decide(base + i, doc),
                &mut mode,
                &mut |i, m| each(base + i, m),
            )?;
        }
        Ok(())
    }

    /// Applies `decide` to the documents under `record_keys`, each key once, in their order; `each`
    /// gets the outcome of a document after its commit. After an error the documents before it are
    /// changed and those after it are not.
    ///
    /// # Cost
    /// One read call to the engine and one commit for every 128 documents, or for about a megabyte
    /// of them.
    ///
    /// # Errors
    /// As [`Writer::modify`].
    pub fn modify_many(
        &self,
        record_keys: &[&[u8]],
        decide: &mut DecideFn<'_>,
        each: &mut dyn FnMut(usize, ModifyOutcome),
    ) -> Result<()> {
        // The measurements of one bucket are changed together.
        if self.is_series() {
            return self.modify_chunk(record_keys, decide, &mut Mode::Direct, each);
        }
        self.modify_numbered(record_keys, &mut |n, _, doc| decide(n, doc), each)
    }

    /// As [`Writer::modify_many`], for documents that have records of their own.
    ///
    /// # Errors
    /// As [`Writer::modify`].
    pub(super) fn modify_numbered(
        &self,
        record_keys: &[&[u8]],
        decide: &mut DecideRecord<'_>,
        each: &mut dyn FnMut(usize, ModifyOutcome),
    ) -> Result<()> {
        let average = self.size_bytes() / self.count().max(1);
        let document_bytes = average.max(self.largest_bytes() as u64).max(1);
        let step = (CHUNK_BYTES / document_bytes).clamp(1, CHUNK_DOCS) as usize;
        let step = step.min(self.commit_docs_max(&self.state()));
        for (n, chunk) in record_keys.chunks(step).enumerate() {
            let base = n * step;
            self.modify_records(
                chunk,
                &mut |i, seq, doc| decide(base + i, seq, doc),
                &mut Mode::Direct,
                &mut |i, m| each(base + i, m),
            )?;
        }
        Ok(())
    }

    fn modify_chunk(
        &self,
        keys: &[&[u8]],
        decide: &mut DecideFn<'_>,
        mode: &mut Mode<'_, '_>,
        each: &mut dyn FnMut(usize, ModifyOutcome),
    ) -> Result<()> {
        match self.is_series() {
            true => self.modify_measurements(keys, decide, mode, each),
            false => self.modify_records(keys, &mut |n, _, doc| decide(n, doc), mode, each),
        }
    }

    /// Applies `decide` to the records of one chunk, in the given [`Mode`].
    pub(super) fn modify_records(
        &self,
        keys: &[&[u8]],
        decide: &mut DecideRecord<'_>,
        mode: &mut Mode<'_, '_>,
        each: &mut dyn FnMut(usize, ModifyOutcome),
    ) -> Result<()> {
        let admitted = keys.iter().map(|k| k.len() + WRITE_BYTES).sum::<usize>();
        let inside = mode.enter(self, admitted)?;
        let state = inside.state();
        let mut run = |s: &mut Scratch| {
            let result = self.modify_with(state, s, keys, decide, mode, each);
            mode.admit_later(self, s.batch.byte_len().saturating_sub(admitted));
            s.shrink();
            result
        };
        // A nested call on this thread finds the buffers in use and gets its own.
        SCRATCH.with(|cell| match cell.try_borrow_mut() {
            Ok(mut s) => run(&mut s),
            Err(_) => run(&mut Scratch::default()),
        })
    }

    fn modify_with(
        &self,
        state: &State,
        s: &mut Scratch,
        keys: &[&[u8]],
        decide: &mut DecideRecord<'_>,
        mode: &mut Mode<'_, '_>,
        each: &mut dyn FnMut(usize, ModifyOutcome),
    ) -> Result<()> {
        let mut locked: KeyIds = keys.iter().map(|k| KeyId::of(k)).collect();
        if self.shared_order(state).is_some() {
            locked.push(self.order_lock());
        }
        let (held, filled, pos) = loop {
            let held = mode.lock(self, &mut locked)?;
            let wanted: SmallVec<[(Table, &[u8]); 2]> = match self.shared.has_joined {
                true => keys.iter().map(|key| (Table::Doc, *key)).collect(),
                false => SmallVec::new(),
            };
            let reads = mode.begin(self, &wanted)?;
            self.read_old(s, keys, &reads)?;
            let mut wanted = locked.clone();
            let decided = self.decide_all(state, s, keys, decide, &mut wanted)?;
            wanted.sort_unstable();
            wanted.dedup();
            if wanted != locked {
                // The new unique keys must be locked, too: start again with all of them.
                drop(held);
                locked = wanted;
                continue;
            }
            let filled = self.fill_changes(state, s, keys, decided, mode, &reads)?;
            let committed = self.commit_changes(state, s, &filled, mode, reads);
            if mode.is_outdated(&committed) {
                self.operation.check()?;
                continue;
            }
            break (held, filled, committed?);
        };
        drop(held);
        filled.report(pos, each);
        filled.failure.map_or(Ok(()), Err)
    }

    /// Commits the batch.
    fn commit_changes(
        &self,
        state: &State,
        s: &mut Scratch,
        filled: &ChunkBatch,
        mode: &mut Mode<'_, '_>,
        reads: WriteReader<'_>,
    ) -> Result<CommitPos> {
        if !s.batch.is_empty() {
            self.check_write()?;
            for (index, bits) in state.indexes.iter().zip(&filled.multikey) {
                self.mark_multikey_in(index, *bits, &reads, &mut s.batch)?;
            }
            // Changes that free space must be accepted on a full device.
            if filled.bytes < 0 && filled.bytes + filled.entry_bytes <= 0 {
                s.batch.set_shrinks();
            }
            self.put_order_change(state, filled, &reads, &mut s.batch)?;
        }
        let unit = DocumentUnit::new(*self, state).add_changes(filled.of_unit(&mut s.log));
        let committed = unit.commit(&mut s.batch, mode, reads.into_unit());
        if state.capped.is_some() {
            self.capped.changes.fetch_add(1, Ordering::AcqRel);
        }
        committed
    }

    fn read_old(&self, s: &mut Scratch, keys: &[&[u8]], reads: &WriteReader<'_>) -> Result<()> {
        s.old.clear();
        s.old_ends.clear();
        let (old, ends) = (&mut s.old, &mut s.old_ends);
        reads.multi_get(Table::Doc, keys, &mut |_, value| {
            ends.push(value.map(|v| {
                self.note_size(v.len());
                old.extend_from_slice(v);
                old.len()
            }));
        })
    }

    /// Calls `decide` for each document, makes the keys of the new ones, and adds the further keys
    /// to lock to `wanted`. Stops at the first failure.
    fn decide_all(
        &self,
        state: &State,
        s: &mut Scratch,
        keys: &[&[u8]],
        decide: &mut DecideRecord<'_>,
        wanted: &mut KeyIds,
    ) -> Result<Decisions> {
        let building = state.builds_unique();
        let mut decided = Decisions {
            changes: SmallVec::new(),
            failure: None,
        };
        s.new_keys
            .resize_with(keys.len() * state.indexes.len(), KeySet::default);
        let mut start = 0;
        for (n, (key, end)) in keys.iter().zip(&s.old_ends).enumerate() {
            let Some(end) = *end else {
                decided.changes.push(None);
                continue;
            };
            let (header, old) = self.parse(s.old.get(start..end))?;
            start = end;
            let made = decide(n, header.insert_seq, old).and_then(|change| {
                let new = match &change {
                    Change::Replace(b) | Change::Update(b, _) => {
                        Some(Doc::new(b).ok_or_else(|| error::corrupt("a document to be stored"))?)
                    }
                    Change::Delete => None,
                    Change::Keep => return Ok(change),
                };
                let new_keys = &mut s.new_keys[n * state.indexes.len()..];
                let key_max = self.shared.engine.caps().key_bytes_max;
                for (index, set) in state.indexes.iter().zip(new_keys) {
                    if let Some(d) = new.filter(|d| !index.sees_same(old, *d)) {
                        index.keys_of_new(d, set)?;
                        check_length(index, set, key.len(), key_max)?;
                        if index.is_unique() {
                            want_entries(index, set, &mut s.entry, wanted);
                        }
                    }
                    if building && index.is_unique() {
                        index.keys_of(old, &mut s.old_keys)?;
                        want_entries(index, &s.old_keys, &mut s.entry, wanted);
                    }
                }
                Ok(change)
            });
            match made {
                Ok(change) => decided.changes.push(Some(change)),
                Err(e) => {
                    decided.failure = Some(e);
                    break;
                }
            }
        }
        Ok(decided)
    }
}

impl Collection {
    pub(super) fn parse<'b>(&self, record: Option<&'b [u8]>) -> Result<(record::Header, Doc<'b>)> {
        record
            .and_then(record::read)
            .ok_or_else(|| error::corrupt(&format!("a record of {}", self.ns)))
    }
}

pub(super) fn want_entries(
    index: &crate::index::Index,
    set: &KeySet,
    entry: &mut Vec<u8>,
    wanted: &mut KeyIds,
) {
    for k in set.iter() {
        index.unique_entry(k, entry);
        wanted.push(KeyId::of(entry));
    }
}

impl Scratch {
    /// Frees the memory that a large document has used.
    pub(super) fn shrink(&mut self) {
        self.batch.shrink(SCRATCH_BYTES_MAX);
        self.log.clear();
        let buffers = [
            &mut self.old,
            &mut self.value,
            &mut self.entry,
            &mut self.log.bytes,
        ];
        // A buffer cannot shrink below its content.
        for buffer in buffers {
            buffer.clear();
            buffer.shrink_to(SCRATCH_BYTES_MAX);
        }
        self.old_keys.shrink(SCRATCH_BYTES_MAX);
        self.new_keys
            .iter_mut()
            .for_each(|s| s.shrink(SCRATCH_BYTES_MAX / 8));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use storage::Table;

    #[test]
    fn full_buffers_of_a_thread_give_their_memory_back() {
        let mut s = Scratch::default();
        let large = vec![1; 4 << 20];
        for buffer in [&mut s.old, &mut s.value, &mut s.entry, &mut s.log.bytes] {
            buffer.extend_from_slice(&large);
        }
        s.batch.put(Table::Doc, b"k", &large);
        s.shrink();
        for buffer in [&s.old, &s.value, &s.entry, &s.log.bytes] {
            assert!(
                buffer.capacity() <= SCRATCH_BYTES_MAX,
                "{}",
                buffer.capacity()
            );
        }
        assert!(s.batch.byte_len() <= SCRATCH_BYTES_MAX);
    }
}
