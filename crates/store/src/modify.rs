//! Changing or deleting one stored document: lock, read the latest, decide, write, unlock, all in one place, so that a
//! hot document costs one lock hold of a few microseconds per writer.

use crate::capped;
use crate::collection::{Collection, State};
use crate::error;
use crate::format::{meta, record};
use crate::index::KeySet;
use crate::insert::{duplicate_key, entry_key, fits, mark_multikey, unique_entry};
use crate::locks::{LockTable, StripeId};
use crate::session::{Effect, Keep, Noted};
use crate::store::Shared;
use model::{Doc, Result};
use smallvec::SmallVec;
use std::cell::RefCell;
use storage::{Batch, CommitPos, Durability, Table};

/// What a change is taken to write before it is known; the rest is admitted with the thread's next write.
const WRITE_BYTES: usize = 256;

/// What to do with a document that was just read under its lock.
pub enum Change {
    /// Nothing.
    Keep,
    /// Store these bytes instead; the `_id` is the same.
    Replace(Vec<u8>),
    /// Remove it.
    Delete,
}

/// What became of it.
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

#[derive(Default)]
struct Scratch {
    batch: Batch,
    old: Vec<u8>,
    value: Vec<u8>,
    entry: Vec<u8>,
    old_keys: KeySet,
    new_keys: Vec<KeySet>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::default());
}

impl Collection {
    /// Applies `decide` to the latest state of the document under `record_key`. `decide` may be called again when
    /// another writer came in between.
    ///
    /// # Errors
    /// What `decide` returns; 11000 DuplicateKey; 171 parallel arrays; 175 when the collection is gone; engine failures.
    pub fn modify(&self, record_key: &[u8], decide: &mut dyn FnMut(Doc<'_>) -> Result<Change>) -> Result<Modified> {
        self.modify_noted(record_key, decide, None)
    }

    /// As [`Collection::modify`]; a change is remembered in the session's record, in the same batch.
    ///
    /// # Errors
    /// As [`Collection::modify`].
    pub fn modify_noted(
        &self,
        record_key: &[u8],
        decide: &mut dyn FnMut(Doc<'_>) -> Result<Change>,
        noted: Option<&mut Noted<'_>>,
    ) -> Result<Modified> {
        self.shared.admit(record_key.len() + WRITE_BYTES);
        let state = self.enter()?;
        // A nested call on this thread (there is none today) would find the buffers taken; it gets its own.
        SCRATCH.with(|cell| match cell.try_borrow_mut() {
            Ok(mut s) => self.modify_with(&state, &mut s, record_key, decide, noted),
            Err(_) => self.modify_with(&state, &mut Scratch::default(), record_key, decide, noted),
        })
    }

    fn modify_with(
        &self,
        state: &State,
        s: &mut Scratch,
        key: &[u8],
        decide: &mut dyn FnMut(Doc<'_>) -> Result<Change>,
        noted: Option<&mut Noted<'_>>,
    ) -> Result<Modified> {
        let indexes = state.indexes.as_slice();
        let own: StripeId = LockTable::stripe(key);
        let mut stripes: SmallVec<[StripeId; 8]> = SmallVec::from_slice(&[own]);
        // While a unique index is built, two documents not yet compared may share a key, and its entry may be the other's.
        let building = indexes.iter().any(|i| i.is_unique() && !i.is_ready());
        loop {
            let held = self.shared.locks.lock(&mut stripes);
            if !self.shared.engine.get(Table::Doc, key, &mut s.old).map_err(error::storage)? {
                return Ok(Modified::Absent);
            }
            let (header, old) =
                record::read(&s.old).ok_or_else(|| error::corrupt(&format!("a record of {}", self.ns)))?;
            let new = match decide(old)? {
                Change::Keep => return Ok(Modified::Kept),
                Change::Delete => None,
                Change::Replace(bytes) => Some(bytes),
            };
            s.batch.clear();
            let new_doc = new.as_deref().map(|b| Doc::new(b).ok_or_else(|| error::corrupt("a document to be stored")));
            let new_doc = new_doc.transpose()?;
            s.new_keys.resize_with(indexes.len(), KeySet::default);
            // Unique keys that become ours must be locked too; when one is not, start over with all of them.
            let mut wanted = stripes.clone();
            for (index, keys) in indexes.iter().zip(&mut s.new_keys) {
                match new_doc {
                    Some(d) if !index.sees_same(old, d) => {
                        index.keys_of(d, keys)?;
                        fits(index, keys, key.len(), self.shared.engine.caps().key_bytes_max)?;
                        if index.is_unique() {
                            for k in keys.iter() {
                                unique_entry(index, k, &mut s.entry);
                                wanted.push(LockTable::stripe(&s.entry));
                            }
                        }
                    }
                    _ => {}
                }
            }
            if building {
                for index in indexes.iter().filter(|i| i.is_unique()) {
                    index.keys_of(old, &mut s.old_keys)?;
                    for k in s.old_keys.iter() {
                        unique_entry(index, k, &mut s.entry);
                        wanted.push(LockTable::stripe(&s.entry));
                    }
                }
            }
            wanted.sort_unstable();
            wanted.dedup();
            if wanted != stripes {
                drop(held);
                stripes = wanted;
                continue;
            }
            let id = &key[4..];
            for (index, new_keys) in indexes.iter().zip(&s.new_keys) {
                if new_doc.is_some_and(|d| index.sees_same(old, d)) {
                    continue;
                }
                index.keys_of(old, &mut s.old_keys)?;
                for k in s.old_keys.iter().filter(|k| new_doc.is_none() || !new_keys.contains(k)) {
                    entry_key(index, k, id, &mut s.entry);
                    if building && index.is_unique() {
                        let mut ours = false;
                        let look = &mut |owner: &[u8]| ours = owner == id;
                        self.shared.engine.get_with(Table::Idx, &s.entry, look).map_err(error::storage)?;
                        if !ours {
                            continue;
                        }
                    }
                    s.batch.delete(Table::Idx, &s.entry);
                }
                let Some(d) = new_doc else { continue };
                for k in new_keys.iter().filter(|k| !s.old_keys.contains(k)) {
                    entry_key(index, k, id, &mut s.entry);
                    if index.is_unique() && self.exists(Table::Idx, &s.entry)? {
                        return Err(duplicate_key(self, index, d));
                    }
                    s.batch.put(Table::Idx, &s.entry, if index.is_unique() { id } else { &[0] });
                }
                mark_multikey(&mut s.batch, index, new_keys.multikey);
            }
            let (docs, bytes) = match new_doc {
                Some(d) => {
                    s.value.clear();
                    let header = record::Header { version: self.shared.next_version(), ..header };
                    record::write(&mut s.value, header, d.as_bytes());
                    s.batch.put(Table::Doc, key, &s.value);
                    (0, d.len_bytes() as i64 - old.len_bytes() as i64)
                }
                None => {
                    s.batch.delete(Table::Doc, key);
                    if state.capped {
                        s.batch.delete(Table::Cap, &capped::order_key(self.ident, header.insert_seq));
                    }
                    (-1, -(old.len_bytes() as i64))
                }
            };
            if docs != 0 || bytes != 0 {
                s.batch.add(Table::Meta, &meta::counter(self.ident), [docs, bytes]);
            }
            let apply = |b: &Batch| self.shared.engine.apply(b, Durability::Buffered).map_err(error::storage);
            let pos = match noted {
                Some(to) => {
                    let effect = changed(to.keep, old, new_doc);
                    let statement = to.ids.first().map(|id| (*id, effect));
                    to.record.write(&mut s.batch, statement.into_iter(), apply)?
                }
                None => apply(&s.batch)?,
            };
            self.add_counts(docs, bytes);
            drop(held);
            Shared::owe(s.batch.byte_len().saturating_sub(key.len() + WRITE_BYTES));
            s.batch.shrink(1 << 20);
            return Ok(if new_doc.is_some() { Modified::Replaced(pos) } else { Modified::Deleted(pos) });
        }
    }
}

/// What is remembered of a change.
fn changed(keep: Keep, old: Doc<'_>, new: Option<Doc<'_>>) -> Effect {
    match (keep, new) {
        (Keep::Fact | Keep::Id, Some(_)) => Effect::Updated,
        (Keep::Fact | Keep::Id, None) => Effect::Deleted,
        (Keep::Before, Some(_)) => Effect::UpdatedBefore(old.to_buf()),
        (Keep::After, Some(d)) => Effect::UpdatedAfter(d.to_buf()),
        (Keep::Before | Keep::After, None) => Effect::Removed(old.to_buf()),
    }
}
