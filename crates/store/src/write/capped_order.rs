//! The order of a capped collection to which several processes write. Every commit that changes the
//! number, the sizes or the order of its documents reads and writes one row (`format::order`)
//! through its unit, so no two of them run side by side unnoticed. What is read of the collection
//! after the beginning of the unit is proven by that: when the row has not changed until the
//! commit, nothing else has. Promises: numbers grow in the order in which documents become
//! visible. Must not know: who waits for new documents.

use crate::catalog::State;
use crate::catalog::capped::Limits;
use crate::error;
use crate::format::meta;
use crate::format::order::OrderEnd;
use crate::format::record;
use crate::index::KeySet;
use crate::locks::{KeyId, KeyIds};
use crate::view::ReadView;
use crate::view::capped::{order_key, seq_of};
use crate::write::change::Change;
use crate::write::mode::Mode;
use crate::write::modify::{ChunkBatch, Decisions, Scratch};
use crate::write::reads::WriteReader;
use crate::write::unit::DocumentUnit;
use crate::write::writer::Writer;
use model::{Doc, Result, bail, code};
use std::sync::atomic::Ordering;
use storage::{CursorOpts, KeyRange, Reader, RowBatch, Table, Unit, WriteBatch};

/// Number of entries of the order that are read at once; few at first, because mostly few documents
/// go for those that come.
const FIRST_STEP: usize = 8;
const STEP: usize = 256;

/// Most documents that one commit deletes; further ones are deleted by later commits.
pub(super) const DELETED_MAX: usize = 1024;

/// Documents that are about to be inserted.
#[derive(Clone, Copy, Default)]
pub(super) struct InsertSize {
    /// How many.
    pub(super) docs: u64,
    /// Bytes of their BSON.
    pub(super) bytes: u64,
    /// The number of the last one, as far as it is known.
    pub(super) last: u64,
}

impl InsertSize {
    pub(super) fn of<'d>(docs: impl Iterator<Item = &'d Doc<'d>>) -> InsertSize {
        docs.fold(InsertSize::default(), |sum, doc| InsertSize {
            docs: sum.docs + 1,
            bytes: sum.bytes + doc.len_bytes() as u64,
            ..sum
        })
    }

    /// With the number of the last document.
    pub(super) fn up_to(self, last: u64) -> InsertSize {
        InsertSize { last, ..self }
    }
}

/// The order of a capped collection during a write that changes it.
pub(super) struct SharedOrder {
    limits: Limits,
    /// As the unit has read it; `None` before the unit began.
    end: Option<OrderEnd>,
}

impl SharedOrder {
    /// The last number that a document has got.
    pub(super) fn last(&self) -> u64 {
        self.end.map_or(0, |end| end.last)
    }

    /// Adds documents that are inserted.
    pub(super) fn add(&mut self, new: InsertSize) {
        if let Some(end) = &mut self.end {
            end.docs = end.docs.saturating_add(new.docs);
            end.bytes = end.bytes.saturating_add(new.bytes);
            end.last = end.last.max(new.last);
        }
    }

    /// Adds changes and deletions of documents.
    fn change(&mut self, filled: &ChunkBatch) {
        if let Some(end) = &mut self.end {
            *end = end.changed(filled.docs, filled.bytes);
        }
    }

    /// Whether the collection is within its limits.
    fn is_within(&self) -> bool {
        let over = |end: OrderEnd| self.limits.are_exceeded(end.docs, end.bytes);
        !self.end.is_some_and(over)
    }
}

impl Writer<'_> {
    /// Begins a write that changes the order; `None` for a collection without one, and where one
    /// process writes.
    pub(super) fn shared_order(&self, state: &State) -> Option<SharedOrder> {
        let limits = state.capped.filter(|_| self.shared.has_joined)?;
        Some(SharedOrder { limits, end: None })
    }

    /// What the writers of this process lock so that they do not conflict with one another.
    pub(super) fn order_lock(&self) -> KeyId {
        KeyId::of(&meta::order_end(self.ident))
    }

    /// Reads the row through the unit.
    pub(super) fn read_order(
        &self,
        order: &mut SharedOrder,
        reads: &WriteReader<'_>,
    ) -> Result<()> {
        let mut row = Vec::new();
        reads.get(Table::Meta, &meta::order_end(self.ident), &mut row)?;
        let stored = OrderEnd::decode(&row);
        let is_known = self.shared.known_orders.lock().contains(&self.ident);
        order.end = Some(match stored.filter(|_| is_known) {
            Some(end) => end,
            // A process that wrote alone does not keep the row.
            None => self.find_order_end(stored.unwrap_or_default())?,
        });
        Ok(())
    }

    /// The end of the order as the data have it.
    fn find_order_end(&self, stored: OrderEnd) -> Result<OrderEnd> {
        let mut rows = RowBatch::new();
        self.order_cursor(&ReadView::LATEST, 0, None, true)?
            .next_batch(&mut rows, 1, 1 << 20)
            .map_err(error::storage)?;
        let newest = rows.iter().next().map(|(key, _)| seq_of(key)).transpose()?;
        let (docs, bytes) = self.stored_counts(self.shared.engine.as_ref())?;
        Ok(OrderEnd {
            last: stored.last.max(newest.unwrap_or(0)),
            docs,
            bytes,
            ..stored
        })
    }

    /// Adds to `batch` that documents are changed or deleted, if that changes the order.
    pub(super) fn put_order_change(
        &self,
        state: &State,
        filled: &ChunkBatch,
        reads: &WriteReader<'_>,
        batch: &mut WriteBatch,
    ) -> Result<()> {
        if (filled.docs, filled.bytes) == (0, 0) {
            return Ok(());
        }
        if let Some(mut order) = self.shared_order(state) {
            self.read_order(&mut order, reads)?;
            order.change(filled);
            self.put_order(&order, batch);
        }
        Ok(())
    }

    /// Adds to `batch` the deletion of the oldest documents, as many as have to go, and the row of
    /// the order. The deletion and its log entries are in `s`, too.
    pub(super) fn make_room(
        &self,
        state: &State,
        order: &mut SharedOrder,
        s: &mut Scratch,
        reads: &WriteReader<'_>,
        batch: &mut WriteBatch,
    ) -> Result<ChunkBatch> {
        let keys = self.read_displaced(order, s, reads)?;
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        s.new_keys
            .resize_with(keys.len() * state.indexes.len(), KeySet::default);
        let decided = Decisions {
            changes: keys.iter().map(|_| Some(Change::Delete)).collect(),
            failure: None,
        };
        let filled = self.fill_changes(state, s, &keys, decided, &Mode::Direct, reads)?;
        batch.append(&s.batch);
        order.change(&filled);
        if let (Some(end), Some(seq)) = (&mut order.end, filled.deleted.last()) {
            // The oldest ones are deleted, in the order of their numbers.
            end.first = end.first.max(seq.saturating_add(1));
        }
        self.put_order(order, batch);
        Ok(filled)
    }

    fn put_order(&self, order: &SharedOrder, batch: &mut WriteBatch) {
        let end = order.end.unwrap_or_default();
        batch.put(Table::Meta, &meta::order_end(self.ident), &end.encode());
    }

    /// Documents that one commit deletes at most, with as many that it inserts.
    fn displaced_max(&self) -> usize {
        DELETED_MAX.min(self.commit_docs_max(&self.state()) / 2)
    }

    /// Reads the records of the oldest documents that have to go into `s`; returns their keys.
    fn read_displaced(
        &self,
        order: &SharedOrder,
        s: &mut Scratch,
        reads: &WriteReader<'_>,
    ) -> Result<Vec<Vec<u8>>> {
        s.old.clear();
        s.old_ends.clear();
        let (mut gone, end) = (Vec::new(), order.end.unwrap_or_default());
        let (mut docs, mut bytes) = (end.docs, end.bytes);
        if !order.limits.are_exceeded(docs, bytes) {
            return Ok(gone);
        }
        let mut cursor = self.order_cursor(&ReadView::LATEST, end.first, None, false)?;
        let mut rows = RowBatch::new();
        let mut step = FIRST_STEP;
        let most = self.displaced_max();
        while order.limits.are_exceeded(docs, bytes) && gone.len() < most {
            cursor
                .next_batch(&mut rows, step, 1 << 20)
                .map_err(error::storage)?;
            step = STEP;
            let mut found = Vec::with_capacity(rows.len());
            for (key, id) in rows.iter() {
                found.push((seq_of(key)?, self.key_of(id)));
            }
            if found.is_empty() {
                break;
            }
            let wanted: Vec<&[u8]> = found.iter().map(|(_, key)| key.as_slice()).collect();
            reads.multi_get(Table::Doc, &wanted, &mut |n, value| {
                let place = found.get(n).zip(value);
                let read = place.and_then(|(place, v)| Some((place, v, record::read(v)?)));
                // What is not there has been changed by another process: the commit will fail.
                if let Some(((seq, key), value, (header, doc))) = read
                    && header.insert_seq == *seq
                    && order.limits.are_exceeded(docs, bytes)
                    && gone.len() < most
                {
                    docs = docs.saturating_sub(1);
                    bytes = bytes.saturating_sub(doc.len_bytes() as u64);
                    s.old.extend_from_slice(value);
                    s.old_ends.push(Some(s.old.len()));
                    gone.push(key.clone());
                }
            })?;
        }
        Ok(gone)
    }

    /// Adds to `batch` the order of all documents, for a collection that becomes capped by the
    /// commit of this exclusive unit.
    ///
    /// # Errors
    /// 115 when there are too many documents for one commit; engine failures.
    pub(crate) fn put_whole_order(&self, unit: &Unit<'_>, batch: &mut WriteBatch) -> Result<()> {
        let (lower, upper) = self.key_bounds();
        let opts = CursorOpts {
            fill_cache: false,
            ..CursorOpts::default()
        };
        let range = KeyRange::new(&lower, &upper);
        let mut cursor = unit
            .cursor(Table::Doc, range, opts)
            .map_err(error::storage)?;
        let bytes_max = self.shared.engine.caps().batch_bytes_max / 2;
        let (mut end, mut more) = (OrderEnd::default(), true);
        while more {
            let each = &mut |key: &[u8], value: &[u8]| {
                if let (Some((header, doc)), Some(id)) = (record::read(value), key.get(4..)) {
                    batch.put(Table::Cap, &order_key(self.ident, header.insert_seq), id);
                    end = end.changed(1, doc.len_bytes() as i64);
                    end.last = end.last.max(header.insert_seq);
                }
                true
            };
            more = cursor.visit(1024, each).map_err(error::storage)?;
            if batch.byte_len() > bytes_max {
                bail!(
                    code::COMMAND_NOT_SUPPORTED,
                    "{} has too many documents to become capped while several servers write to it",
                    self.ns
                );
            }
        }
        batch.put(Table::Meta, &meta::order_end(self.ident), &end.encode());
        Ok(())
    }

    /// Records what a write to the order has left. Called after its commit.
    pub(super) fn end_shared_order(&self, order: &SharedOrder, is_committed: bool) {
        if is_committed {
            self.shared.known_orders.lock().insert(self.ident);
            let within = &self.capped.is_within;
            within.store(order.is_within(), Ordering::Release);
        }
    }

    /// See [`Writer::trim`].
    pub(super) fn trim_shared(&self) -> Result<()> {
        while self.is_capped() && !self.capped.is_within.load(Ordering::Acquire) {
            let mode = &mut Mode::Direct;
            let inside = mode.enter(self, 0)?;
            let state = inside.state();
            let Some(mut order) = self.shared_order(state) else {
                return Ok(());
            };
            let _held = mode.lock(self, &mut KeyIds::from_slice(&[self.order_lock()]))?;
            let reads = mode.begin(self, &[])?;
            self.read_order(&mut order, &reads)?;
            if order.is_within() {
                self.capped.is_within.store(true, Ordering::Release);
                return Ok(());
            }
            let (mut s, mut batch) = (Scratch::default(), WriteBatch::new());
            let filled = self.make_room(state, &mut order, &mut s, &reads, &mut batch)?;
            self.check_write()?;
            // Deletions must be accepted on a full device.
            batch.set_shrinks();
            let unit = DocumentUnit::new(*self, state).add_changes(filled.of_unit(&mut s.log));
            let committed = unit.commit(&mut batch, mode, reads.into_unit());
            self.end_shared_order(&order, committed.is_ok());
            if mode.is_outdated(&committed) {
                self.operation.check()?;
                continue;
            }
            committed?;
            self.operation.writes().add_debt(batch.byte_len());
            if filled.docs == 0 {
                // The order has no entry of a document.
                return Ok(());
            }
        }
        Ok(())
    }
}
