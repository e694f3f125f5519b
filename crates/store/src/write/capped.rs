//! What a capped collection writes additionally: the order of its documents, and the deletion of
//! old ones, in the commit of the new ones. Promises: a document never becomes visible after one
//! that was inserted later, so a reader at the end misses none; readers see no more than the limits
//! allow. Must not know: who waits for new documents.

use crate::catalog::capped::{Limits, Oldest};
use crate::catalog::{Collection, Shared, State};
use crate::commit::WriteUnit;
use crate::error;
use crate::format::{meta, record};
use crate::index::KeySet;
use crate::locks::{Held, KeyId, KeyIds};
use crate::view::ReadView;
use crate::view::capped::{order_key, seq_of};
use crate::write::insert::{CHUNK_BYTES, CHUNK_DOCS};
use crate::write::mode::Mode;
use crate::write::modify::{Change, Decided, Filled, Scratch, want_entries};
use model::{Doc, Result};
use std::sync::atomic::Ordering;
use storage::{CursorOpts, KeyRange, RowBatch, Table, WriteBatch};

/// Documents that are read ahead, and about how many bytes of them, so that few inserts have to
/// look for the oldest. Few at first: whoever changes documents makes what was read stale.
const READ_AHEAD_DOCS_FIRST: u64 = 4;
const READ_AHEAD_DOCS: u64 = 256;
const READ_AHEAD_BYTES: u64 = 128 << 10;
/// Most documents that one commit deletes; more than that go in commits behind it.
const DELETED_MAX: usize = 1024;

impl Collection {
    /// Writes the order of all documents. The caller keeps writers out.
    ///
    /// # Errors
    /// Engine failures; a part may be written then, which nobody reads while the collection is not
    /// capped.
    pub(crate) fn write_order(&self) -> Result<()> {
        let engine = &self.shared.engine;
        let (lower, upper) = self.key_bounds();
        let opts = CursorOpts {
            fill_cache: false,
            ..CursorOpts::default()
        };
        let mut cursor = engine
            .cursor(
                Table::Doc,
                KeyRange {
                    lower: &lower,
                    upper: &upper,
                },
                opts,
            )
            .map_err(error::storage)?;
        let mut more = true;
        while more {
            let mut batch = WriteBatch::new();
            let each = &mut |key: &[u8], value: &[u8]| {
                if let (Some((h, _)), Some(id)) = (record::read(value), key.get(4..)) {
                    batch.put(Table::Cap, &order_key(self.ident, h.insert_seq), id);
                }
                true
            };
            more = cursor.visit(1024, each).map_err(error::storage)?;
            self.shared.commit(WriteUnit::new(&batch))?;
        }
        Ok(())
    }

    /// Writes the order of a capped collection that has documents and no order yet.
    pub(crate) fn complete_order(&self) -> Result<()> {
        let mut rows = RowBatch::new();
        self.order_cursor(&ReadView::LATEST, 0, None, false)?
            .next_batch(&mut rows, 1, 1 << 20)
            .map_err(error::storage)?;
        if rows.is_empty() {
            self.write_order()
        } else {
            Ok(())
        }
    }

    /// True when [`Collection::insert`] writes these in one batch: all or none then.
    pub fn inserts_at_once(&self, docs: &[Doc<'_>]) -> bool {
        self.chunk_len(docs) == docs.len()
    }

    /// How many of the documents are inserted by one commit. What comes at once must fit into a
    /// capped collection.
    pub(super) fn chunk_len(&self, docs: &[Doc<'_>]) -> usize {
        let limits = self.state().capped;
        let most_docs = limits.and_then(|l| l.docs).map_or(CHUNK_DOCS, |d| {
            usize::try_from(d).map_or(CHUNK_DOCS, |d| d.min(CHUNK_DOCS))
        });
        let most_bytes = limits.map_or(u64::MAX, |l| l.bytes);
        let (mut len, mut bytes) = (0, 0);
        while len < docs.len().min(most_docs) && bytes < CHUNK_BYTES {
            bytes += docs[len].len_bytes();
            if len > 0 && bytes as u64 > most_bytes {
                break;
            }
            len += 1;
        }
        len
    }

    /// Deletes the oldest documents of a capped collection until its limits hold: after its options
    /// have changed, and when one insert had to displace very many.
    ///
    /// # Cost
    /// Two comparisons when nothing has to be deleted.
    ///
    /// # Errors
    /// 175 when the collection is gone; engine failures.
    pub fn trim(&self) -> Result<()> {
        let over = |l: Limits| l.are_exceeded(self.count(), self.size_bytes());
        while self.state().capped.is_some_and(over) {
            let mode = &mut Mode::Direct;
            let inside = mode.enter(self, 0)?;
            let state = inside.state();
            let Some(limits) = state.capped else {
                return Ok(());
            };
            let mut oldest = self.capped.oldest_docs.lock();
            let nothing = (KeyIds::new(), (0, 0));
            let (_held, most) = self.lock_and_read(state, Some(&mut oldest), nothing, mode)?;
            let mut s = Scratch::default();
            let filled = self.delete_oldest(state, &oldest, most, (limits, (0, 0)), &mut s)?;
            if filled.docs == 0 {
                return Ok(());
            }
            self.shared.hooks.check_write(&self.ns)?;
            // On a full device what frees space must pass.
            s.batch.set_shrinks();
            let counter = [filled.docs, filled.bytes];
            s.batch
                .add(Table::Meta, &meta::counter(self.ident), counter);
            let committed = self.commit_modify(&mut s, &filled, mode);
            self.went(&mut oldest, &filled, committed.is_ok());
            committed?;
            Shared::admit_later(s.batch.byte_len());
        }
        Ok(())
    }

    /// Locks `keys`; with them, in a capped collection, those of documents that may have to go for
    /// so many documents and bytes, which are read; how many those are.
    pub(super) fn lock_and_read<'s>(
        &'s self,
        state: &State,
        oldest: Option<&mut Oldest>,
        (keys, incoming): (KeyIds, (u64, u64)),
        mode: &Mode<'_, '_>,
    ) -> Result<(Option<Held<'s>>, usize)> {
        let (Some(limits), Some(oldest)) = (state.capped, oldest) else {
            let mut wanted = keys;
            return Ok((mode.lock(&self.shared, &mut wanted)?, 0));
        };
        loop {
            let going = self.read_enough(oldest, limits, incoming)?;
            let mut wanted = keys.clone();
            wanted.extend(oldest.left().take(going).map(|d| KeyId::of(oldest.key(d))));
            self.want_old_entries(state, oldest, going, &mut wanted)?;
            let held = mode.lock(&self.shared, &mut wanted)?;
            // Writers count their changes before they let go of their locks.
            if going == 0 || oldest.changes == self.capped.changes.load(Ordering::Acquire) {
                return Ok((held, going));
            }
            drop(held);
            oldest.forget();
        }
    }

    /// While a unique index is built, entries of documents that go are locked, too.
    fn want_old_entries(
        &self,
        state: &State,
        oldest: &Oldest,
        going: usize,
        wanted: &mut KeyIds,
    ) -> Result<()> {
        let (mut set, mut entry) = (KeySet::default(), Vec::new());
        let building = state
            .indexes
            .iter()
            .filter(|i| i.is_unique() && !i.is_ready());
        for index in building {
            for doc in oldest.left().take(going) {
                index.keys_of(self.parse(Some(oldest.record(doc)))?.1, &mut set)?;
                want_entries(index, &set, &mut entry, wanted);
            }
        }
        Ok(())
    }

    /// Reads documents until those that are known are enough to make space, or are all there are;
    /// how many have to go.
    fn read_enough(
        &self,
        oldest: &mut Oldest,
        limits: Limits,
        incoming: (u64, u64),
    ) -> Result<usize> {
        loop {
            let (going, is_enough) = self.going(oldest, limits, incoming);
            if is_enough || going >= DELETED_MAX || !self.read_oldest(oldest)? {
                return Ok(going);
            }
        }
    }

    /// How many of the oldest have to go for so many documents and bytes, and whether that is
    /// enough.
    fn going(&self, oldest: &Oldest, limits: Limits, incoming: (u64, u64)) -> (usize, bool) {
        let mut docs = self.count().saturating_add(incoming.0);
        let mut bytes = self.size_bytes().saturating_add(incoming.1);
        let mut going = 0;
        for doc in oldest.left().take(DELETED_MAX) {
            if !limits.are_exceeded(docs, bytes) {
                break;
            }
            docs = docs.saturating_sub(1);
            bytes = bytes.saturating_sub(doc.len);
            going += 1;
        }
        (going, !limits.are_exceeded(docs, bytes))
    }

    /// Reads documents behind those that are known; false when there is none. They stay the oldest:
    /// numbers only grow, and become visible in their order.
    fn read_oldest(&self, oldest: &mut Oldest) -> Result<bool> {
        if oldest.compact() {
            oldest.changes = self.capped.changes.load(Ordering::Acquire);
            let known = self.capped.oldest.load(Ordering::Acquire);
            oldest.next_seq = oldest.next_seq.max(known);
        }
        let average = (self.size_bytes() / self.count().max(1)).max(1);
        oldest.step = (4 * oldest.step).clamp(READ_AHEAD_DOCS_FIRST, READ_AHEAD_DOCS);
        let step = (READ_AHEAD_BYTES / average).clamp(1, oldest.step);
        let mut rows = RowBatch::new();
        let mut cursor = self.order_cursor(&ReadView::LATEST, oldest.next_seq, None, false)?;
        loop {
            cursor
                .next_batch(&mut rows, step as usize, 1 << 20)
                .map_err(error::storage)?;
            let mut keys = Vec::with_capacity(rows.len());
            let mut seqs = Vec::with_capacity(rows.len());
            for (key, id) in rows.iter() {
                seqs.push(seq_of(key)?);
                keys.push(self.key_of(id));
            }
            let Some(last) = seqs.last() else {
                return Ok(false);
            };
            oldest.next_seq = last.saturating_add(1);
            let mut is_any = false;
            let wanted: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let each = &mut |n: usize, value: Option<&[u8]>| {
                let place = seqs.get(n).zip(wanted.get(n)).zip(value);
                // Deleted since its place was read, and perhaps inserted again.
                let read = place.and_then(|(place, v)| Some((place, v, record::read(v)?)));
                if let Some(((seq, key), value, (header, doc))) = read
                    && header.insert_seq == *seq
                {
                    is_any = true;
                    oldest.push(key, value, doc.len_bytes() as u64);
                }
            };
            self.shared
                .engine
                .multi_get(Table::Doc, &wanted, each)
                .map_err(error::storage)?;
            if is_any {
                return Ok(true);
            }
        }
    }

    /// Puts into the batch of an insert what deletes the oldest documents that have to go for so
    /// many documents and bytes, of the first that the caller has locked; into the log of `s` what
    /// is to be logged of them.
    pub(super) fn displace(
        &self,
        state: &State,
        oldest: Option<(&Oldest, usize)>,
        incoming: (u64, u64),
        (s, batch): (&mut Scratch, &mut WriteBatch),
    ) -> Result<Filled> {
        s.log.clear();
        let Some((limits, (oldest, most))) = state.capped.zip(oldest) else {
            return Ok(Filled::default());
        };
        let filled = self.delete_oldest(state, oldest, most, (limits, incoming), s)?;
        batch.append(&s.batch);
        Ok(filled)
    }

    /// Puts into the batch of `s` what deletes the oldest documents, as many as have to go for so
    /// many documents and bytes, of the first `most`, which the caller has locked.
    pub(super) fn delete_oldest(
        &self,
        state: &State,
        oldest: &Oldest,
        most: usize,
        (limits, incoming): (Limits, (u64, u64)),
        s: &mut Scratch,
    ) -> Result<Filled> {
        let going = self.going(oldest, limits, incoming).0.min(most);
        s.old.clear();
        s.old_ends.clear();
        for doc in oldest.left().take(going) {
            s.old.extend_from_slice(oldest.record(doc));
            s.old_ends.push(Some(s.old.len()));
        }
        s.new_keys
            .resize_with(going * state.indexes.len(), KeySet::default);
        let keys: Vec<&[u8]> = oldest.left().take(going).map(|d| oldest.key(d)).collect();
        let changes = (0..going).map(|_| Some(Change::Delete)).collect();
        let decided = Decided {
            changes,
            failure: None,
        };
        let building = state.indexes.iter().any(|i| i.is_unique() && !i.is_ready());
        self.fill_changes(state, s, &keys, decided, building, &Mode::Direct)
    }

    /// After the commit of [`Collection::delete_oldest`].
    pub(super) fn went(&self, oldest: &mut Oldest, filled: &Filled, committed: bool) {
        // What has failed may have been applied all the same.
        if !committed {
            return oldest.forget();
        }
        oldest.gone += filled.deleted.len();
        if let Some(seq) = filled.deleted.last() {
            let behind = seq.saturating_add(1);
            self.capped.oldest.fetch_max(behind, Ordering::AcqRel);
        }
    }
}
