//! Inserting documents: in chunks, one engine batch each.
//!
//! An id above every id of the collection is certainly new, so loads in id order never read. Other ids cost one probe
//! of the engine's filter. Entries of non-unique indexes are put without a read.

use crate::capped;
use crate::collection::{Collection, State};
use crate::error;
use crate::format::{keys, meta, record};
use crate::index::{Index, KeySet};
use crate::locks::{LockTable, StripeId};
use crate::store::Shared;
use crate::session::{Effect, Keep, Noted};
use model::{Doc, DocBuf, MongoError, Result, Value, code};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::sync::atomic::Ordering;
use storage::{Batch, CommitPos, Durability, Table};

/// Documents of one engine batch, and their bytes.
const CHUNK_DOCS: usize = 128;
const CHUNK_BYTES: usize = 1 << 20;
/// Bytes of index keys after which a batch takes no further document.
const CHUNK_KEY_BYTES: usize = 8 << 20;
/// Sequence numbers reserved at a time by collections whose ids come out of order.
const SEQ_BLOCK: u64 = 1 << 16;

/// What came of an insert.
#[derive(Debug, Default)]
pub struct Inserted {
    /// Documents written.
    pub count: usize,
    /// Refused documents by position.
    pub errors: Vec<(usize, MongoError)>,
    /// Covers everything written.
    pub pos: CommitPos,
}

/// Buffers of one thread, reused so that an insert allocates nothing once warm.
#[derive(Default)]
struct Scratch {
    batch: Batch,
    record_keys: Vec<u8>,
    key_ends: Vec<usize>,
    sets: Vec<KeySet>,
    value: Vec<u8>,
    entry: Vec<u8>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::default());
}

impl Collection {
    /// True when [`Collection::insert`] writes these in one batch: all or none then.
    pub fn inserts_at_once(docs: &[Doc<'_>]) -> bool {
        docs.len() <= CHUNK_DOCS && docs.iter().map(|d| d.len_bytes()).sum::<usize>() < CHUNK_BYTES
    }

    /// Inserts documents that have their `_id` and are valid BSON. With `ordered` the first refusal ends it.
    ///
    /// # Errors
    /// As a whole: 175 when the collection is gone, engine failures. Per document, in [`Inserted::errors`]: 11000
    /// DuplicateKey, 171 parallel arrays.
    pub fn insert(&self, docs: &[Doc<'_>], ordered: bool) -> Result<Inserted> {
        self.insert_noted(docs, ordered, None)
    }

    /// As [`Collection::insert`]; each document written is remembered in the session's record, in the same batch.
    ///
    /// # Errors
    /// As [`Collection::insert`].
    pub fn insert_noted(&self, docs: &[Doc<'_>], ordered: bool, mut noted: Option<&mut Noted<'_>>) -> Result<Inserted> {
        let mut done = Inserted::default();
        let mut at = 0;
        while at < docs.len() {
            let (mut end, mut bytes) = (at, 0);
            while end < docs.len() && end - at < CHUNK_DOCS && (end == at || bytes < CHUNK_BYTES) {
                bytes += docs[end].len_bytes();
                end += 1;
            }
            self.shared.admit(bytes);
            let state = self.enter()?;
            // All of the chunk under one state, however often large keys cut it.
            while at < end {
                at += SCRATCH.with_borrow_mut(|s| {
                    let taken = self.insert_chunk(&state, s, &docs[at..end], (at, ordered), &mut done, noted.as_deref_mut());
                    Shared::owe(s.batch.byte_len().saturating_sub(bytes));
                    s.batch.shrink(4 << 20);
                    taken
                })?;
                if ordered && !done.errors.is_empty() {
                    return Ok(done);
                }
            }
        }
        Ok(done)
    }

    /// Inserts the first documents of a chunk, all unless their keys are very large, and tells how many it looked at.
    fn insert_chunk(
        &self,
        state: &State,
        s: &mut Scratch,
        docs: &[Doc<'_>],
        (base, ordered): (usize, bool),
        done: &mut Inserted,
        noted: Option<&mut Noted<'_>>,
    ) -> Result<usize> {
        let indexes = state.indexes.as_slice();
        let has_unique = indexes.iter().any(|i| i.is_unique());
        s.batch.clear();
        s.record_keys.clear();
        s.key_ends.clear();
        s.sets.resize_with(docs.len() * indexes.len(), KeySet::default);
        let mut stripes = SmallVec::<[StripeId; 8]>::new();
        let mut usable = docs.len();
        // Documents whose index keys cannot be made, by position in the chunk.
        let mut refused: Vec<(usize, MongoError)> = Vec::new();
        let key_max = self.shared.engine.caps().key_bytes_max;
        let mut key_bytes = 0;
        for (n, doc) in docs.iter().enumerate() {
            let start = s.record_keys.len();
            s.record_keys.extend_from_slice(&self.ident.to_be_bytes());
            keys::encode(&doc.field("_id"), self.id_collate(), &mut s.record_keys);
            s.key_ends.push(s.record_keys.len());
            let id_bytes = s.record_keys.len() - start;
            if id_bytes > key_max {
                refused.push((n, error::key_too_long("_id_", id_bytes, key_max)));
            }
            stripes.push(LockTable::stripe(&s.record_keys[start..]));
            for (i, index) in indexes.iter().enumerate() {
                let set = &mut s.sets[n * indexes.len() + i];
                let made = index.keys_of(*doc, set).and_then(|()| fits(index, set, id_bytes, key_max));
                if let Err(e) = made {
                    if refused.last().is_none_or(|(at, _)| *at != n) {
                        refused.push((n, e));
                    }
                    break;
                }
                key_bytes += set.byte_len() + set.len() * id_bytes;
                if index.is_unique() {
                    for key in set.iter() {
                        unique_entry(index, key, &mut s.entry);
                        stripes.push(LockTable::stripe(&s.entry));
                    }
                }
            }
            if key_bytes > CHUNK_KEY_BYTES || (ordered && !refused.is_empty()) {
                usable = n + 1;
                break;
            }
        }
        let _held = self.shared.locks.lock(&mut stripes);
        // One insert at a time, so that documents of a capped collection are seen in the order of their numbers.
        let _in_order = state.capped.then(|| self.capped.inserting.lock());
        let (first_seq, fresh) = self.allocate(s, usable)?;
        let mut pending_ids: FxHashSet<&[u8]> = FxHashSet::default();
        let mut pending_unique: FxHashSet<Vec<u8>> = FxHashSet::default();
        let (mut written, mut written_bytes) = (0i64, 0i64);
        let mut positions = SmallVec::<[usize; 8]>::new();
        let mut start = 0;
        let mut refused = refused.into_iter().peekable();
        for n in 0..usable {
            let (doc, key) = (docs[n], &s.record_keys[start..s.key_ends[n]]);
            let key_start = start;
            start = s.key_ends[n];
            let sets = &s.sets[n * indexes.len()..(n + 1) * indexes.len()];
            let failure = if refused.peek().is_some_and(|(at, _)| *at == n) {
                refused.next().map(|(_, e)| e)
            } else if !fresh[n] {
                if pending_ids.is_empty() {
                    let mut from = 0;
                    for end in &s.key_ends[..n] {
                        pending_ids.insert(&s.record_keys[from..*end]);
                        from = *end;
                    }
                }
                let taken = pending_ids.contains(key) || self.exists(Table::Doc, key)?;
                taken.then(|| duplicate_id(self, doc))
            } else {
                None
            };
            let failure = match failure {
                None if has_unique => self.unique_violation(indexes, sets, &pending_unique, doc, &mut s.entry)?,
                other => other,
            };
            if !pending_ids.is_empty() {
                pending_ids.insert(&s.record_keys[key_start..s.key_ends[n]]);
            }
            if let Some(e) = failure {
                done.errors.push((base + n, e));
                if ordered {
                    break;
                }
                continue;
            }
            s.value.clear();
            record::write(&mut s.value, record::Header { insert_seq: first_seq + n as u64, version: 0 }, doc.as_bytes());
            s.batch.put(Table::Doc, key, &s.value);
            if state.capped {
                s.batch.put(Table::Cap, &capped::order_key(self.ident, first_seq + n as u64), &key[4..]);
            }
            for (index, set) in indexes.iter().zip(sets) {
                put_entries(&mut s.batch, index, set.iter(), &key[4..], &mut s.entry);
                mark_multikey(&mut s.batch, index, set.multikey);
                if index.is_unique() {
                    for k in set.iter() {
                        unique_entry(index, k, &mut s.entry);
                        pending_unique.insert(s.entry.clone());
                    }
                }
            }
            if noted.is_some() {
                positions.push(n);
            }
            written += 1;
            written_bytes += doc.len_bytes() as i64;
        }
        if written > 0 {
            s.batch.add(Table::Meta, &meta::counter(self.ident), [written, written_bytes]);
        }
        if !s.batch.is_empty() {
            let apply = |b: &Batch| self.shared.engine.apply(b, Durability::Buffered).map_err(error::storage);
            done.pos = match noted {
                Some(to) if written > 0 => {
                    let statement = |n: &usize| to.ids.get(base + n).map(|id| (*id, inserted(to.keep, docs[*n])));
                    to.record.write(&mut s.batch, positions.iter().filter_map(statement), apply)?
                }
                _ => apply(&s.batch)?,
            };
            self.add_counts(written, written_bytes);
            done.count += written as usize;
        }
        Ok(usable)
    }

    /// Gives sequence numbers to a chunk and says which of its keys are above every key so far. The caller holds the
    /// keys' locks, so nobody else can be inserting the same key.
    ///
    /// The mark of disorder is written here, before anything in memory says so: it is in the journal before every
    /// document that needs it, and a failure leaves both as they were.
    fn allocate(&self, s: &Scratch, count: usize) -> Result<(u64, SmallVec<[bool; CHUNK_DOCS]>)> {
        let mut order = self.order.lock();
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
        let in_order = self.in_order.load(Ordering::Relaxed);
        if (disorder && in_order) || (!in_order && next > order.reserved) {
            let reserved = next + SEQ_BLOCK;
            let mut mark = Batch::new();
            mark.put(Table::Meta, &meta::unordered(self.ident), &reserved.to_be_bytes());
            self.shared.engine.apply(&mark, Durability::Buffered).map_err(error::storage)?;
            order.reserved = reserved;
            self.in_order.store(false, Ordering::Relaxed);
        }
        if let Some(key) = highest {
            order.max_key.clear();
            order.max_key.extend_from_slice(key);
        }
        order.next_seq = next;
        Ok((first, fresh))
    }

    pub(crate) fn exists(&self, table: Table, key: &[u8]) -> Result<bool> {
        self.shared.engine.get_with(table, key, &mut |_| {}).map_err(error::storage)
    }

    fn unique_violation(
        &self,
        indexes: &[std::sync::Arc<Index>],
        sets: &[KeySet],
        pending: &FxHashSet<Vec<u8>>,
        doc: Doc<'_>,
        entry: &mut Vec<u8>,
    ) -> Result<Option<MongoError>> {
        for (index, set) in indexes.iter().zip(sets).filter(|(i, _)| i.is_unique()) {
            for key in set.iter() {
                unique_entry(index, key, entry);
                if pending.contains(entry) || self.exists(Table::Idx, entry)? {
                    return Ok(Some(duplicate_key(self, index, doc)));
                }
            }
        }
        Ok(None)
    }
}

/// What is remembered of an insert.
fn inserted(keep: Keep, doc: Doc<'_>) -> Effect {
    match keep {
        Keep::Fact => Effect::Inserted,
        Keep::Id => Effect::Upserted(model::doc! { "_id": doc.field("_id") }),
        Keep::Before | Keep::After => Effect::Made(doc.to_buf()),
    }
}

/// Refuses a document whose entry in an index is longer than the engine takes.
///
/// # Errors
/// 17280 KeyTooLong.
pub(crate) fn fits(index: &Index, set: &KeySet, id_bytes: usize, max: usize) -> Result<()> {
    // Ident, end bytes and the length of the id.
    let around = id_bytes + 16;
    if set.byte_len() + around <= max {
        return Ok(());
    }
    match set.iter().map(|k| k.len() + around).max() {
        Some(longest) if longest > max => Err(error::key_too_long(index.name(), longest, max)),
        _ => Ok(()),
    }
}

/// `ident components END`: the whole key of a unique entry.
pub(crate) fn unique_entry(index: &Index, components: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&index.ident().to_be_bytes());
    out.extend_from_slice(components);
    out.push(keys::END);
}

/// The key of an entry of any index for one document.
pub(crate) fn entry_key(index: &Index, components: &[u8], id: &[u8], out: &mut Vec<u8>) {
    if index.is_unique() {
        return unique_entry(index, components, out);
    }
    out.clear();
    out.extend_from_slice(&index.ident().to_be_bytes());
    out.extend_from_slice(components);
    keys::append_id_tail(out, id);
}

/// Puts entries; the value of a unique entry is the id, others have a single zero byte (room for type bits).
pub(crate) fn put_entries<'k>(
    batch: &mut Batch,
    index: &Index,
    components: impl Iterator<Item = &'k [u8]>,
    id: &[u8],
    entry: &mut Vec<u8>,
) {
    for c in components {
        entry_key(index, c, id, entry);
        batch.put(Table::Idx, entry, if index.is_unique() { id } else { &[0] });
    }
}

/// Writes the multikey mark in the same batch as the first array.
pub(crate) fn mark_multikey(batch: &mut Batch, index: &Index, bits: u32) {
    if bits != 0 && index.add_multikey(bits) {
        batch.put(Table::Meta, &meta::multikey(index.ident()), &index.multikey_bits().to_le_bytes());
    }
}

/// E11000 for `_id`.
fn duplicate_id(c: &Collection, doc: Doc<'_>) -> MongoError {
    let id = doc.field("_id");
    if c.options().doc().contains("clusteredIndex") {
        // The key of a clustered collection is shown from its record id, and MongoDB cannot read these values back from one.
        match id.as_f64() {
            Some(n) if n.is_nan() => return MongoError::new(50819, format!("E11000 duplicate key error collection: {}: its key is NaN", c.ns())),
            Some(n) if n.is_infinite() => return MongoError::new(50826, format!("E11000 duplicate key error collection: {}: its key is infinite", c.ns())),
            _ => {}
        }
    }
    duplicate(c, "_id_", &model::doc! { "_id": 1i32 }, &DocBuf::build(|w| {
        w.put("_id", id);
    }))
}

/// E11000 for a secondary index.
pub(crate) fn duplicate_key(c: &Collection, index: &Index, doc: Doc<'_>) -> MongoError {
    let value = DocBuf::build(|w| {
        for f in index.fields() {
            let mut v = Value::Document(doc);
            for p in f.path.parts() {
                v = match v {
                    Value::Document(d) => d.field(&p.name),
                    _ => Value::Missing,
                };
            }
            // An array stands for the element that collided; the first is shown.
            if let Value::Array(a) = v {
                v = a.get(0).unwrap_or(Value::Undefined);
            }
            w.put(f.path.as_str(), if v.is_missing() { Value::Null } else { v });
        }
    });
    duplicate(c, index.name(), &index.key_pattern().to_buf(), &value)
}

fn duplicate(c: &Collection, index: &str, pattern: &DocBuf, value: &DocBuf) -> MongoError {
    MongoError::new(
        code::DUPLICATE_KEY,
        format!("E11000 duplicate key error collection: {} index: {index} dup key: {value:?}", c.ns()),
    )
    .extra(model::doc! { "keyPattern": pattern, "keyValue": value })
}
