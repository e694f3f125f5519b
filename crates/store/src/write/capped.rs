//! Additional writes of a capped collection: the order of its documents, and the deletion of old
//! ones in the commit of the new ones. Promises: a document never becomes visible after one that
//! was inserted later, so a reader at the end misses none; readers never see more than the limits
//! allow. Must not know: who waits for new documents.

use crate::catalog::capped::{Limits, OldestDocuments};
use crate::catalog::{Collection, State};
use crate::commit::WriteUnit;
use crate::error;
use crate::format::record;
use crate::index::KeySet;
use crate::locks::{KeyId, KeyIds, StripeGuard};
use crate::view::ReadView;
use crate::view::capped::{order_key, seq_of};
use crate::write::capped_order::{DELETED_MAX, InsertSize, SharedOrder};
use crate::write::change::Change;
use crate::write::chunk;
use crate::write::mode::Mode;
use crate::write::modify::{ChunkBatch, Decisions, Scratch, want_entries};
use crate::write::reads::WriteReader;
use crate::write::unit::DocumentUnit;
use crate::write::writer::Writer;
use model::Result;
use parking_lot::MutexGuard;
use std::sync::atomic::Ordering;
use storage::{CursorOpts, KeyRange, RowBatch, Table, WriteBatch};

/// Number of documents that are read ahead, so that few inserts have to read the oldest ones. Few
/// at first: a change of a document makes everything that was read ahead stale.
const READ_AHEAD_DOCS_FIRST: u64 = 4;
const READ_AHEAD_DOCS: u64 = 256;
const READ_AHEAD_BYTES: u64 = 128 << 10;

/// How an insert makes room in a capped collection.
pub(super) enum Room<'c> {
    /// The collection is not capped.
    Unlimited,
    /// Only this process writes to it.
    Alone(Displacement<'c>),
    /// Other processes write to it, too.
    Shared(SharedOrder),
}

/// The oldest documents of a capped collection during an insert that may delete some of them.
pub(super) struct Displacement<'c> {
    limits: Limits,
    oldest: MutexGuard<'c, OldestDocuments>,
    /// How many of the oldest are locked.
    locked: usize,
}

impl Collection {
    /// Writes the order entries of all documents. The caller keeps writers out.
    ///
    /// # Errors
    /// Engine failures; part of the order may be written then, which nobody reads while the
    /// collection is not capped.
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

    /// Writes the order of a capped collection that has documents but no order yet.
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
}

impl Writer<'_> {
    /// Deletes the oldest documents of a capped collection until it is within its limits: after its
    /// options have changed, and when one insert had to delete very many.
    ///
    /// # Cost
    /// Two comparisons when nothing has to be deleted.
    ///
    /// # Errors
    /// 175 QueryPlanKilled when the collection is gone; engine failures.
    pub fn trim(&self) -> Result<()> {
        if self.shared.has_joined {
            return self.trim_shared();
        }
        let over = |l: Limits| l.are_exceeded(self.count(), self.size_bytes());
        while self.state().capped.is_some_and(over) {
            let mode = &mut Mode::Direct;
            let inside = mode.enter(self, 0)?;
            let state = inside.state();
            let Some(mut displacement) = self.begin_displacement(state) else {
                return Ok(());
            };
            let nothing = InsertSize::default();
            let _held = self.lock_with_oldest(state, &mut displacement, &[], nothing, mode)?;
            let mut s = Scratch::default();
            let reads = mode.begin(self, &[])?;
            let filled = self.delete_oldest(state, &displacement, nothing, &mut s, &reads)?;
            if filled.docs == 0 {
                return Ok(());
            }
            self.check_write()?;
            // Deletions must be accepted on a full device.
            s.batch.set_shrinks();
            let unit = DocumentUnit::new(*self, state).add_changes(filled.of_unit(&mut s.log));
            let committed = unit.commit(&mut s.batch, mode, reads.into_unit());
            self.end_displacement(&mut displacement, &filled, committed.is_ok());
            if mode.is_outdated(&committed) {
                self.operation.check()?;
                continue;
            }
            committed?;
            self.operation.writes().add_debt(s.batch.byte_len());
        }
        Ok(())
    }

    /// Begins an insert, which may have to make room.
    pub(super) fn begin_room(&self, state: &State) -> Room<'_> {
        match self.shared_order(state) {
            Some(order) => Room::Shared(order),
            None => self
                .begin_displacement(state)
                .map_or(Room::Unlimited, Room::Alone),
        }
    }

    /// Locks the keys of an insert of documents of this size, and what it needs to make room.
    pub(super) fn lock_for_insert<'s>(
        &'s self,
        state: &State,
        room: &mut Room<'_>,
        keys: &mut KeyIds,
        incoming: InsertSize,
        mode: &Mode<'_, '_>,
    ) -> Result<Option<StripeGuard<'s>>> {
        match room {
            Room::Unlimited => {}
            Room::Alone(d) => return self.lock_with_oldest(state, d, keys, incoming, mode),
            Room::Shared(_) => keys.push(self.order_lock()),
        }
        mode.lock(self, keys)
    }

    /// Adds the deletion of old documents to the batch of `s`, for new ones of this size.
    /// `None` for a collection without limits.
    pub(super) fn delete_for_insert(
        &self,
        state: &State,
        room: &mut Room<'_>,
        incoming: InsertSize,
        s: &mut chunk::Scratch,
        reads: &WriteReader<'_>,
    ) -> Result<Option<ChunkBatch>> {
        Ok(match room {
            Room::Unlimited => None,
            Room::Alone(d) => {
                let old = self.delete_oldest(state, d, incoming, &mut s.old, reads)?;
                s.batch.append(&s.old.batch);
                Some(old)
            }
            Room::Shared(order) => {
                order.add(incoming);
                Some(self.make_room(state, order, &mut s.old, reads, &mut s.batch)?)
            }
        })
    }

    /// Records what an insert has deleted, after its commit.
    pub(super) fn end_room(&self, room: &mut Room<'_>, old: Option<&ChunkBatch>, committed: bool) {
        match (room, old) {
            (Room::Alone(d), Some(old)) => self.end_displacement(d, old, committed),
            (Room::Shared(order), _) => self.end_shared_order(order, committed),
            _ => {}
        }
    }

    /// Begins to make room in a capped collection. Only one insert at a time does, so that
    /// documents become visible in the order of their numbers.
    fn begin_displacement(&self, state: &State) -> Option<Displacement<'_>> {
        Some(Displacement {
            limits: state.capped?,
            oldest: self.capped.oldest_docs.lock(),
            locked: 0,
        })
    }

    /// Reads the documents that may have to be deleted, and locks their keys together with `keys`.
    fn lock_with_oldest<'s>(
        &'s self,
        state: &State,
        displacement: &mut Displacement<'_>,
        keys: &[KeyId],
        incoming: InsertSize,
        mode: &Mode<'_, '_>,
    ) -> Result<Option<StripeGuard<'s>>> {
        loop {
            let number = self.read_enough(displacement, incoming)?;
            let oldest = &mut *displacement.oldest;
            let mut wanted = KeyIds::from_slice(keys);
            wanted.extend(
                oldest
                    .live_entries()
                    .take(number)
                    .map(|d| KeyId::of(oldest.key(d))),
            );
            self.want_old_entries(state, oldest, number, &mut wanted)?;
            let held = mode.lock(self, &mut wanted)?;
            // Writers count their changes before they release their locks.
            if number == 0 || oldest.changes == self.capped.changes.load(Ordering::Acquire) {
                displacement.locked = number;
                return Ok(held);
            }
            drop(held);
            oldest.forget();
        }
    }

    /// While a unique index is built, the entries of deleted documents are locked, too.
    fn want_old_entries(
        &self,
        state: &State,
        oldest: &OldestDocuments,
        number: usize,
        wanted: &mut KeyIds,
    ) -> Result<()> {
        let (mut set, mut entry) = (KeySet::default(), Vec::new());
        let building = state
            .indexes
            .iter()
            .filter(|i| i.is_unique() && !i.is_ready());
        for index in building {
            for doc in oldest.live_entries().take(number) {
                index.keys_of(self.parse(Some(oldest.record(doc)))?.1, &mut set)?;
                want_entries(index, &set, &mut entry, wanted);
            }
        }
        Ok(())
    }

    /// Reads old documents until deleting the known ones makes enough room, or there are no more.
    ///
    /// # Output
    /// How many documents have to be deleted.
    fn read_enough(
        &self,
        displacement: &mut Displacement<'_>,
        incoming: InsertSize,
    ) -> Result<usize> {
        loop {
            let (number, is_enough) = self.count_displaced(displacement, incoming);
            if is_enough || number >= DELETED_MAX || !self.read_oldest(&mut displacement.oldest)? {
                return Ok(number);
            }
        }
    }

    /// How many of the oldest documents have to be deleted, and whether that makes enough room.
    fn count_displaced(
        &self,
        displacement: &Displacement<'_>,
        incoming: InsertSize,
    ) -> (usize, bool) {
        let (limits, oldest) = (displacement.limits, &displacement.oldest);
        let mut docs = self.count().saturating_add(incoming.docs);
        let mut bytes = self.size_bytes().saturating_add(incoming.bytes);
        let mut number = 0;
        for doc in oldest.live_entries().take(DELETED_MAX) {
            if !limits.are_exceeded(docs, bytes) {
                break;
            }
            docs = docs.saturating_sub(1);
            bytes = bytes.saturating_sub(doc.len);
            number += 1;
        }
        (number, !limits.are_exceeded(docs, bytes))
    }

    /// Reads documents after the known ones; false when there are none. The known ones remain the
    /// oldest: numbers only grow, and become visible in their order.
    fn read_oldest(&self, oldest: &mut OldestDocuments) -> Result<bool> {
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
                // The document may have been deleted since its place was read, and inserted again.
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

    /// Adds to the batch of `s` the deletion of the oldest documents, as many as have to be deleted
    /// and are locked, and their log entries to its list.
    fn delete_oldest(
        &self,
        state: &State,
        displacement: &Displacement<'_>,
        incoming: InsertSize,
        s: &mut Scratch,
        reads: &WriteReader<'_>,
    ) -> Result<ChunkBatch> {
        let oldest = &displacement.oldest;
        let number = self
            .count_displaced(displacement, incoming)
            .0
            .min(displacement.locked);
        s.old.clear();
        s.old_ends.clear();
        for doc in oldest.live_entries().take(number) {
            s.old.extend_from_slice(oldest.record(doc));
            s.old_ends.push(Some(s.old.len()));
        }
        s.new_keys
            .resize_with(number * state.indexes.len(), KeySet::default);
        let keys: Vec<&[u8]> = oldest
            .live_entries()
            .take(number)
            .map(|d| oldest.key(d))
            .collect();
        let changes = (0..number).map(|_| Some(Change::Delete)).collect();
        let decided = Decisions {
            changes,
            failure: None,
        };
        self.fill_changes(state, s, &keys, decided, &Mode::Direct, reads)
    }

    /// Records which documents were deleted, after the commit that deletes them.
    fn end_displacement(
        &self,
        displacement: &mut Displacement<'_>,
        filled: &ChunkBatch,
        committed: bool,
    ) {
        // A failed commit may have been applied.
        if !committed {
            return displacement.oldest.forget();
        }
        displacement.oldest.gone += filled.deleted.len();
        if let Some(seq) = filled.deleted.last() {
            let behind = seq.saturating_add(1);
            self.capped.oldest.fetch_max(behind, Ordering::AcqRel);
        }
    }
}
