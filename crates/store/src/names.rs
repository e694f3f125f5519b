//! Lists collections and views and resolves names, in the current state or in that of a fixed view.
//! Promises: a fixed view taken from the store finds under each name the collection of its time,
//! even if that was dropped, renamed or changed since. Must not know: how collections are made.

use crate::catalog::{CatalogRow, Collection, Kind};
use crate::error;
use crate::format::meta;
use crate::store::Store;
use crate::view::ReadView;
use crate::write::transaction::Transaction;
use model::{Namespace, Result};
use operation::Operation;
use std::sync::Arc;
use storage::{CursorOpts, KeyRange, Table};

/// An entry of listCollections; the collection is not opened.
#[derive(Clone, Debug)]
pub struct CollectionEntry {
    /// Name of the collection.
    pub name: String,
    /// Catalog row of the collection.
    pub row: CatalogRow,
}

impl Store {
    /// The collection or view of that name as a reader of `view` sees it: a fixed view sees the
    /// collection of its time, a transaction also those that it has created itself.
    ///
    /// # Cost
    /// None when the collection is open and has not changed since the view was taken, otherwise
    /// reads of the catalog; the view caches what it opens.
    ///
    /// # Errors
    /// Engine failures; 1 InternalError for a damaged row.
    pub fn collection_in(
        &self,
        view: &ReadView,
        ns: &Namespace,
    ) -> Result<Option<Arc<Collection>>> {
        if let Some(made) = view.created_collection(ns) {
            return Ok(Some(made));
        }
        let (Some(past), Some(pos)) = (view.fixed_state(), view.pos()) else {
            return self.collection(ns);
        };
        // A view's definition is in its options, which must not change under a reader.
        let fits = |c: &Arc<Collection>| !c.is_view() && c.catalog_commit() <= pos;
        if let Some(c) = self.open_handle(ns).filter(fits) {
            return Ok(Some(c));
        }
        if let Some(c) = past.find(ns)? {
            return Ok(Some(c));
        }
        let Some(row) = view.catalog_row(self.shared.engine.as_ref(), ns)? else {
            return Ok(None);
        };
        if row.kind == Kind::Collection
            && self.following.is_none()
            && let Some(c) = self.collection(ns)?
            && row == c.row(&c.state(), None)
        {
            return Ok(Some(c));
        }
        past.open(&self.shared, ns, &row).map(Some)
    }

    /// The collection or view to which a write under this name goes.
    ///
    /// # Errors
    /// 112 WriteConflict when the name leads to another collection now than the transaction sees,
    /// or [`model::ErrorKind::SetAside`] for a statement that may be run again; engine failures.
    pub fn collection_to_write(
        &self,
        operation: &Operation,
        ns: &Namespace,
        transaction: Option<&Transaction>,
    ) -> Result<Option<Arc<Collection>>> {
        let Some(t) = transaction else {
            return self.collection(ns);
        };
        let seen = self.collection_in(t.view(), ns)?;
        // Nobody writes to a view, and only its transaction knows an uncommitted collection.
        if seen
            .as_ref()
            .is_some_and(|c| c.is_view() || c.is_uncommitted())
        {
            return Ok(seen);
        }
        let now = self.collection(ns)?;
        let is_same = match (&seen, &now) {
            // Beside other processes, any change of theirs has given it another handle.
            (Some(seen), Some(now)) => Arc::ptr_eq(seen, now) || seen.was_opened_like(now),
            (seen, now) => seen.is_none() && now.is_none(),
        };
        match is_same {
            true => Ok(seen),
            false => Err(t.catalog_error(operation, ns)),
        }
    }

    /// The collections and views of a database, by name.
    ///
    /// # Errors
    /// Engine failures; 1 InternalError for a damaged row.
    pub fn list_collections(&self, db: &str) -> Result<Vec<CollectionEntry>> {
        self.list_collections_in(&ReadView::LATEST, db)
    }

    /// As [`Store::list_collections`], in the state of `view`, without the collections that its
    /// transaction has created.
    ///
    /// # Errors
    /// Engine failures; 1 InternalError for a damaged row.
    pub fn list_collections_in(&self, view: &ReadView, db: &str) -> Result<Vec<CollectionEntry>> {
        let lower = meta::catalog_prefix(db);
        let mut upper = Vec::new();
        storage::prefix_end(&lower, &mut upper);
        let range = KeyRange::new(&lower, &upper);
        let engine = self.shared.engine.as_ref();
        let mut cursor = view.cursor(engine, Table::Meta, range, CursorOpts::default())?;
        let (mut found, mut failed) = (Vec::new(), None);
        while cursor
            .visit(1024, &mut |key, value| {
                match (meta::split_catalog(key), CatalogRow::decode(value)) {
                    (Some((_, coll)), Ok(row)) => found.push(CollectionEntry {
                        name: coll.to_owned(),
                        row,
                    }),
                    (_, Err(e)) => failed = Some(e),
                    (None, Ok(_)) => failed = Some(error::corrupt("catalog key")),
                }
                true
            })
            .map_err(error::storage)?
        {}
        failed.map_or(Ok(found), Err)
    }

    /// Shows at most `rows_max` catalog rows in the order of databases and names, and moves `at`,
    /// which is empty at the start, behind them. Rows that cannot be read are left out.
    ///
    /// # Output
    /// False when there are no more.
    ///
    /// # Errors
    /// Engine failures.
    pub fn visit_catalog(
        &self,
        at: &mut Vec<u8>,
        rows_max: usize,
        f: &mut dyn FnMut(Namespace, CatalogRow),
    ) -> Result<bool> {
        let lower = if at.is_empty() {
            b"c".to_vec()
        } else {
            [&at[..], &[0]].concat()
        };
        let range = KeyRange {
            lower: &lower,
            upper: b"d",
        };
        let opts = CursorOpts {
            fill_cache: false,
            ..CursorOpts::default()
        };
        let mut cursor = self
            .shared
            .engine
            .cursor(Table::Meta, range, opts)
            .map_err(error::storage)?;
        let mut shown = 0;
        while shown < rows_max {
            let more = cursor
                .visit(rows_max - shown, &mut |key, value| {
                    shown += 1;
                    at.clear();
                    at.extend_from_slice(key);
                    let ns = meta::split_catalog(key)
                        .and_then(|(db, coll)| Namespace::new(db, coll).ok());
                    if let (Some(ns), Ok(row)) = (ns, CatalogRow::decode(value)) {
                        f(ns, row);
                    }
                    true
                })
                .map_err(error::storage)?;
            if !more {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Databases that have a collection, by name. One seek for each database, however many
    /// collections it has.
    ///
    /// # Errors
    /// Engine failures.
    pub fn list_databases(&self) -> Result<Vec<String>> {
        let mut found: Vec<String> = Vec::new();
        let mut lower = b"c".to_vec();
        let opts = CursorOpts {
            keys_only: true,
            limit_hint: 1,
            ..CursorOpts::default()
        };
        let range = KeyRange {
            lower: b"c",
            upper: b"d",
        };
        let mut cursor = self
            .shared
            .engine
            .cursor(Table::Meta, range, opts)
            .map_err(error::storage)?;
        loop {
            cursor.seek(&lower).map_err(error::storage)?;
            let mut db = None;
            cursor
                .visit(1, &mut |key, _| {
                    db = meta::split_catalog(key).map(|(db, _)| db.to_owned());
                    false
                })
                .map_err(error::storage)?;
            let Some(db) = db else { return Ok(found) };
            lower = meta::catalog_prefix(&db);
            if let Some(last) = lower.last_mut() {
                *last = 1;
            }
            found.push(db);
        }
    }
}
