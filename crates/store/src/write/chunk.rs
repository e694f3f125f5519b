//! One chunk of an insert: the keys of its documents, which of them are taken, and its batch. Must
//! not know: locks, commits, how many chunks an insert has.

use crate::catalog::State;
use crate::error;
use crate::format::{keys, record};
use crate::index::{Index, KeySet};
use crate::locks::{KeyId, KeyIds};
use crate::view::capped::order_key;
use crate::write::duplicate::{duplicate_id, duplicate_key};
use crate::write::entries::{KeyPlace, UniqueEntries, check_length, put_sorted};
use crate::write::modify;
use crate::write::reads::WriteReader;
use crate::write::writer::Writer;
use model::{Doc, MongoError, ObjectId, Result, Value, code};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;
use storage::{Table, WriteBatch};

/// Most documents of one commit.
pub(super) const CHUNK_DOCS: usize = 128;
/// Bytes of index keys after which a commit takes no further document.
const CHUNK_KEY_BYTES: usize = 8 << 20;
/// Documents below this size are copied into the log.
const REFERENCED_BYTES_MIN: usize = 200;
/// Buffers of a thread that are larger than this are freed after use.
const SCRATCH_BYTES_MAX: usize = 2 << 20;

/// Buffers of one thread, reused so that an insert allocates nothing once warm.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) batch: WriteBatch,
    pub(super) record_keys: Vec<u8>,
    pub(super) key_ends: Vec<usize>,
    pub(super) sets: Vec<KeySet>,
    pub(super) unique: UniqueEntries,
    pub(super) value: Vec<u8>,
    pub(super) entry: Vec<u8>,
    pub(super) order: Vec<KeyPlace>,
    /// Old documents that are deleted from a capped collection.
    pub(super) old: modify::Scratch,
}

/// A chunk that is being inserted.
pub(super) struct Chunk<'c> {
    pub(super) state: &'c State,
    pub(super) docs: &'c [Doc<'c>],
    pub(super) ordered: bool,
    /// Position of its first document in the whole insert.
    pub(super) base: usize,
    /// Documents without valid keys: their positions in the chunk, ascending, and errors.
    pub(super) refused: Vec<(usize, MongoError)>,
    pub(super) keys: KeyIds,
    /// Number of documents that this commit processes.
    pub(super) usable: usize,
}

impl<'c> Chunk<'c> {
    pub(super) fn of(
        state: &'c State,
        docs: &'c [Doc<'c>],
        base: usize,
        ordered: bool,
    ) -> Chunk<'c> {
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
pub(super) struct ChunkBatch {
    /// Positions of the documents in the chunk.
    pub(super) positions: SmallVec<[usize; 8]>,
    /// Multikey bits that the entries need, for each index.
    pub(super) multikey: SmallVec<[u32; 8]>,
    /// Where the record of each accepted document lies in the batch, when the log refers to it.
    pub(super) records_at: SmallVec<[Option<usize>; 8]>,
    /// How many documents of the chunk were accepted or refused.
    pub(super) processed: usize,
}

impl Writer<'_> {
    /// Makes the record keys and index keys of a chunk's documents, and collects the keys to lock.
    pub(super) fn make_keys<'c>(&self, s: &mut Scratch, mut chunk: Chunk<'c>) -> Chunk<'c> {
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

    /// The keys that [`Writer::stored_ids`] and [`UniqueEntries::look_up`] read beside other
    /// processes; empty where no other process writes.
    pub(super) fn keys_to_read<'s>(
        &self,
        s: &'s Scratch,
        usable: usize,
    ) -> SmallVec<[(Table, &'s [u8]); 2]> {
        let mut keys = SmallVec::new();
        if !self.shared.has_joined {
            return keys;
        }
        let mut start = 0;
        for end in s.key_ends.iter().take(usable) {
            keys.push((Table::Doc, &s.record_keys[start..*end]));
            start = *end;
        }
        keys.extend(s.unique.iter().map(|entry| (Table::Idx, entry)));
        keys
    }

    /// Whether each document's id is stored already; ids that are certainly new are not looked up.
    /// Empty when all ids are new.
    pub(super) fn stored_ids(
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

    /// Adds the accepted documents of a chunk to the batch; refusals go to `errors`.
    pub(super) fn fill_batch(
        &self,
        s: &mut Scratch,
        chunk: Chunk<'_>,
        first_seq: u64,
        stored: &[bool],
        errors: &mut Vec<(usize, MongoError)>,
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
                errors.push((chunk.base + n, e));
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
pub(super) fn put_entries_of(s: &mut Scratch, indexes: &[Arc<Index>], positions: &[usize]) {
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
    pub(super) fn shrink(&mut self) {
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
