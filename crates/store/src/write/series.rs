//! Inserts into time-series collections. A measurement is put as a row into the open bucket of its
//! metadata; when a bucket is closed, the last writer that leaves it packs its rows into columns,
//! with other closed buckets in one commit. The head of a bucket, its mark as an open one and its
//! index entries are committed before the first measurement that needs them. Must not know: who
//! inserts.
//!
//! After a crash a bucket is in the state of some commit: with a head and rows, or packed. Buckets
//! that were open are found by their marks and packed by later inserts.

use crate::catalog::State;
use crate::catalog::buckets::{NewMeasurement, OpenList, count};
use crate::commit::WriteUnit;
use crate::error;
use crate::format::bucket::{self, BucketKey, KEY_LEN};
use crate::format::{meta, record};
use crate::index::{Index, KeySet};
use crate::view::ReadView;
use crate::view::bucket_facts::{index_document, indexes_buckets};
use crate::view::buckets::StoredBucket;
use crate::write::entries::{check_length, put_entries};
use crate::write::insert::{InsertOutcome, SEQ_BLOCK};
use crate::write::mode::Mode;
use crate::write::reads::WriteReader;
use crate::write::unit::{DocumentUnit, NewDocuments};
use crate::write::writer::Writer;
use model::bucket::SeriesOptions;
use model::{Doc, DocBuf, MongoError, Result, Value, code};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;
use std::sync::Arc;
use storage::{CommitPos, CursorOpts, KeyRange, Table, Unit, WriteBatch};

/// Measurements of one commit, and their bytes.
const CHUNK_DOCS: usize = 1024;
const CHUNK_BYTES: usize = 1 << 20;
/// Buckets left open by an earlier run that one insert packs.
const LEFT_OPEN: usize = 16;

/// The buckets of a chunk's measurements.
pub(super) struct BucketAssignment {
    /// The bucket of each measurement, by position; measurements after the end are not written.
    pub(super) keys: Vec<BucketKey>,
    /// Those that were opened for the chunk, and their rows.
    pub(super) opened: Vec<BucketKey>,
    pub(super) heads: BucketBatch,
    /// Sequence number of the first measurement.
    pub(super) first_seq: u64,
    /// Why the measurement after them is refused.
    pub(super) refused: Option<MongoError>,
}

/// Rows of buckets and their index entries.
#[derive(Default)]
pub(super) struct BucketBatch {
    pub(super) rows: WriteBatch,
    set: KeySet,
    /// The marks that the entries need.
    marks: Vec<(Arc<Index>, u32)>,
}

impl BucketBatch {
    /// The same rows again, for a commit that may have to be repeated.
    pub(super) fn copy(&self) -> BucketBatch {
        let mut rows = WriteBatch::new();
        rows.append(&self.rows);
        BucketBatch {
            rows,
            set: KeySet::default(),
            marks: self.marks.clone(),
        }
    }
}

impl Writer<'_> {
    /// Inserts measurements, each of which has its time.
    pub(super) fn insert_measurements(
        &self,
        docs: &[Doc<'_>],
        ordered: bool,
        mode: &mut Mode<'_, '_>,
        done: &mut InsertOutcome,
        on_progress: &dyn Fn(),
    ) -> Result<()> {
        if mode.is_transaction() {
            return Err(MongoError::new(
                code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
                format!(
                    "Cannot insert into a time-series collection in a multi-document \
                        transaction: {}",
                    self.ns
                ),
            ));
        }
        let mut at = 0;
        while at < docs.len() {
            let (mut end, mut bytes) = (at, 0);
            let most = CHUNK_DOCS.min(self.commit_docs_max(&self.state()));
            while end < docs.len() && end - at < most && (end == at || bytes < CHUNK_BYTES) {
                bytes += docs[end].len_bytes();
                end += 1;
            }
            let inside = mode.enter(self, bytes)?;
            let before = done.errors.len();
            at += self.insert_chunk_of(inside.state(), &docs[at..end], at, mode, done)?;
            if done.errors.len() > before {
                if ordered {
                    break;
                }
                at += 1;
            }
            done.seen = at;
            on_progress();
        }
        Ok(())
    }

    /// Inserts the measurements of a chunk up to the first that is refused; returns their number.
    fn insert_chunk_of(
        &self,
        state: &State,
        docs: &[Doc<'_>],
        base: usize,
        mode: &mut Mode<'_, '_>,
        done: &mut InsertOutcome,
    ) -> Result<usize> {
        let options = state
            .series
            .clone()
            .ok_or_else(|| error::corrupt("the options of a time-series collection"))?;
        let (places, committed) = match self.shared.has_joined {
            true => self.insert_beside_others(state, &options, docs, base, mode)?,
            false => {
                let first_seq = self.allocate_sequences(docs.len())?;
                let places = self.give_places(state, &options, docs, first_seq)?;
                let committed = self.put_measurements(state, docs, &places, base, mode);
                (places, committed)
            }
        };
        let docs = &docs[..places.keys.len()];
        let mut open = self.buckets.lock();
        places.keys.iter().for_each(|key| open.leave(*key));
        let ready = std::mem::take(&mut open.packable);
        drop(open);
        // A failure to pack is ignored: the measurements are written, and the next insert packs the
        // bucket.
        drop(self.pack_some(state, ready));
        done.pos = committed?;
        done.count += docs.len();
        if let Some(e) = places.refused {
            done.errors.push((base + docs.len(), e));
        }
        Ok(docs.len())
    }

    /// Packs buckets without writers; when there are very many, some are left for the next insert.
    fn pack_some(&self, state: &State, mut ready: Vec<BucketKey>) -> Result<()> {
        let number = ready.len().min(LEFT_OPEN.max(ready.len() / 8));
        let mut some = ready.split_off(ready.len() - number);
        let packed = self.pack_all(state, &mut some, &|| Ok(()));
        ready.append(&mut some);
        if !ready.is_empty() {
            self.buckets.lock().packable.append(&mut ready);
        }
        packed
    }

    /// Packs buckets without writers; those that were not packed remain in the list.
    fn pack_all(
        &self,
        state: &State,
        ready: &mut Vec<BucketKey>,
        go_on: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        while !ready.is_empty() {
            go_on()?;
            let packed = self.pack_last(state, ready)?;
            ready.truncate(ready.len() - packed);
        }
        Ok(())
    }

    /// Assigns sequence numbers to a chunk. A collection of buckets is not in the order of its ids,
    /// so the numbers are reserved on disk in blocks.
    pub(super) fn allocate_sequences(&self, number: usize) -> Result<u64> {
        if self.shared.has_joined
            && let Some(first) = self.shared.engine.number_rows(number)
        {
            return Ok(first);
        }
        let mut order = self.live.order();
        let first = order.next_seq;
        let next = first + number as u64;
        if self.live.is_in_order() || next > order.reserved {
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
            self.commit(WriteUnit::new(&mark).add_hook(marked))?;
        }
        order.next_seq = next;
        Ok(first)
    }

    /// Finds or opens the buckets of a chunk's measurements. The heads of new buckets are on disk
    /// when this returns.
    fn give_places(
        &self,
        state: &State,
        options: &SeriesOptions,
        docs: &[Doc<'_>],
        first_seq: u64,
    ) -> Result<BucketAssignment> {
        let mut open = self.buckets.lock();
        if !open.loaded {
            self.load_left_open(&mut open)?;
        }
        let places = self.choose_places(&mut open, state, options, docs, first_seq)?;
        let heads = &places.heads;
        let marks = &mut heads.marks.iter();
        let marked = marks.try_for_each(|(index, bits)| self.mark_multikey(index, *bits));
        let put = marked.and_then(|()| match heads.rows.is_empty() {
            true => Ok(()),
            false => self.commit(WriteUnit::new(&heads.rows)).map(|_| ()),
        });
        if let Err(e) = put {
            // None of the buckets that were opened here is on disk.
            places.keys.iter().for_each(|key| open.leave(*key));
            open.close_all();
            return Err(e);
        }
        Ok(places)
    }

    /// As [`Writer::give_places`]; the heads of new buckets are not on disk yet.
    pub(super) fn choose_places(
        &self,
        open: &mut OpenList,
        state: &State,
        options: &SeriesOptions,
        docs: &[Doc<'_>],
        first_seq: u64,
    ) -> Result<BucketAssignment> {
        let counts = &self.buckets.counts;
        let mut places = BucketAssignment {
            keys: Vec::with_capacity(docs.len()),
            opened: Vec::new(),
            heads: BucketBatch::default(),
            first_seq,
            refused: None,
        };
        let mut known: FxHashSet<BucketKey> = FxHashSet::default();
        for (n, doc) in docs.iter().enumerate() {
            // Indexes that lead to buckets are checked where the head is put.
            let mut others = state
                .indexes
                .iter()
                .filter(|i| !indexes_buckets(i, options));
            if let Err(e) = others.try_for_each(|i| i.check_measurement(*doc)) {
                places.refused = Some(e);
                break;
            }
            let time_ms = options.time_of(*doc);
            let meta = options.meta_of(*doc);
            let meta_bytes = DocBuf::build(|w| _ = w.put("", meta));
            let wanted = NewMeasurement {
                time_ms,
                bytes: doc.len_bytes(),
                meta: meta_bytes.as_bytes(),
                span_ms: options.span_ms,
            };
            let key = match open.place(&wanted, counts) {
                Some(key) => {
                    if known.insert(key) {
                        count(&counts.updates);
                    }
                    key
                }
                None => {
                    let start = options.start_of(time_ms);
                    let key = self.free_key(start, first_seq + n as u64)?;
                    let put = self.put_head(state, options, &key, meta, &mut places.heads);
                    if let Err(e) = put {
                        places.refused = Some(e);
                        break;
                    }
                    count(&counts.inserts);
                    known.insert(key);
                    places.opened.push(key);
                    open.open(&wanted, key, counts);
                    key
                }
            };
            open.enter(key);
            places.keys.push(key);
        }
        Ok(places)
    }

    /// A bucket key that is not in use.
    pub(super) fn free_key(&self, start_ms: i64, seq: u64) -> Result<BucketKey> {
        let mut rest = seq;
        loop {
            let key = bucket::key(self.ident, start_ms, rest.to_be_bytes());
            let engine = &self.shared.engine;
            let taken = engine.get_with(Table::Doc, &key, &mut |_| {});
            if !taken.map_err(error::storage)? {
                return Ok(key);
            }
            // A restored bucket has the number of this measurement.
            rest = rest.wrapping_add(1 << 48);
        }
    }

    /// Puts the head, the mark and the index entries of a new bucket.
    fn put_head(
        &self,
        state: &State,
        options: &SeriesOptions,
        key: &BucketKey,
        meta: Value<'_>,
        heads: &mut BucketBatch,
    ) -> Result<()> {
        let before = heads.rows.mark();
        let put = self.put_bucket_entries(state, options, key, meta, heads);
        let batch = &mut heads.rows;
        if let Err(e) = put {
            batch.rollback_to(before);
            return Err(e);
        }
        let mut head = Vec::new();
        bucket::write_open(&mut head, meta);
        batch.put(Table::Doc, key, &head);
        batch.put(Table::Cap, key, &[]);
        let added = [1, head.len() as i64];
        batch.add(Table::Meta, &meta::buckets(self.ident), added);
        Ok(())
    }

    /// Puts the index entries of a bucket, and notes the marks that they need.
    pub(super) fn put_bucket_entries(
        &self,
        state: &State,
        options: &SeriesOptions,
        key: &BucketKey,
        meta: Value<'_>,
        to: &mut BucketBatch,
    ) -> Result<()> {
        let BucketBatch { rows, set, marks } = to;
        let doc = index_document(options, bucket::start_ms(key), meta);
        let key_max = self.shared.engine.caps().key_bytes_max;
        let mut entry = Vec::new();
        for index in state.indexes.iter().filter(|i| indexes_buckets(i, options)) {
            index.keys_of(doc.doc(), set)?;
            check_length(index, set, KEY_LEN, key_max)?;
            if set.multikey & !index.multikey_bits() != 0 {
                marks.push((Arc::clone(index), set.multikey));
            }
            put_entries(rows, index, set.keys(), &key[4..], &mut entry);
        }
        Ok(())
    }

    /// Writes the marks that the index entries of buckets need: before their commit, or with it
    /// where other processes write, too.
    pub(super) fn put_marks(&self, of: &mut BucketBatch, reads: &WriteReader<'_>) -> Result<()> {
        let marks = std::mem::take(&mut of.marks);
        let mut put = marks.iter();
        put.try_for_each(|(index, bits)| self.mark_multikey_in(index, *bits, reads, &mut of.rows))
    }

    /// Deletes the index entries of a bucket.
    pub(super) fn delete_bucket_entries(
        &self,
        state: &State,
        options: &SeriesOptions,
        key: &BucketKey,
        meta: Value<'_>,
        from: &mut BucketBatch,
    ) -> Result<()> {
        let BucketBatch { rows, set, .. } = from;
        let doc = index_document(options, bucket::start_ms(key), meta);
        let mut entry = Vec::new();
        for index in state.indexes.iter().filter(|i| indexes_buckets(i, options)) {
            index.keys_of(doc.doc(), set)?;
            for components in set.iter() {
                index.entry_key(components, &key[4..], &mut entry);
                index.note_change(&key[4..]);
                rows.delete(Table::Idx, &entry);
            }
        }
        Ok(())
    }

    fn put_measurements(
        &self,
        state: &State,
        docs: &[Doc<'_>],
        places: &BucketAssignment,
        base: usize,
        mode: &mut Mode<'_, '_>,
    ) -> Result<CommitPos> {
        let docs = &docs[..places.keys.len()];
        if docs.is_empty() {
            return Ok(CommitPos::default());
        }
        let mut batch = WriteBatch::new();
        put_rows(docs, places, &mut batch);
        self.commit_measurements(state, &mut batch, docs, base, mode, None)
    }

    /// Commits a batch with new measurements; `base` is the position of the first in the statement.
    pub(super) fn commit_measurements(
        &self,
        state: &State,
        batch: &mut WriteBatch,
        docs: &[Doc<'_>],
        base: usize,
        mode: &mut Mode<'_, '_>,
        decided_by: Option<Unit<'_>>,
    ) -> Result<CommitPos> {
        let all: SmallVec<[usize; 8]> = (0..docs.len()).collect();
        let new = NewDocuments {
            docs,
            accepted: &all,
            base,
            first_seq: 0,
            record_keys: &[],
            key_ends: &[],
            records_at: &[],
        };
        let unit = DocumentUnit::new(*self, state).add_inserts(new);
        unit.commit(batch, mode, decided_by)
    }

    /// Closes the buckets that an earlier run has left open.
    fn load_left_open(&self, open: &mut OpenList) -> Result<()> {
        let (lower, upper) = self.key_bounds();
        let range = KeyRange {
            lower: &lower,
            upper: &upper,
        };
        let engine = &self.shared.engine;
        let cursor = engine.cursor(Table::Cap, range, CursorOpts::default());
        let mut cursor = cursor.map_err(error::storage)?;
        let each = &mut |key: &[u8], _: &[u8]| {
            open.packable.extend(bucket::of(key));
            true
        };
        while cursor.visit(1024, each).map_err(error::storage)? {}
        open.loaded = true;
        Ok(())
    }

    /// Packs the last of some closed buckets into columns, as many as one commit takes; returns
    /// their number. The caller is inside the gate, and the buckets have no writers.
    fn pack_last(&self, state: &State, closed: &[BucketKey]) -> Result<usize> {
        if self.shared.has_joined {
            let Some(last) = closed.last() else {
                return Ok(0);
            };
            return self.pack_beside_others(state, last).map(|()| 1);
        }
        let options = state
            .series
            .clone()
            .ok_or_else(|| error::corrupt("the options of a time-series collection"))?;
        let mut batch = BucketBatch::default();
        let mut number = 0;
        for key in closed.iter().rev() {
            if let Some(stored) = self.read_bucket(&ReadView::LATEST, key)? {
                self.put_packed(state, &options, key, &stored, &mut batch)?;
            }
            batch.rows.delete(Table::Cap, key);
            number += 1;
            if batch.rows.byte_len() >= CHUNK_BYTES {
                break;
            }
        }
        self.commit(WriteUnit::new(&batch.rows))?;
        Ok(number)
    }

    /// Puts the new state of a bucket: packed, or deleted when it has no measurements.
    pub(super) fn put_packed(
        &self,
        state: &State,
        options: &SeriesOptions,
        key: &BucketKey,
        stored: &StoredBucket,
        to: &mut BucketBatch,
    ) -> Result<()> {
        let batch = &mut to.rows;
        for insert_seq in &stored.rows {
            batch.delete(Table::Doc, &bucket::row_key(key, *insert_seq));
        }
        batch.delete(Table::Cap, key);
        let (meta, before) = (stored.meta.get(), stored.head_bytes as i64);
        let buckets = meta::buckets(self.ident);
        let was_there = i64::from(before > 0);
        if stored.measurements.is_empty() {
            self.delete_bucket_entries(state, options, key, meta, to)?;
            let batch = &mut to.rows;
            batch.delete(Table::Doc, key);
            batch.add(Table::Meta, &buckets, [-was_there, -before]);
            return Ok(());
        }
        let time_of =
            |m: Option<&bucket::Measurement>| m.map_or(i64::MIN, |m| options.time_of(m.doc.doc()));
        let first_ms = time_of(stored.measurements.first());
        let last_ms = time_of(stored.measurements.last());
        let mut head = Vec::new();
        bucket::write_closed(&mut head, meta, first_ms, last_ms, &stored.measurements);
        batch.put(Table::Doc, key, &head);
        let after = head.len() as i64;
        batch.add(Table::Meta, &buckets, [1 - was_there, after - before]);
        Ok(())
    }

    /// Closes all open buckets and packs them.
    ///
    /// # Errors
    /// 175 QueryPlanKilled when the collection is gone; those of `go_on`; engine failures.
    pub fn pack_buckets(&self, go_on: &dyn Fn() -> Result<()>) -> Result<()> {
        let (_inside, state) = self.enter(self.operation)?;
        let mut ready = {
            let mut open = self.buckets.lock();
            if !open.loaded && !self.shared.has_joined {
                self.load_left_open(&mut open)?;
            }
            open.close_all();
            std::mem::take(&mut open.packable)
        };
        let packed = self.pack_all(&state, &mut ready, go_on);
        self.buckets.lock().packable.append(&mut ready);
        packed
    }
}

/// Puts the rows of measurements.
pub(super) fn put_rows(docs: &[Doc<'_>], places: &BucketAssignment, batch: &mut WriteBatch) {
    let mut value = Vec::new();
    for (n, (doc, key)) in docs.iter().zip(&places.keys).enumerate() {
        let insert_seq = places.first_seq + n as u64;
        let header = record::Header {
            insert_seq,
            version: 0,
            time: 0,
        };
        value.clear();
        record::write(&mut value, header, doc.as_bytes());
        batch.put(Table::Doc, &bucket::row_key(key, insert_seq), &value);
    }
}
