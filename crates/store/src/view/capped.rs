//! Reads capped collections in insertion order. Promises: a reader whose position was deleted gets
//! an error. Must not know: who waits for new documents, how old ones are deleted.
//!
//! The order is stored separately, because documents are stored by `_id`: table `Cap`, key `ident
//! insert_seq`, value the encoded id.

use crate::catalog::Collection;
use crate::error;
use crate::format::order::OrderEnd;
use crate::format::{meta, record};
use crate::view::ReadView;
use crate::view::rows::{FetchSize, FetchedRows, Row, RowVisitor, fetch};
use model::{MongoError, Result, code};
use std::sync::atomic::Ordering;
use storage::{Cursor, CursorOpts, KeyRange, RowBatch, Table};

pub(crate) fn order_key(ident: u32, seq: u64) -> [u8; 12] {
    let mut key = [0; 12];
    key[..4].copy_from_slice(&ident.to_be_bytes());
    key[4..].copy_from_slice(&seq.to_be_bytes());
    key
}

pub(crate) fn seq_of(key: &[u8]) -> Result<u64> {
    let seq = key
        .get(4..)
        .and_then(|s| s.try_into().ok())
        .map(u64::from_be_bytes);
    seq.ok_or_else(|| error::corrupt("an entry of the order of a capped collection"))
}

impl Collection {
    /// Whether the order has an entry for this record.
    pub(crate) fn has_place(&self, record_key: &[u8], seq: u64) -> Result<bool> {
        let mut right = false;
        let see = &mut |id: &[u8]| right = record_key.get(4..) == Some(id);
        self.shared
            .engine
            .get_with(Table::Cap, &order_key(self.ident, seq), see)
            .map_err(error::storage)?;
        Ok(right)
    }

    /// A cursor over the entries from `first` on, before `end` when there is one.
    pub(crate) fn order_cursor(
        &self,
        view: &ReadView,
        first: u64,
        end: Option<u64>,
        reverse: bool,
    ) -> Result<Box<dyn Cursor>> {
        let (lower, all) = (order_key(self.ident, first), self.key_bounds().1);
        let end = end.map(|e| order_key(self.ident, e));
        let range = KeyRange {
            lower: &lower,
            upper: end.as_ref().map_or(&all[..], |e| &e[..]),
        };
        let opts = CursorOpts {
            reverse,
            ..CursorOpts::default()
        };
        view.cursor(self.shared.engine.as_ref(), Table::Cap, range, opts)
    }
}

/// A scan in insertion order.
pub(crate) struct CappedScan {
    view: ReadView,
    reverse: bool,
    last: Option<u64>,
    cursor: Option<Box<dyn Cursor>>,
    rows: RowBatch,
    fetch: FetchSize,
}

impl CappedScan {
    pub(crate) fn new(coll: &Collection, view: ReadView, reverse: bool) -> CappedScan {
        CappedScan {
            view,
            reverse,
            last: None,
            cursor: None,
            rows: RowBatch::new(),
            fetch: FetchSize::first(coll.shared.engine.as_ref()),
        }
    }

    pub(crate) fn pause(&mut self) {
        self.cursor = None;
    }

    /// Shows up to `max` documents; false at the end, where a later call continues with documents
    /// that were inserted since.
    ///
    /// # Errors
    /// 136 CappedPositionLost when the last document shown is gone; engine failures.
    pub(crate) fn visit(
        &mut self,
        coll: &Collection,
        max: usize,
        f: &mut RowVisitor<'_>,
    ) -> Result<bool> {
        let mut shown = 0;
        while shown < max {
            if self.cursor.is_none() {
                self.cursor = Some(self.open(coll)?);
            }
            let Some(cursor) = self.cursor.as_mut() else {
                return Ok(false);
            };
            let want = self.fetch.next().min(max - shown);
            self.fetch.grow();
            let more = cursor
                .next_batch(&mut self.rows, want, 1 << 20)
                .map_err(error::storage)?;
            let keys: Vec<Vec<u8>> = self.rows.iter().map(|(_, id)| coll.key_of(id)).collect();
            let wanted: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let mut docs = FetchedRows::default();
            fetch(&self.view, coll.shared.engine.as_ref(), &wanted, &mut docs)?;
            for ((key, value), (entry, _)) in wanted.iter().zip(docs.iter()).zip(self.rows.iter()) {
                let seq = seq_of(entry)?;
                // The document may have been deleted since the entry was read, and inserted again.
                let Some((header, doc)) = value
                    .and_then(record::read)
                    .filter(|(h, _)| h.insert_seq == seq)
                else {
                    continue;
                };
                self.last = Some(seq);
                shown += 1;
                if self.view.has_lost(coll)
                    || !f(Row {
                        key,
                        header,
                        doc,
                        score: 0.0,
                    })
                {
                    // Reads the rows again that were read ahead.
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

    /// The lowest number that a document may have, beside other processes.
    fn first_of_order(&self, coll: &Collection) -> Result<u64> {
        let (key, mut first) = (meta::order_end(coll.ident), 0);
        let read = &mut |row: &[u8]| first = OrderEnd::decode(row).map_or(0, |end| end.first);
        let engine = coll.shared.engine.as_ref();
        self.view.get_with(engine, Table::Meta, &key, read)?;
        Ok(first)
    }

    fn open(&self, coll: &Collection) -> Result<Box<dyn Cursor>> {
        let has_joined = coll.shared.has_joined;
        if has_joined && !self.view.is_fixed() {
            // Nobody tells this handle that another process has dropped the collection.
            self.view.check_there(coll)?;
        }
        let Some(last) = self.last else {
            let oldest = match self.view.is_fixed() {
                _ if has_joined => self.first_of_order(coll)?,
                // The oldest document that the collection knows may be younger than the oldest one
                // of a fixed view.
                true => 0,
                false => coll.capped.oldest.load(Ordering::Acquire),
            };
            return coll.order_cursor(&self.view, oldest, None, self.reverse);
        };
        let place = order_key(coll.ident, last);
        if !self
            .view
            .get_with(coll.shared.engine.as_ref(), Table::Cap, &place, &mut |_| {})?
        {
            return Err(MongoError::new(
                code::CAPPED_POSITION_LOST,
                format!(
                    "CollectionScan died due to position in capped collection being deleted. Last \
                        seen record id: RecordId({last})"
                ),
            ));
        }
        match self.reverse {
            true => coll.order_cursor(&self.view, 0, Some(last), true),
            false => coll.order_cursor(&self.view, last.saturating_add(1), None, false),
        }
    }
}
