//! What a capped collection writes additionally: the order of its documents, and the deletion of
//! old ones. Promises: a document never becomes visible after one that was inserted later, so a
//! reader at the end misses none. Must not know: who waits for new documents.

use crate::catalog::Collection;
use crate::commit::WriteUnit;
use crate::error;
use crate::format::record;
use crate::view::ReadView;
use crate::view::capped::{order_key, seq_of};
use crate::view::rows::FETCH_MAX;
use crate::write::modify::{Change, Modified};
use model::{Doc, Result};
use std::cell::RefCell;
use std::sync::atomic::Ordering;
use storage::{CursorOpts, KeyRange, RowBatch, Table, WriteBatch};

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

    /// Deletes the oldest documents of a capped collection until no more than `bytes` and `docs`
    /// are left. The newest one stays, however large.
    ///
    /// # Cost
    /// Two comparisons when nothing has to be deleted; else as [`Collection::modify_many`].
    ///
    /// # Errors
    /// 175 when the collection is gone; engine failures.
    pub fn trim(&self, bytes: u64, docs: Option<u64>) -> Result<()> {
        let over = || {
            self.count() > 1
                && (self.size_bytes() > bytes || docs.is_some_and(|d| self.count() > d))
        };
        if !over() {
            return Ok(());
        }
        let _alone = self.capped.trimming.lock();
        let mut rows = RowBatch::new();
        while over() {
            let oldest = self.capped.oldest.load(Ordering::Acquire);
            let mut cursor = self.order_cursor(&ReadView::LATEST, oldest, None, false)?;
            cursor
                .next_batch(&mut rows, self.excess(bytes, docs), 1 << 20)
                .map_err(error::storage)?;
            drop(cursor);
            if !self.delete_oldest(&rows, bytes, docs)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// About how many documents are too many.
    fn excess(&self, bytes: u64, docs: Option<u64>) -> usize {
        let (count, size) = (self.count(), self.size_bytes());
        let by_bytes = size.saturating_sub(bytes) / (size / count.max(1)).max(1) + 1;
        let by_count = docs.map_or(0, |d| count.saturating_sub(d));
        let most = u64::try_from(FETCH_MAX).unwrap_or(u64::MAX);
        usize::try_from(by_bytes.max(by_count).min(most)).unwrap_or(FETCH_MAX)
    }

    /// Deletes the documents of these places, from the first on, while there are too many; false
    /// when it has deleted none.
    fn delete_oldest(&self, rows: &RowBatch, bytes: u64, docs: Option<u64>) -> Result<bool> {
        let (mut seqs, mut keys) = (Vec::new(), Vec::new());
        for (key, id) in rows.iter() {
            seqs.push(seq_of(key)?);
            keys.push(self.key_of(id));
        }
        let keys: Vec<&[u8]> = keys.iter().map(|k| &k[..]).collect();
        // Documents that go with the next commit, by number, and their bytes: they are counted
        // still.
        let (going, mut progress) = (RefCell::new((Vec::new(), 0u64)), false);
        let decide = &mut |n: usize, doc: Doc<'_>| {
            let mut going = going.borrow_mut();
            let (numbers, sum) = &mut *going;
            // Asked again, when another writer came in between.
            while numbers.last().is_some_and(|(last, _)| *last >= n) {
                *sum -= numbers.pop().map_or(0, |(_, len)| len);
            }
            let count = self.count().saturating_sub(numbers.len() as u64);
            let size = self.size_bytes().saturating_sub(*sum);
            if count <= 1 || (size <= bytes && docs.is_none_or(|d| count <= d)) {
                return Ok(Change::Keep);
            }
            numbers.push((n, doc.len_bytes() as u64));
            *sum += doc.len_bytes() as u64;
            Ok(Change::Delete)
        };
        let gone = &mut |n: usize, outcome: Modified| {
            *going.borrow_mut() = (Vec::new(), 0);
            progress |= matches!(outcome, Modified::Deleted(_));
            if let (false, Some(seq)) = (outcome == Modified::Kept, seqs.get(n)) {
                let behind = seq.saturating_add(1);
                self.capped.oldest.fetch_max(behind, Ordering::AcqRel);
            }
        };
        self.modify_many(&keys, decide, gone)?;
        Ok(progress)
    }
}
