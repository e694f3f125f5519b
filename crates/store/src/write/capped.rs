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
use model::Result;
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
    /// Two comparisons when nothing has to be deleted.
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
                .next_batch(&mut rows, FETCH_MAX, 1 << 20)
                .map_err(error::storage)?;
            drop(cursor);
            let mut progress = false;
            for (key, id) in rows.iter() {
                if !over() {
                    return Ok(());
                }
                let seq = seq_of(key)?;
                let record = self.key_of(id);
                let gone = self.modify(&record, &mut |_| Ok(Change::Delete))?;
                progress |= matches!(gone, Modified::Deleted(_));
                self.capped
                    .oldest
                    .fetch_max(seq.saturating_add(1), Ordering::AcqRel);
            }
            if !progress {
                return Ok(());
            }
        }
        Ok(())
    }
}
