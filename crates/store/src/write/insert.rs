//! Inserts documents in chunks, one commit for each chunk. Must not know: who inserts, where the
//! documents come from.
//!
//! An id above every id of the collection is certainly new, so loads in id order never read. Other
//! ids cost one engine call for each chunk. Entries of non-unique indexes are put without a read.

use crate::catalog::{Collection, State};
use crate::commit::WriteUnit;
use crate::error;
use crate::format::{keys, meta, record};
use crate::index::{Index, KeySet};
use crate::locks::{KeyId, KeyIds};
use crate::view::capped::order_key;
use crate::write::capped::InsertSize;
use crate::write::duplicate::duplicate_id;
use crate::write::duplicate::duplicate_key;
use crate::write::entries::{KeyPlace, UniqueEntries, check_length, put_sorted};
use crate::write::mode::Mode;
use crate::write::modify;
use crate::write::reads::WriteReader;
use crate::write::session::StatementLog;
use crate::write::transaction::Transaction;
use crate::write::unit::{DocumentUnit, NewDocuments};
use crate::write::writer::Writer;
use model::{Doc, MongoError, ObjectId, Result, Value, code};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;
use storage::{CommitPos, Table, WriteBatch};

/// Documents of one commit, and their bytes.
const CHUNK_DOCS: usize = 128;
const CHUNK_BYTES: usize = 1 << 20;
/// Bytes of index keys after which a commit takes no further document.
const CHUNK_KEY_BYTES: usize = 8 << 20;
/// Documents below this size are copied into the log.
const REFERENCED_BYTES_MIN: usize = 200;
/// Sequence numbers reserved at a time by collections whose ids arrive out of order.
pub(super) const SEQ_BLOCK: u64 = 1 << 16;
/// Buffers of a thread that are larger than this are freed after use.
const SCRATCH_BYTES_MAX: usize = 2 << 20;

/// The outcome of an insert.
#[derive(Debug, Default)]
pub struct InsertOutcome {
    /// Number of documents written.
    pub count: usize,
    /// Errors of refused documents, by position.
    pub errors: Vec<(usize, MongoError)>,
    /// Covers all writes of the insert.
    pub pos: CommitPos,
    /// Number of documents processed from the first on: written or refused.
    pub seen: usize,
}

/// Buffers of one thread, reused so that an insert allocates nothing once warm.
#[derive(Default)]
struct Scratch {
    batch: WriteBatch,
    record_keys: Vec<u8>,
    key_ends: Vec<usize>,
    sets: Vec<KeySet>,
    unique: UniqueEntries,
    value: Vec<u8>,
    entry: Vec<u8>,
    order: Vec<KeyPlace>,
    /// Old documents that are deleted from a capped collection.
    old: modify::Scratch,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::default());
}

/// A chunk that is being inserted.
struct Chunk<'c> {
    state: &'c State,
    docs: &'c [Doc<'c>],
    ordered: bool,
    /// Position of its first document in the whole insert.
    base: usize,
    /// Documents whose keys cannot be made, by position in the chunk, ascending.
    refused: Vec<(usize, MongoError)>,
    keys: KeyIds,
    /// Number of documents that this commit processes.
    usable: usize,
}

impl<'c> Chunk<'c> {
    fn of(state: &'c State, docs: &'c [Doc<'c>], base: usize, ordered: bool) -> Chunk<'c> {
        Chunk {
            state,
            docs,
            ordered,
            base,
            refused: Vec::new(),
            keys: KeyIds::new(),
            usable: docs.len(),
        }
    }
}

/// The contents of a chunk's batch.
#[derive(Default)]
struct ChunkBatch {
    /// Positions of the documents in the chunk.
    positions: SmallVec<[usize; 8]>,
    /// Multikey bits that the entries need, for each index.
    multikey: SmallVec<[u32; 8]>,
    /// Where the record of each accepted document lies in the batch, when the log refers to it.
    records_at: SmallVec<[Option<usize>; 8]>,
    /// How many documents of the chunk were accepted or refused.
    processed: usize,
}

impl Collection {
    /// Whether [`Writer::insert`] writes these in one batch: all or none.
    pub fn inserts_at_once(&self, docs: &[Doc<'_>]) -> bool {
        self.chunk_len(docs) == docs.len()
    }

    /// How many of the documents one commit inserts. Documents of one commit must fit into a capped
    /// collection together.
    fn chunk_len(&self, docs: &[Doc<'_>]) -> usize {
        let limits = self.state().capped;
        let most_docs = limits.and_then(|l| l.docs).map_or(CHUNK_DOCS, |d| {
            usize::try_from(d).map_or(CHUNK_DOCS, |d| d.min(CHUNK_DOCS))
        });
        let most_bytes = limits.map_or(u64::MAX, |l| l.bytes);
        let (mut len, mut bytes) = (0, 0);
        while len < docs.len().min(most_docs) && bytes < CHUNK_BYTES {
            self.note_size(docs[len].len_bytes());
            bytes += docs[len].len_bytes();
            if len > 0 && bytes as u64 > most_bytes {
                break;
            }
            len += 1;
        }
        len
    }
}

impl Writer<'_> {
    /// Inserts documents that have their `_id` and are valid BSON. With `ordered` it stops at the
    /// first refused document.
    ///
    /// # Errors
    /// As a whole: 175 when the collection is gone, engine failures. Per document, in
    /// [`InsertOutcome::errors`]: 11000 DuplicateKey, 171 parallel arrays.
    pub fn insert(&self, docs: &[Doc<'_>], ordered: bool) -> Result<InsertOutcome> {
        self.insert_logged(docs, ordered, None)
    }

    /// As [`Writer::insert`]; each document written is recorded in the statement log, in the
    /// same commit.
    ///
    /// # Errors
    /// As [`Writer::insert`].
    pub fn insert_logged(
        &self,
        docs: &[Doc<'_>],
        ordered: bool,
        log: Option<&mut StatementLog<'_>>,
    ) -> Result<InsertOutcome> {
        let mut done = InsertOutcome::default();
        self.insert_with_progress(docs, ordered, log, &mut done, &|| {})
            .map(|()| done)
    }

    /// As [`Writer::insert_logged`]. `done` has the result also after an error, and `on_progress`
    /// is called after each commit, when `done` includes it.
    ///
    /// # Errors
    /// As [`Writer::insert`].
    pub fn insert_with_progress(
        &self,
        docs: &[Doc<'_>],
        ordered: bool,
        log: Option<&mut StatementLog<'_>>,
        done: &mut InsertOutcome,
        on_progress: &dyn Fn(),
    ) -> Result<()> {
        self.insert_as(docs, ordered, &mut Mode::of(log), done, on_progress)
    }

    /// As [`Writer::insert`], as part of a transaction.
    ///
    /// # Errors
    /// As [`Writer::insert`]; as a whole also 112 when another writer has written a key since the
    /// transaction began, 24 LockTimeout, 257 TransactionTooLarge, 263
    /// OperationNotSupportedInTransaction.
    pub fn insert_in(
        &self,
        docs: &[Doc<'_>],
        ordered: bool,
        transaction: &Transaction,
    ) -> Result<InsertOutcome> {
        let mut mode = Mode::Transaction(transaction, transaction.enter(self)?);
        let mut done = InsertOutcome::default();
        self.insert_as(docs, ordered, &mut mode, &mut done, &|| {})
            .map(|()| done)
    }

    fn insert_as(
        &self,
        docs: &[Doc<'_>],
        ordered: bool,
        mode: &mut Mode<'_, '_>,
        done: &mut InsertOutcome,
        on_progress: &dyn Fn(),
    ) -> Result<()> {
        if let Err(e) = self.check_write() {
            let refused = if ordered {
                docs.len().min(1)
            } else {
                docs.len()
            };
            done.errors = (0..refused).map(|i| (i, e.clone())).collect();
            done.seen = refused;
            return Ok(());
        }
        if self.is_series() {
            return self.insert_measurements(docs, ordered, mode, done, on_progress);
        }
        let mut at = 0;
        while at < docs.len() {
            let end = at + self.chunk_len(&docs[at..]);
            let bytes = docs[at..end].iter().map(|d| d.len_bytes()).sum();
            let inside = mode.enter(self, bytes)?;
            let state = inside.state();
            // The whole chunk is inserted under one state, even if large keys split it into several
            // commits.
            while at < end {
                let run = |s: &mut Scratch, done: &mut InsertOutcome, mode: &mut Mode<'_, '_>| {
                    let chunk = Chunk::of(state, &docs[at..end], at, ordered);
                    let taken = self.insert_chunk(s, chunk, done, mode);
                    mode.admit_later(self, s.batch.byte_len().saturating_sub(bytes));
                    s.shrink();
                    taken
                };
                let refused = done.errors.len();
                // The buffers are in use when a test's scheduler runs another writer on this
                // thread.
                let taken = SCRATCH.with(|cell| match cell.try_borrow_mut() {
                    Ok(mut s) => run(&mut s, done, mode),
                    Err(_) => run(&mut Scratch::default(), done, mode),
                });
                if mode.is_outdated(&taken) {
                    done.errors.truncate(refused);
                    self.operation.check()?;
                    continue;
                }
                at += taken?;
                done.seen = at;
                on_progress();
                if ordered && !done.errors.is_empty() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Inserts the first documents of a chunk, all unless their keys are very large.
    ///
    /// # Output
    /// How many documents it processed.
    fn insert_chunk(
        &self,
        s: &mut Scratch,
        chunk: Chunk<'_>,
        done: &mut InsertOutcome,
        mode: &mut Mode<'_, '_>,
    ) -> Result<usize> {
        let mut chunk = self.make_keys(s, chunk);
        let (state, docs, base, usable) = (chunk.state, chunk.docs, chunk.base, chunk.usable);
        let mut displacement = self.begin_displacement(state);
        let _held = match &mut displacement {
            None => mode.lock(self, &mut chunk.keys)?,
            Some(d) => {
                let incoming = InsertSize::of(docs.iter().take(usable));
                self.lock_with_oldest(state, d, &chunk.keys, incoming, mode)?
            }
        };
        let reads = mode.begin(self)?;
        let (first_seq, fresh) = self.allocate(s, usable)?;
        let stored = self.stored_ids(s, &fresh, &reads)?;
        s.unique.look_up(&reads)?;
        let written = self.fill_batch(s, chunk, first_seq, &stored, done, &reads)?;
        if written.positions.is_empty() {
            return Ok(written.processed);
        }
        put_entries_of(s, &state.indexes, &written.positions);
        for (index, bits) in state.indexes.iter().zip(&written.multikey) {
            self.mark_multikey(index, *bits)?;
        }
        let mut old = None;
        if let Some(d) = &displacement {
            let incoming = InsertSize::of(written.positions.iter().map(|n| &docs[*n]));
            old = Some(self.delete_oldest(state, d, incoming, &mut s.old, &reads)?);
            s.batch.append(&s.old.batch);
        }
        let mut unit = DocumentUnit::new(*self, state).add_inserts(NewDocuments {
            docs,
            accepted: &written.positions,
            base,
            first_seq,
            record_keys: &s.record_keys,
            key_ends: &s.key_ends,
            records_at: &written.records_at,
        });
        if let Some(old) = &old {
            unit = unit.add_changes(old.of_unit(&mut s.old.log));
        }
        let committed = unit.commit(&mut s.batch, mode, reads.into_unit());
        if let (Some(d), Some(old)) = (&mut displacement, &old) {
            self.end_displacement(d, old, committed.is_ok());
        }
        done.pos = committed?;
        done.count += written.positions.len();
        Ok(written.processed)
    }

    /// Makes the record keys and index keys of a chunk's documents, and collects the keys to lock.
    fn make_keys<'c>(&self, s: &mut Scratch, mut chunk: Chunk<'c>) -> Chunk<'c> {
        let indexes = chunk.state.indexes.as_slice();
        s.batch.clear();
        s.record_keys.clear();
        s.key_ends.clear();
        s.unique.clear();
        s.sets
            .resize_with(chunk.docs.len() * indexes.len(), KeySet::default);
        let key_max = self.shared.engine.caps().key_bytes_max;
        let mut key_bytes = 0;
        for (n, doc) in chunk.docs.iter().enumerate() {
            let start = s.record_keys.len();
            s.record_keys.extend_from_slice(&self.ident.to_be_bytes());
            let id = match doc.field("_id") {
                Value::Missing if self.lacks_ids() => Value::ObjectId(hidden_id()),
                id => id,
            };
            keys::encode(&id, self.id_collate(), &mut s.record_keys);
            s.key_ends.push(s.record_keys.len());
            let id_bytes = s.record_keys.len() - start;
            if id_bytes > key_max {
                chunk
                    .refused
                    .push((n, error::key_too_long("_id_", id_bytes, key_max)));
            }
            chunk.keys.push(KeyId::of(&s.record_keys[start..]));
            for (i, index) in indexes.iter().enumerate() {
                let set = &mut s.sets[n * indexes.len() + i];
                let made = index
                    .keys_of_new(*doc, set)
                    .and_then(|()| check_length(index, set, id_bytes, key_max));
                if let Err(e) = made {
                    if chunk.refused.last().is_none_or(|(at, _)| *at != n) {
                        chunk.refused.push((n, e));
                    }
                    break;
                }
                key_bytes += set.byte_len() + set.iter().len() * id_bytes;
                if index.is_unique() {
                    for key in set.iter() {
                        index.unique_entry(key, &mut s.entry);
                        chunk.keys.push(KeyId::of(&s.entry));
                        s.unique.push(i, &s.entry);
                    }
                }
            }
            let is_refused = chunk.refused.last().is_some_and(|(at, _)| *at == n);
            s.unique.end_document(is_refused);
            if key_bytes > CHUNK_KEY_BYTES || (chunk.ordered && !chunk.refused.is_empty()) {
                chunk.usable = n + 1;
                break;
            }
        }
        chunk
    }

    /// Assigns sequence numbers to a chunk and returns which of its keys are above every key so
    /// far. The caller has locked the keys, so no other writer can insert the same key.
    ///
    /// The mark of ids out of order is committed here, before memory records it: it is in the
    /// journal before every document that needs it, and a failure leaves memory and disk as they
    /// were.
    fn allocate(&self, s: &Scratch, count: usize) -> Result<(u64, SmallVec<[bool; CHUNK_DOCS]>)> {
        let mut order = self.live.order();
        let mut fresh = SmallVec::new();
        let (mut start, mut highest) = (0, None);
        let mut disorder = false;
        for end in &s.key_ends[..count] {
            let key = &s.record_keys[start..*end];
            start = *end;
            let above = key > highest.unwrap_or(order.max_key.as_slice());
            if above {
                highest = Some(key);
            } else {
                disorder = true;
            }
            fresh.push(above);
        }
        let first = order.next_seq;
        let next = first + count as u64;
        let in_order = self.live.is_in_order();
        if (disorder && in_order) || (!in_order && next > order.reserved) {
            let reserved = next + SEQ_BLOCK;
            let mut mark = WriteBatch::new();
            mark.put(
                Table::Meta,
                &meta::unordered(self.ident),
                &reserved.to_be_bytes(),
            );
            let marked = &mut |_: CommitPos| {
                order.reserved = reserved;
                self.live.set_out_of_order();
            };
            if self.is_uncommitted() {
                marked(CommitPos::default());
            } else {
                self.commit(WriteUnit::new(&mark).add_hook(marked))?;
            }
        }
        if let Some(key) = highest {
            order.max_key.clear();
            order.max_key.extend_from_slice(key);
        }
        order.next_seq = next;
        Ok((first, fresh))
    }

    /// Whether each document's id is stored already; ids that are certainly new are not looked up.
    /// Empty when all ids are new.
    fn stored_ids(
        &self,
        s: &Scratch,
        fresh: &[bool],
        reads: &WriteReader<'_>,
    ) -> Result<SmallVec<[bool; CHUNK_DOCS]>> {
        let mut stored: SmallVec<[bool; CHUNK_DOCS]> = SmallVec::new();
        // An id that is new to this process may have been inserted by another one.
        let ask_all = reads.is_checked();
        if !ask_all && fresh.iter().all(|f| *f) {
            return Ok(stored);
        }
        stored.resize(fresh.len(), false);
        let mut asked: SmallVec<[usize; 8]> = SmallVec::new();
        let mut wanted: SmallVec<[&[u8]; 8]> = SmallVec::new();
        let mut start = 0;
        for (n, (end, fresh)) in s.key_ends.iter().zip(fresh).enumerate() {
            if ask_all || !fresh {
                asked.push(n);
                wanted.push(&s.record_keys[start..*end]);
            }
            start = *end;
        }
        reads.multi_get(Table::Doc, &wanted, &mut |i, value| {
            if let Some(found) = asked.get(i).and_then(|n| stored.get_mut(*n)) {
                *found = value.is_some();
            }
        })?;
        Ok(stored)
    }

    /// Adds the accepted documents of a chunk to the batch; refusals go to `done`.
    fn fill_batch(
        &self,
        s: &mut Scratch,
        chunk: Chunk<'_>,
        first_seq: u64,
        stored: &[bool],
        done: &mut InsertOutcome,
        reads: &WriteReader<'_>,
    ) -> Result<ChunkBatch> {
        let indexes = chunk.state.indexes.as_slice();
        // Only accepted documents count: a refused one leaves its keys to later documents.
        let mut accepted_ids: FxHashSet<&[u8]> = FxHashSet::default();
        let mut accepted_unique: FxHashSet<Vec<u8>> = FxHashSet::default();
        let mut written = ChunkBatch {
            multikey: SmallVec::from_elem(0, indexes.len()),
            processed: chunk.usable,
            ..ChunkBatch::default()
        };
        let refers = self.is_referred_to(chunk.state, reads);
        let mut refused = chunk.refused.into_iter().peekable();
        let mut start = 0;
        for n in 0..chunk.usable {
            let (doc, key) = (chunk.docs[n], &s.record_keys[start..s.key_ends[n]]);
            start = s.key_ends[n];
            let sets = &s.sets[n * indexes.len()..(n + 1) * indexes.len()];
            let failure = if refused.peek().is_some_and(|(at, _)| *at == n) {
                refused.next().map(|(_, e)| e)
            } else if stored.get(n).copied().unwrap_or(false) || accepted_ids.contains(key) {
                Some(duplicate_id(self, chunk.state.options.doc(), doc))
            } else {
                let taken = s.unique.find_taken(n, &accepted_unique, reads)?;
                let index = taken.and_then(|i| indexes.get(i));
                index.map(|index| duplicate_key(self, index, doc))
            };
            // A capped collection may delete the other document to make room for those before.
            let is_duplicate = |e: &MongoError| e.code() == code::DUPLICATE_KEY;
            if chunk.state.capped.is_some()
                && !written.positions.is_empty()
                && failure.as_ref().is_some_and(is_duplicate)
            {
                written.processed = n;
                break;
            }
            if let Some(e) = failure {
                done.errors.push((chunk.base + n, e));
                if chunk.ordered {
                    break;
                }
                continue;
            }
            // Strictly ascending ids cannot be duplicates of each other.
            if !stored.is_empty() && chunk.usable > 1 {
                accepted_ids.insert(key);
            }
            let seq = first_seq + n as u64;
            let referred = refers && is_worth_a_reference(doc, key);
            s.value.clear();
            let header = record::Header {
                insert_seq: seq,
                version: 0,
                time: if referred { record::TIME_LATER } else { 0 },
            };
            record::write(&mut s.value, header, doc.as_bytes());
            let record = std::iter::once(s.value.as_slice());
            let at = s.batch.put_parts(Table::Doc, key, record);
            written.records_at.push(referred.then_some(at.value));
            if chunk.state.capped.is_some() {
                s.batch
                    .put(Table::Cap, &order_key(self.ident, seq), &key[4..]);
            }
            for (set, bits) in sets.iter().zip(&mut written.multikey) {
                *bits |= set.multikey;
            }
            if chunk.usable > 1 {
                accepted_unique.extend(s.unique.of(n).map(<[u8]>::to_vec));
            }
            written.positions.push(n);
        }
        Ok(written)
    }
}

/// Whether the log refers to a document instead of copying it: a reference costs a read when it is
/// followed, and must spare most of the bytes.
fn is_worth_a_reference(doc: Doc<'_>, key: &[u8]) -> bool {
    doc.len_bytes() >= REFERENCED_BYTES_MIN && key.len() <= doc.len_bytes() / 2
}

/// The key of a document without an `_id`: unique at each call, in the order of time.
fn hidden_id() -> ObjectId {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let nanos = now.map_or(0, |d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX));
    let mut id = [0; 12];
    id[..8].copy_from_slice(&nanos.to_be_bytes());
    id[8..].copy_from_slice(&NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes());
    ObjectId(id)
}

/// Puts the index entries of the documents at these positions.
fn put_entries_of(s: &mut Scratch, indexes: &[Arc<Index>], positions: &[usize]) {
    for (i, index) in indexes.iter().enumerate() {
        let of = |n: usize| {
            let start = n.checked_sub(1).map_or(0, |before| s.key_ends[before]);
            let id = &s.record_keys[start + 4..s.key_ends[n]];
            (&s.sets[n * indexes.len() + i], id)
        };
        put_sorted(
            &mut s.batch,
            index,
            positions,
            of,
            &mut s.order,
            &mut s.entry,
        );
    }
}

impl Scratch {
    /// Frees the memory that a large chunk has used.
    fn shrink(&mut self) {
        self.batch.shrink(SCRATCH_BYTES_MAX);
        self.old.shrink();
        self.unique.shrink(SCRATCH_BYTES_MAX / 4);
        // A buffer cannot shrink below its content.
        for buffer in [&mut self.record_keys, &mut self.value, &mut self.entry] {
            buffer.clear();
            buffer.shrink_to(SCRATCH_BYTES_MAX / 4);
        }
        self.order.clear();
        self.order
            .shrink_to(SCRATCH_BYTES_MAX / 4 / size_of::<KeyPlace>());
        self.sets
            .iter_mut()
            .for_each(|s| s.shrink(SCRATCH_BYTES_MAX / 4));
    }
}
