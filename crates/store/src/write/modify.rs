//! Changing or deleting stored documents: lock, read the latest, decide, commit, unlock, all in one
//! place, so that a hot document costs one lock hold of a few microseconds per writer. One document
//! or many take the same way; many share locks, the engine call, and the commit. Must not
//! know: filters, update operators.

use crate::catalog::{Collection, State};
use crate::commit::{OnCommit, WriteUnit};
use crate::error;
use crate::format::{meta, record};
use crate::index::KeySet;
use crate::locks::{KeyId, KeyIds};
use crate::view::capped::order_key;
use crate::write::duplicate::duplicate_key;
use crate::write::entries::{check_length, entry_value};
use crate::write::mode::Mode;
use crate::write::session::{Effect, Keep, StatementLog};
use crate::write::transaction::{Changes, Transaction};
use model::{Doc, MongoError, Result};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::sync::Arc;
use storage::{CommitPos, Table, WriteBatch};

/// What a change is taken to write before it is known; the rest is admitted with the thread's next
/// write.
const WRITE_BYTES: usize = 256;
/// Most documents of one commit, and about how many bytes of them are read at once.
const CHUNK_DOCS: u64 = 128;
const CHUNK_BYTES: u64 = 1 << 20;
/// Buffers of a thread larger than this are given back after use.
const SCRATCH_BYTES_MAX: usize = 1 << 20;

/// What to do with a document that was just read under its lock.
pub enum Change {
    /// Nothing.
    Keep,
    /// Store these bytes instead; the `_id` is the same.
    Replace(Vec<u8>),
    /// Remove it.
    Delete,
}

/// The outcome of a modification.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Modified {
    /// There is no such document.
    Absent,
    /// Left as it was.
    Kept,
    /// Replaced.
    Replaced(CommitPos),
    /// Removed.
    Deleted(CommitPos),
}

/// Decides on the document of a key, by its number; called again when another writer came in
/// between.
pub type Decide<'d> = dyn FnMut(usize, Doc<'_>) -> Result<Change> + 'd;

#[derive(Default)]
struct Scratch {
    batch: WriteBatch,
    /// Records as read, one behind another, and where each ends.
    old: Vec<u8>,
    old_ends: Vec<Option<usize>>,
    value: Vec<u8>,
    entry: Vec<u8>,
    old_keys: KeySet,
    /// Keys of the new documents, by document and index.
    new_keys: Vec<KeySet>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::default());
}

/// What was decided on the documents of a chunk, up to the first failure.
struct Decided {
    changes: SmallVec<[Option<Change>; 2]>,
    failure: Option<MongoError>,
}

/// What the batch of a chunk holds.
#[derive(Default)]
struct Filled {
    outcomes: SmallVec<[Modified; 2]>,
    docs: i64,
    bytes: i64,
    /// Bytes of index entries put, less those deleted.
    entry_bytes: i64,
    /// Sequence numbers of deleted documents.
    deleted: SmallVec<[u64; 2]>,
    multikey: SmallVec<[u32; 8]>,
    effect: Option<Effect>,
    failure: Option<MongoError>,
    /// Unique entries this batch has put (true) or deleted (false).
    unique: FxHashMap<Vec<u8>, bool>,
}

impl Collection {
    /// Applies `decide` to the latest state of the document under `record_key`. `decide` may be
    /// called again when another writer came in between.
    ///
    /// # Errors
    /// What `decide` returns; 11000 DuplicateKey; 171 parallel arrays; 175 when the collection is
    /// gone; engine failures.
    pub fn modify(
        &self,
        record_key: &[u8],
        decide: &mut dyn FnMut(Doc<'_>) -> Result<Change>,
    ) -> Result<Modified> {
        self.modify_logged(record_key, decide, None)
    }

    /// As [`Collection::modify`]; a change is recorded in the statement log, in the same commit.
    ///
    /// # Errors
    /// As [`Collection::modify`].
    pub fn modify_logged(
        &self,
        record_key: &[u8],
        decide: &mut dyn FnMut(Doc<'_>) -> Result<Change>,
        log: Option<&mut StatementLog<'_>>,
    ) -> Result<Modified> {
        let mut outcome = Modified::Absent;
        self.modify_chunk(
            &[record_key],
            &mut |_, doc| decide(doc),
            &mut Mode::of(log),
            &mut |_, m| outcome = m,
        )?;
        Ok(outcome)
    }

    /// As [`Collection::modify_many`], as a part of a transaction: `decide` sees the state that the
    /// transaction sees.
    ///
    /// # Errors
    /// As [`Collection::modify`]; 112 when a key was written by somebody else since the transaction
    /// began, 24, 257, 263.
    pub fn modify_in(
        self: &Arc<Self>,
        record_keys: &[&[u8]],
        decide: &mut Decide<'_>,
        each: &mut dyn FnMut(usize, Modified),
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
    /// is told what became of a document once that is committed. An error leaves the documents
    /// before it changed and those behind it alone.
    ///
    /// # Cost
    /// One read call to the engine and one commit for every 128 documents, or for about a megabyte
    /// of them.
    ///
    /// # Errors
    /// As [`Collection::modify`].
    pub fn modify_many(
        &self,
        record_keys: &[&[u8]],
        decide: &mut Decide<'_>,
        each: &mut dyn FnMut(usize, Modified),
    ) -> Result<()> {
        let document_bytes = (self.size_bytes() / self.count().max(1)).max(1);
        let step = (CHUNK_BYTES / document_bytes).clamp(1, CHUNK_DOCS) as usize;
        for (n, chunk) in record_keys.chunks(step).enumerate() {
            let base = n * step;
            self.modify_chunk(
                chunk,
                &mut |i, doc| decide(base + i, doc),
                &mut Mode::Direct,
                &mut |i, m| each(base + i, m),
            )?;
        }
        Ok(())
    }

    fn modify_chunk(
        &self,
        keys: &[&[u8]],
        decide: &mut Decide<'_>,
        mode: &mut Mode<'_, '_>,
        each: &mut dyn FnMut(usize, Modified),
    ) -> Result<()> {
        let admitted = keys.iter().map(|k| k.len() + WRITE_BYTES).sum::<usize>();
        let inside = mode.enter(self, admitted)?;
        let state = inside.state();
        let mut run = |s: &mut Scratch| {
            let result = self.modify_with(state, s, keys, decide, mode, each);
            mode.admit_later(s.batch.byte_len().saturating_sub(admitted));
            s.shrink();
            result
        };
        // A nested call on this thread (there is none today) would find the buffers taken; it gets
        // its own.
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
        decide: &mut Decide<'_>,
        mode: &mut Mode<'_, '_>,
        each: &mut dyn FnMut(usize, Modified),
    ) -> Result<()> {
        // While a unique index is built, two documents not yet compared may share a key, and its
        // entry may be the other's.
        let building = state.indexes.iter().any(|i| i.is_unique() && !i.is_ready());
        let mut locked: KeyIds = keys.iter().map(|k| KeyId::of(k)).collect();
        let (held, decided) = loop {
            let held = mode.lock(&self.shared, &mut locked)?;
            self.read_old(s, keys, mode)?;
            let mut wanted = locked.clone();
            let decided = self.decide_all(state, s, keys, decide, building, &mut wanted)?;
            wanted.sort_unstable();
            wanted.dedup();
            if wanted == locked {
                break (held, decided);
            }
            // Unique keys that become ours must be locked, too: start over with all of them.
            drop(held);
            locked = wanted;
        };
        let filled = self.fill_changes(state, s, keys, decided, building, mode)?;
        if !s.batch.is_empty() {
            for (index, bits) in state.indexes.iter().zip(&filled.multikey) {
                self.shared.mark_multikey(index, *bits)?;
            }
            // On a full device what frees space must pass.
            if filled.bytes < 0 && filled.bytes + filled.entry_bytes <= 0 {
                s.batch.set_shrinks();
            }
            if filled.docs != 0 || filled.bytes != 0 {
                s.batch.add(
                    Table::Meta,
                    &meta::counter(self.ident),
                    [filled.docs, filled.bytes],
                );
            }
        }
        let pos = self.commit_modify(s, &filled, mode)?;
        drop(held);
        for (n, m) in filled.outcomes.iter().enumerate() {
            each(
                n,
                match m {
                    Modified::Replaced(_) => Modified::Replaced(pos),
                    Modified::Deleted(_) => Modified::Deleted(pos),
                    other => *other,
                },
            );
        }
        filled.failure.map_or(Ok(()), Err)
    }

    fn commit_modify(
        &self,
        s: &mut Scratch,
        filled: &Filled,
        mode: &mut Mode<'_, '_>,
    ) -> Result<CommitPos> {
        let mut counted = |_: CommitPos| {
            self.live.add_counts(filled.docs, filled.bytes);
            filled
                .deleted
                .iter()
                .for_each(|seq| self.live.deleted(*seq));
        };
        if s.batch.is_empty() {
            return Ok(CommitPos::default());
        }
        if let Mode::Transaction(transaction, _) = mode {
            let changes = Changes {
                docs: filled.docs,
                bytes: filled.bytes,
                inserted: Vec::new(),
                deleted: filled.deleted.to_vec(),
            };
            transaction.absorb(self, &s.batch, changes)?;
            return Ok(CommitPos::default());
        }
        let Mode::Logged(to) = mode else {
            return self
                .shared
                .commit(WriteUnit::new(&s.batch).then(&mut counted));
        };
        let statement = to
            .ids
            .first()
            .zip(filled.effect.clone())
            .map(|(id, effect)| (*id, effect));
        let mut staged = to.record.stage(&mut s.batch, statement.into_iter());
        let staged: &mut dyn OnCommit = &mut staged;
        self.shared
            .commit(WriteUnit::new(&s.batch).then(&mut counted).then(staged))
    }

    fn read_old(&self, s: &mut Scratch, keys: &[&[u8]], mode: &Mode<'_, '_>) -> Result<()> {
        s.old.clear();
        s.old_ends.clear();
        if let Mode::Transaction(transaction, _) = mode {
            for key in keys {
                let found = transaction.read_claimed(Table::Doc, key, &mut s.old)?;
                s.old_ends.push(found.then_some(s.old.len()));
            }
            return Ok(());
        }
        if let [key] = keys {
            let found = self
                .shared
                .engine
                .get(Table::Doc, key, &mut s.old)
                .map_err(error::storage)?;
            s.old_ends.push(found.then_some(s.old.len()));
            return Ok(());
        }
        let (old, ends) = (&mut s.old, &mut s.old_ends);
        let each = &mut |_: usize, value: Option<&[u8]>| {
            ends.push(value.map(|v| {
                old.extend_from_slice(v);
                old.len()
            }));
        };
        self.shared
            .engine
            .multi_get(Table::Doc, keys, each)
            .map_err(error::storage)
    }

    /// Asks what shall become of each document, makes the keys of the new ones, and adds to
    /// `wanted` what else has to be locked. Stops at the first failure.
    fn decide_all(
        &self,
        state: &State,
        s: &mut Scratch,
        keys: &[&[u8]],
        decide: &mut Decide<'_>,
        building: bool,
        wanted: &mut KeyIds,
    ) -> Result<Decided> {
        let mut decided = Decided {
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
            let old = self.parse(s.old.get(start..end))?.1;
            start = end;
            let made = decide(n, old).and_then(|change| {
                let new = match &change {
                    Change::Replace(b) => {
                        Some(Doc::new(b).ok_or_else(|| error::corrupt("a document to be stored"))?)
                    }
                    Change::Delete => None,
                    Change::Keep => return Ok(change),
                };
                let new_keys = &mut s.new_keys[n * state.indexes.len()..];
                let key_max = self.shared.engine.caps().key_bytes_max;
                for (index, set) in state.indexes.iter().zip(new_keys) {
                    if let Some(d) = new.filter(|d| !index.sees_same(old, *d)) {
                        index.keys_of(d, set)?;
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

    fn parse<'b>(&self, record: Option<&'b [u8]>) -> Result<(record::Header, Doc<'b>)> {
        record
            .and_then(record::read)
            .ok_or_else(|| error::corrupt(&format!("a record of {}", self.ns)))
    }

    /// Puts the changes into the batch, up to the first that is refused.
    fn fill_changes(
        &self,
        state: &State,
        s: &mut Scratch,
        keys: &[&[u8]],
        decided: Decided,
        building: bool,
        mode: &Mode<'_, '_>,
    ) -> Result<Filled> {
        s.batch.clear();
        let mut filled = Filled {
            multikey: SmallVec::from_elem(0, state.indexes.len()),
            failure: decided.failure,
            ..Filled::default()
        };
        let mut start = 0;
        for (n, change) in decided.changes.iter().enumerate() {
            let Some(end) = s.old_ends.get(n).copied().flatten() else {
                filled.outcomes.push(Modified::Absent);
                continue;
            };
            let bytes = std::mem::take(&mut s.old);
            let (header, old) = self.parse(bytes.get(start..end))?;
            start = end;
            let new = match change {
                None | Some(Change::Keep) => {
                    filled.outcomes.push(Modified::Kept);
                    s.old = bytes;
                    continue;
                }
                Some(Change::Delete) => None,
                Some(Change::Replace(b)) => {
                    Some(Doc::new(b).ok_or_else(|| error::corrupt("a document to be stored"))?)
                }
            };
            let mark = s.batch.mark();
            let put = self.put_change(
                state,
                s,
                keys[n],
                n,
                (header, old, new),
                (building, mode),
                &mut filled,
            );
            match put {
                Ok(()) => {}
                Err(e) => {
                    s.batch.rollback_to(mark);
                    filled.failure = Some(e);
                    s.old = bytes;
                    break;
                }
            }
            if let Mode::Logged(StatementLog { keep, .. }) = mode {
                filled.effect = Some(changed(*keep, old, new));
            }
            s.old = bytes;
        }
        Ok(filled)
    }

    #[allow(clippy::too_many_arguments)]
    fn put_change(
        &self,
        state: &State,
        s: &mut Scratch,
        key: &[u8],
        n: usize,
        (header, old, new): (record::Header, Doc<'_>, Option<Doc<'_>>),
        how: (bool, &Mode<'_, '_>),
        filled: &mut Filled,
    ) -> Result<()> {
        self.put_entry_changes(state, s, &key[4..], n, (old, new), how, filled)?;
        let old_bytes = old.len_bytes() as i64;
        match new {
            Some(d) => {
                s.value.clear();
                let header = record::Header {
                    version: self.shared.next_version(),
                    ..header
                };
                record::write(&mut s.value, header, d.as_bytes());
                s.batch.put(Table::Doc, key, &s.value);
                filled.bytes += d.len_bytes() as i64 - old_bytes;
                filled
                    .outcomes
                    .push(Modified::Replaced(CommitPos::default()));
            }
            None => {
                s.batch.delete(Table::Doc, key);
                if state.capped {
                    s.batch
                        .delete(Table::Cap, &order_key(self.ident, header.insert_seq));
                }
                filled.docs -= 1;
                filled.bytes -= old_bytes;
                filled.deleted.push(header.insert_seq);
                filled
                    .outcomes
                    .push(Modified::Deleted(CommitPos::default()));
            }
        }
        Ok(())
    }

    /// Puts the index entries that change with a document into the batch.
    #[allow(clippy::too_many_arguments)]
    fn put_entry_changes(
        &self,
        state: &State,
        s: &mut Scratch,
        id: &[u8],
        n: usize,
        (old, new): (Doc<'_>, Option<Doc<'_>>),
        (building, mode): (bool, &Mode<'_, '_>),
        filled: &mut Filled,
    ) -> Result<()> {
        for (i, index) in state.indexes.iter().enumerate() {
            if new.is_some_and(|d| index.sees_same(old, d)) {
                continue;
            }
            let new_keys = &s.new_keys[n * state.indexes.len() + i];
            index.keys_of(old, &mut s.old_keys)?;
            for k in s
                .old_keys
                .iter()
                .filter(|k| new.is_none() || !new_keys.contains(k))
            {
                index.entry_key(k, id, &mut s.entry);
                if index.is_unique() {
                    if building && !self.owns_entry(&s.entry, id, mode)? {
                        continue;
                    }
                    filled.unique.insert(s.entry.clone(), false);
                }
                filled.entry_bytes -= s.entry.len() as i64;
                s.batch.delete(Table::Idx, &s.entry);
            }
            let Some(d) = new else { continue };
            for k in new_keys.iter().filter(|k| !s.old_keys.contains(k)) {
                index.entry_key(k, id, &mut s.entry);
                if index.is_unique() {
                    let taken = match filled.unique.get(&s.entry) {
                        Some(put) => *put,
                        None => mode.exists(&self.shared, Table::Idx, &s.entry)?,
                    };
                    if taken {
                        return Err(duplicate_key(self, index, d));
                    }
                    filled.unique.insert(s.entry.clone(), true);
                }
                filled.entry_bytes += s.entry.len() as i64;
                s.batch.put(Table::Idx, &s.entry, entry_value(index, id));
            }
            filled.multikey[i] |= new_keys.multikey;
        }
        Ok(())
    }

    /// Whether the entry of a unique index leads to the document with this id.
    fn owns_entry(&self, entry: &[u8], id: &[u8], mode: &Mode<'_, '_>) -> Result<bool> {
        if let Mode::Transaction(transaction, _) = mode {
            let mut owner = Vec::new();
            let found = transaction.read_claimed(Table::Idx, entry, &mut owner)?;
            return Ok(found && owner == id);
        }
        let mut ours = false;
        let look = &mut |owner: &[u8]| ours = owner == id;
        self.shared
            .engine
            .get_with(Table::Idx, entry, look)
            .map_err(error::storage)?;
        Ok(ours)
    }
}

fn want_entries(
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
    /// Gives back what a large document has left behind.
    fn shrink(&mut self) {
        self.batch.shrink(SCRATCH_BYTES_MAX);
        self.old.shrink_to(SCRATCH_BYTES_MAX);
        self.value.shrink_to(SCRATCH_BYTES_MAX);
        self.entry.shrink_to(SCRATCH_BYTES_MAX);
        self.old_keys.shrink(SCRATCH_BYTES_MAX);
        self.new_keys
            .iter_mut()
            .for_each(|s| s.shrink(SCRATCH_BYTES_MAX / 8));
    }
}

/// The recorded effect of a change.
fn changed(keep: Keep, old: Doc<'_>, new: Option<Doc<'_>>) -> Effect {
    match (keep, new) {
        (Keep::Fact | Keep::Id, Some(_)) => Effect::Updated,
        (Keep::Fact | Keep::Id, None) => Effect::Deleted,
        (Keep::Before, Some(_)) => Effect::UpdatedBefore(old.to_buf()),
        (Keep::After, Some(d)) => Effect::UpdatedAfter(d.to_buf()),
        (Keep::Before | Keep::After, None) => Effect::Removed(old.to_buf()),
    }
}
