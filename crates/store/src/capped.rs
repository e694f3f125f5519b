//! Capped collections: documents in the order they came in, and room made for new ones.
//!
//! Promises: a document never becomes visible after one that was inserted later, so a reader at the end misses none; a reader
//! whose place was deleted is told. Must not know: who waits for new documents.
//!
//! The order is kept beside the documents, which lie by `_id`: table `Cap`, key `ident insert_seq`, value the encoded id.

use crate::collection::Collection;
use crate::error;
use crate::format::record;
use crate::modify::{Change, Modified};
use crate::scan::{EachRow, Row, Rows, fetch};
use model::{Doc, MongoError, Result, code};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use storage::{Batch, Cursor, CursorOpts, Durability, KeyRange, RowBatch, Table};

/// Entries read at once.
const FETCH_MAX: usize = 128;

/// What capped collections have besides.
#[derive(Default)]
pub(crate) struct Guards {
    /// Held from the allocation of sequence numbers until they are visible. Taken after the keys' stripes.
    pub(crate) inserting: Mutex<()>,
    /// Held while room is made; stripes are taken under it.
    trimming: Mutex<()>,
    /// No document is older than this: walks begin here and not among what was deleted.
    oldest: AtomicU64,
}

pub(crate) fn is_capped(options: Doc<'_>) -> bool {
    options.field("capped").truthy()
}

pub(crate) fn order_key(ident: u32, seq: u64) -> [u8; 12] {
    let mut key = [0; 12];
    key[..4].copy_from_slice(&ident.to_be_bytes());
    key[4..].copy_from_slice(&seq.to_be_bytes());
    key
}

fn seq_of(key: &[u8]) -> Result<u64> {
    let seq = key.get(4..).and_then(|s| s.try_into().ok()).map(u64::from_be_bytes);
    seq.ok_or_else(|| error::corrupt("an entry of the order of a capped collection"))
}

impl Collection {
    /// Writes the order of all documents. The caller keeps writers out.
    pub(crate) fn write_order(&self) -> Result<()> {
        let engine = &self.shared.engine;
        let (lower, upper) = self.key_bounds();
        let opts = CursorOpts { fill_cache: false, ..CursorOpts::default() };
        let mut cursor = engine.cursor(Table::Doc, KeyRange { lower: &lower, upper: &upper }, opts).map_err(error::storage)?;
        let mut more = true;
        while more {
            let mut batch = Batch::new();
            let each = &mut |key: &[u8], value: &[u8]| {
                if let (Some((h, _)), Some(id)) = (record::read(value), key.get(4..)) {
                    batch.put(Table::Cap, &order_key(self.ident, h.insert_seq), id);
                }
                true
            };
            more = cursor.visit(1024, each).map_err(error::storage)?;
            if !batch.is_empty() {
                engine.apply(&batch, Durability::Buffered).map_err(error::storage)?;
            }
        }
        Ok(())
    }

    /// Writes the order of a capped collection that has documents and no order yet.
    pub(crate) fn complete_order(&self) -> Result<()> {
        let mut rows = RowBatch::new();
        self.order_cursor(0, None, false)?.next_batch(&mut rows, 1, 1 << 20).map_err(error::storage)?;
        if rows.is_empty() { self.write_order() } else { Ok(()) }
    }

    /// Whether the order knows this record at its place.
    pub(crate) fn has_place(&self, record_key: &[u8], seq: u64) -> Result<bool> {
        let mut right = false;
        let see = &mut |id: &[u8]| right = record_key.get(4..) == Some(id);
        self.shared.engine.get_with(Table::Cap, &order_key(self.ident, seq), see).map_err(error::storage)?;
        Ok(right)
    }

    /// Entries from `first` on, before `end` when there is one.
    fn order_cursor(&self, first: u64, end: Option<u64>, reverse: bool) -> Result<Box<dyn Cursor>> {
        let (lower, all) = (order_key(self.ident, first), self.key_bounds().1);
        let end = end.map(|e| order_key(self.ident, e));
        let range = KeyRange { lower: &lower, upper: end.as_ref().map_or(&all[..], |e| &e[..]) };
        let opts = CursorOpts { reverse, ..CursorOpts::default() };
        self.shared.engine.cursor(Table::Cap, range, opts).map_err(error::storage)
    }

    /// Deletes the oldest documents of a capped collection until no more than `bytes` and `docs` are left. The newest one
    /// stays, however large.
    ///
    /// # Cost
    /// Two comparisons when there is room.
    ///
    /// # Errors
    /// 175 when the collection is gone; engine failures.
    pub fn trim(&self, bytes: u64, docs: Option<u64>) -> Result<()> {
        let over = || self.count() > 1 && (self.size_bytes() > bytes || docs.is_some_and(|d| self.count() > d));
        if !over() {
            return Ok(());
        }
        let _alone = self.capped.trimming.lock();
        let mut rows = RowBatch::new();
        while over() {
            let oldest = self.capped.oldest.load(Ordering::Acquire);
            self.order_cursor(oldest, None, false)?.next_batch(&mut rows, FETCH_MAX, 1 << 20).map_err(error::storage)?;
            let mut progress = false;
            for (key, id) in rows.iter() {
                if !over() {
                    return Ok(());
                }
                let seq = seq_of(key)?;
                let record = [&self.ident.to_be_bytes()[..], id].concat();
                let gone = self.modify(&record, &mut |_| Ok(Change::Delete))?;
                progress |= matches!(gone, Modified::Deleted(_));
                self.capped.oldest.fetch_max(seq.saturating_add(1), Ordering::AcqRel);
            }
            if !progress {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// A walk in insertion order.
pub(crate) struct OrderWalk {
    reverse: bool,
    last: Option<u64>,
    cursor: Option<Box<dyn Cursor>>,
    rows: RowBatch,
    /// Few at first, for readers who want one document.
    fetch: usize,
}

impl OrderWalk {
    pub(crate) fn new(reverse: bool) -> OrderWalk {
        OrderWalk { reverse, last: None, cursor: None, rows: RowBatch::new(), fetch: 4 }
    }

    pub(crate) fn pause(&mut self) {
        self.cursor = None;
    }

    /// Shows up to `max` documents; false at the end, where a later call goes on with what has come since.
    ///
    /// # Errors
    /// 136 CappedPositionLost when the last document shown is gone; engine failures.
    pub(crate) fn visit(&mut self, coll: &Collection, max: usize, f: &mut EachRow<'_>) -> Result<bool> {
        let mut shown = 0;
        while shown < max {
            if self.cursor.is_none() {
                self.cursor = Some(self.open(coll)?);
            }
            let Some(cursor) = self.cursor.as_mut() else { return Ok(false) };
            let want = self.fetch.min(max - shown);
            self.fetch = (self.fetch * 4).min(FETCH_MAX);
            let more = cursor.next_batch(&mut self.rows, want, 1 << 20).map_err(error::storage)?;
            let keys: Vec<Vec<u8>> = self.rows.iter().map(|(_, id)| [&coll.ident.to_be_bytes()[..], id].concat()).collect();
            let wanted: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let mut docs = Rows::default();
            fetch(coll.shared.engine.as_ref(), &wanted, &mut docs)?;
            for ((key, value), (entry, _)) in wanted.iter().zip(docs.iter()).zip(self.rows.iter()) {
                let seq = seq_of(entry)?;
                // Deleted since the entry was read, and perhaps inserted again.
                let Some((header, doc)) = value.and_then(record::read).filter(|(h, _)| h.insert_seq == seq) else { continue };
                self.last = Some(seq);
                shown += 1;
                if !f(Row { key, header, doc, score: 0.0 }) {
                    // The rows read ahead are read again.
                    self.cursor = None;
                    return Ok(true);
                }
            }
            if !more {
                self.cursor = None;
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn open(&self, coll: &Collection) -> Result<Box<dyn Cursor>> {
        let Some(last) = self.last else {
            return coll.order_cursor(coll.capped.oldest.load(Ordering::Acquire), None, self.reverse);
        };
        if !coll.exists(Table::Cap, &order_key(coll.ident, last))? {
            return Err(MongoError::new(
                code::CAPPED_POSITION_LOST,
                format!("CollectionScan died due to position in capped collection being deleted. Last seen record id: RecordId({last})"),
            ));
        }
        match self.reverse {
            true => coll.order_cursor(0, Some(last), true),
            false => coll.order_cursor(last.saturating_add(1), None, false),
        }
    }
}
