//! The catalog as a fixed view sees it. Promises: the data of dropped collections and indexes that
//! the view sees stays on disk until the view's last clone is dropped; a collection that has
//! changed since is opened in its earlier form, for readers only; views of a store that follows
//! share the collections that they open. Must not know: the current catalog.

use crate::catalog::collection::Attachment;
use crate::catalog::kept::KeptByIdent;
use crate::catalog::pins::Pin;
use crate::catalog::shared::hash_announced;
use crate::catalog::{CatalogRow, Collection, Shared};
use crate::format::meta;
use crate::index::Index;
use crate::view::ReadView;
use model::{Namespace, Result};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use storage::{Engine, Snapshot, Table};

/// Age at which the counts of shared collections are read again. The counts only choose plans and
/// orders; they are not returned to clients.
const COUNTS_KEPT: Duration = Duration::from_secs(1);

/// Collections and views that were opened in an earlier form, and when their counts were read.
#[derive(Default)]
pub(crate) struct CollectionCache {
    all: Mutex<HashMap<Namespace, (Arc<Collection>, Instant)>>,
    /// The announcements up to these views, see [`storage::Moment::announced`], when views of
    /// several moments share them: apart from their documents they are the same in all of these.
    announced: Option<Vec<u8>>,
    /// What readers cache with collections, which the caches of all moments share.
    attachments: Arc<KeptByIdent<Attachment>>,
}

impl CollectionCache {
    /// For views of all moments with these announcements.
    pub(crate) fn new_shared(
        announced: &[u8],
        attachments: &Arc<KeptByIdent<Attachment>>,
    ) -> CollectionCache {
        CollectionCache {
            announced: Some(announced.to_vec()),
            attachments: Arc::clone(attachments),
            ..CollectionCache::default()
        }
    }

    /// The collections in it for which `is_meant` is true.
    pub(crate) fn list(&self, is_meant: &dyn Fn(&Collection) -> bool) -> Vec<Arc<Collection>> {
        let all = self.all.lock();
        let meant = all.values().filter(|(coll, _)| is_meant(coll));
        meant.map(|(coll, _)| Arc::clone(coll)).collect()
    }
}

/// What a fixed view keeps for its state.
pub(crate) struct FixedState {
    snapshot: Arc<dyn Snapshot>,
    _pin: Pin,
    opened: Arc<CollectionCache>,
}

impl FixedState {
    pub(crate) fn new(
        snapshot: Arc<dyn Snapshot>,
        pin: Pin,
        opened: Arc<CollectionCache>,
    ) -> FixedState {
        FixedState {
            snapshot,
            _pin: pin,
            opened,
        }
    }

    /// Whether the view is of a moment of data that another process writes.
    pub(crate) fn is_of_moment(&self) -> bool {
        self.opened.announced.is_some()
    }

    /// The collection, if it was opened in the form of this state.
    ///
    /// # Cost
    /// An occasional read of the counts, where views share it.
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn find(&self, ns: &Namespace) -> Result<Option<Arc<Collection>>> {
        let mut all = self.opened.all.lock();
        let Some((coll, counted)) = all.get_mut(ns) else {
            return Ok(None);
        };
        let coll = Arc::clone(coll);
        if self.is_of_moment() && counted.elapsed() > COUNTS_KEPT {
            *counted = Instant::now();
            drop(all);
            coll.renew_counts(self.snapshot.as_ref())?;
        }
        Ok(Some(coll))
    }

    /// Opens a collection or view from its catalog row in this state; for readers only, unless
    /// other processes write, too.
    ///
    /// # Errors
    /// As [`Collection::open`].
    pub(crate) fn open(
        &self,
        shared: &Arc<Shared>,
        ns: &Namespace,
        row: &CatalogRow,
    ) -> Result<Arc<Collection>> {
        let mut opened = Collection::open(shared.clone(), ns.clone(), row, self.snapshot.as_ref())?;
        match &self.opened.announced {
            Some(announced) => {
                opened.set_generation(announced);
                if row.ident != 0 {
                    opened.set_attachment(self.opened.attachments.get(row.ident));
                }
            }
            // Makes every write to it fail.
            None => opened.set_dropped(),
        }
        let mut all = self.opened.all.lock();
        let new = || (Arc::new(opened), Instant::now());
        let (kept, _) = all.entry(ns.clone()).or_insert_with(new);
        Ok(Arc::clone(kept))
    }
}

impl ReadView {
    /// A hash of the announcements that are expected of it, for [`operation::Operation::expect`]; 0
    /// for other views than those of moments.
    pub fn expectation(&self) -> u64 {
        let announced = self.past.as_ref().and_then(|p| p.opened.announced.as_ref());
        announced.map_or(0, |announced| hash_announced(announced))
    }

    /// Whether it opens its collections there.
    pub(crate) fn shares(&self, opened: &Arc<CollectionCache>) -> bool {
        let is_there = |past: &Arc<FixedState>| Arc::ptr_eq(&past.opened, opened);
        self.past.as_ref().is_some_and(is_there)
    }

    /// The number of documents of a collection, where [`ReadView::has_counters`].
    ///
    /// # Errors
    /// Engine failures.
    pub fn count_of(&self, coll: &Collection) -> Result<u64> {
        match &self.snapshot {
            Some(snapshot) if self.past.as_ref().is_some_and(|p| p.is_of_moment()) => {
                coll.renew_counts(snapshot.as_ref())
            }
            _ => Ok(coll.count()),
        }
    }

    /// The catalog row of a name.
    ///
    /// # Errors
    /// Engine failures; 1 InternalError for a damaged row.
    pub(crate) fn catalog_row(
        &self,
        engine: &dyn Engine,
        ns: &Namespace,
    ) -> Result<Option<CatalogRow>> {
        let key = meta::catalog(ns.db(), ns.coll());
        let mut row = None;
        let decode = &mut |bytes: &[u8]| row = Some(CatalogRow::decode(bytes));
        self.get_with(engine, Table::Meta, &key, decode)?;
        row.transpose()
    }

    /// Whether this state has the collection in its current form.
    ///
    /// # Cost
    /// One read when the collection has changed, or was opened, after the view was taken.
    ///
    /// # Errors
    /// Engine failures; 1 InternalError for a damaged row.
    pub(crate) fn sees_as_it_is(&self, coll: &Collection) -> Result<bool> {
        if self.pos().is_none_or(|pos| coll.catalog_commit() <= pos) {
            return Ok(true);
        }
        let row = self.catalog_row(coll.shared.engine.as_ref(), coll.ns())?;
        Ok(row.is_some_and(|row| row == coll.row(&coll.state(), None)))
    }

    /// Fails unless the name of the collection leads to it in this state.
    ///
    /// # Cost
    /// One read.
    ///
    /// # Errors
    /// 175 QueryPlanKilled; engine failures.
    pub(crate) fn check_there(&self, coll: &Collection) -> Result<()> {
        let row = self.catalog_row(coll.shared.engine.as_ref(), coll.ns())?;
        match row.is_some_and(|row| row.ident == coll.ident) {
            true => Ok(()),
            false => Err(coll.gone_error()),
        }
    }

    /// Whether data of the collection that this view reads may have been deleted from disk. A fixed
    /// view taken from the store loses nothing.
    pub(crate) fn has_lost(&self, coll: &Collection) -> bool {
        self.past.is_none() && coll.is_dropped()
    }

    /// Whether entries of the index may have been deleted from disk.
    pub(crate) fn has_lost_index(&self, index: &Index) -> bool {
        self.past.is_none() && index.is_dropped()
    }

    /// Fails once data of the collection may have been deleted by a drop: then a reader cannot
    /// trust that a document or entry is missing.
    ///
    /// # Errors
    /// 175 QueryPlanKilled.
    pub(crate) fn check_kept(&self, coll: &Collection) -> Result<()> {
        match self.has_lost(coll) {
            true => Err(coll.gone_error()),
            false => Ok(()),
        }
    }
}
