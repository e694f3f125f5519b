//! Reads single documents by `_id`, and several at once. Must not know: scans.

use crate::catalog::Collection;
use crate::error;
use crate::format::record;
use crate::index::Index;
use crate::view::ReadView;
use crate::view::rows::{FetchSize, FetchedRows, Row, RowVisitor, fetch};
use model::{Doc, Result, Value};
use std::sync::Arc;
use storage::Table;

impl Collection {
    /// A view of the current state.
    ///
    /// # Errors
    /// Engine failures.
    pub fn snapshot(&self) -> Result<ReadView> {
        ReadView::now(self.shared.engine.as_ref())
    }

    /// Secondary indexes that have all entries for a view (`None` is the latest state).
    pub fn readable_indexes(&self, view: Option<&ReadView>) -> Arc<Vec<Arc<Index>>> {
        let indexes = self.indexes();
        let pos = view.and_then(ReadView::pos);
        let readable = |i: &Arc<Index>| i.is_ready() && pos.is_none_or(|p| i.ready_at() <= p);
        if indexes.iter().all(readable) {
            return indexes;
        }
        Arc::new(indexes.iter().filter(|i| readable(i)).cloned().collect())
    }

    /// Passes the document with this `_id` to `f` without copying it.
    ///
    /// # Output
    /// False when there is none.
    ///
    /// # Cost
    /// One engine read, no copy.
    ///
    /// # Errors
    /// 175 QueryPlanKilled when the collection is gone; 1 InternalError when the record is damaged;
    /// engine failures.
    pub fn get_with(
        &self,
        view: &ReadView,
        id: &Value<'_>,
        f: &mut dyn FnMut(Doc<'_>),
    ) -> Result<bool> {
        let mut key = Vec::with_capacity(24);
        self.record_key(id, &mut key);
        let mut sound = true;
        let found = view.get_with(
            self.shared.engine.as_ref(),
            Table::Doc,
            &key,
            &mut |bytes| match record::read(bytes) {
                Some((_, doc)) => f(doc),
                None => sound = false,
            },
        )?;
        if !sound {
            return Err(error::corrupt(&format!("a record of {}", self.ns)));
        }
        // A missing document is only reported while the collection exists.
        match found {
            true => Ok(true),
            false => view.check_kept(self).map(|()| false),
        }
    }

    /// Shows the documents with these encoded `_id`s (see [`crate::format::keys::encode`]) in the
    /// order of `ids`; missing ones are left out. `f` returns false to stop after a document.
    ///
    /// # Output
    /// How many of `ids` were processed; all of them unless `f` stopped.
    ///
    /// # Cost
    /// One engine call for up to 128 ids.
    ///
    /// # Errors
    /// As [`Collection::get_with`].
    pub fn get_encoded(
        &self,
        view: &ReadView,
        ids: &[&[u8]],
        f: &mut RowVisitor<'_>,
    ) -> Result<usize> {
        let mut rows = FetchedRows::default();
        let (mut looked, mut size) = (0, FetchSize::first(self.shared.engine.as_ref()));
        while looked < ids.len() {
            let chunk = &ids[looked..ids.len().min(looked + size.next())];
            size.grow();
            let keys: Vec<Vec<u8>> = chunk.iter().map(|id| self.key_of(id)).collect();
            let wanted: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            fetch(view, self.shared.engine.as_ref(), &wanted, &mut rows)?;
            for (key, value) in wanted.iter().zip(rows.iter()) {
                looked += 1;
                let Some(value) = value else { continue };
                let (header, doc) = record::read(value)
                    .ok_or_else(|| error::corrupt(&format!("a record of {}", self.ns)))?;
                view.check_kept(self)?;
                if !f(Row {
                    key,
                    header,
                    doc,
                    score: 0.0,
                }) {
                    return Ok(looked);
                }
            }
        }
        view.check_kept(self).map(|()| looked)
    }

    /// The record key of an encoded `_id`.
    pub(crate) fn key_of(&self, id: &[u8]) -> Vec<u8> {
        [&self.ident.to_be_bytes()[..], id].concat()
    }
}
