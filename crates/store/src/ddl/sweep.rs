//! Deletes in the background keys of dropped identifiers, keys that no catalog row owns, and
//! indexes whose builds were abandoned.

use crate::catalog::CatalogRow;
use crate::catalog::dropped::DroppedIdents;
use crate::ddl::writer::CatalogWriter;
use crate::error;
use crate::format::meta;
use crate::index::Index;
use crate::peers::Peer;
use crate::store::Store;
use model::{ErrorKind, MongoError, Namespace, Result};
use storage::{CursorOpts, IdentSet, KeyRange, Table};

impl CatalogWriter<'_> {
    /// Removes indexes whose builds were abandoned, for example because the client disconnected
    /// while the build waited for a transaction: until then writers maintain them. An index in use
    /// is left to the next call. One load when there is nothing to do; to be called about every
    /// second.
    ///
    /// # Errors
    /// Engine failures.
    pub fn sweep_abandoned(&self) -> Result<()> {
        let mut result = Ok(());
        for ns in self.shared.take_abandoned_builds() {
            // A collection that is opened again has no unfinished indexes.
            let there = self.begin_moment().and_then(|_| self.collection(&ns));
            let removed = there
                .and_then(|c| c.map_or(Ok(true), |c| c.writer(self.operation).remove_abandoned()));
            let removed = match removed {
                // Another process has changed the catalog.
                Err(e) if self.joined.is_some() && is_outdated(&e) => Ok(false),
                removed => removed,
            };
            if !matches!(removed, Ok(true)) {
                self.shared.record_abandoned_build(&ns);
            }
            result = result.and(removed.map(|_| ()));
        }
        result
    }
}

impl CatalogWriter<'_> {
    /// Beside other servers: removes the unfinished indexes that nobody builds any more, of this
    /// server and of those that are not alive. A server that builds on although it was taken for
    /// dead finds its index removed. To be called about every minute by one server; several may.
    /// Does nothing for a store that writes alone, which removes them when a collection is opened.
    ///
    /// # Output
    /// How many collections had some; those in use are left to the next call.
    ///
    /// # Cost
    /// A scan of the catalog.
    ///
    /// # Errors
    /// Those of `go_on`; engine failures.
    pub fn sweep_unfinished_indexes(&self, go_on: &dyn Fn() -> Result<()>) -> Result<usize> {
        if self.begin_moment()?.is_none() {
            return Ok(0);
        }
        let unfinished = |row: &CatalogRow| row.indexes.iter().any(|i| !i.ready);
        let mut number = 0;
        for ns in self.collections_with(go_on, &unfinished)? {
            go_on()?;
            // Each removal is a change of the catalog, after which handles are outdated.
            self.begin_moment()?;
            let Some(c) = self.collection(&ns)? else {
                continue;
            };
            let writer = c.writer(self.operation);
            let is_alive = |peer| self.counts_as_alive(peer);
            let is_meant = |index: &Index| writer.has_given_up(index, &is_alive);
            number += usize::from(c.indexes().iter().any(|i| is_meant(i)));
            match writer.remove_unfinished(&is_meant) {
                // Another process has changed the catalog: the next call looks again.
                Err(e) if is_outdated(&e) => {}
                removed => _ = removed?,
            }
        }
        Ok(number)
    }

    /// Beside other servers: packs the buckets that servers have left open which are not alive. A
    /// server that was taken for dead opens new ones.
    ///
    /// # Output
    /// How many were packed.
    ///
    /// # Cost
    /// A scan of the catalog, and of the marks of open buckets of each time series.
    ///
    /// # Errors
    /// Those of `go_on`; engine failures.
    pub fn sweep_left_buckets(&self, go_on: &dyn Fn() -> Result<()>) -> Result<usize> {
        if self.begin_moment()?.is_none() {
            return Ok(0);
        }
        let is_alive = |peer| self.counts_as_alive(peer);
        let is_series = |row: &CatalogRow| row.options.doc().contains("timeseries");
        let mut number = 0;
        for ns in self.collections_with(go_on, &is_series)? {
            self.begin_moment()?;
            let Some(c) = self.collection(&ns)? else {
                continue;
            };
            match c.writer(self.operation).pack_left(&is_alive, go_on) {
                // Another process has changed the catalog: the next call looks again.
                Err(e) if is_outdated(&e) => {}
                packed => number += packed?,
            }
        }
        Ok(number)
    }
}

impl Store {
    /// Whether a server with this number may be alive.
    fn counts_as_alive(&self, peer: u64) -> bool {
        // In doubt it is.
        self.is_alive(Peer(peer)).unwrap_or(true)
    }

    /// Deletes the records of dropped identifiers whose keys are gone from disk. Cheap; to be
    /// called about every minute.
    ///
    /// # Output
    /// How many are left.
    ///
    /// # Errors
    /// Engine failures.
    pub fn sweep_dropped(&self) -> Result<usize> {
        self.shared.sweep_dropped()
    }

    /// Frees the space of documents and entries that no catalog row owns: versions in which a drop
    /// was not yet one commit left them after a crash. To be called once after the start, in the
    /// background; `go_on` is called repeatedly. Other processes may create and drop collections
    /// meanwhile.
    ///
    /// # Output
    /// Identifiers found.
    ///
    /// # Cost
    /// A scan of the catalog, a seek for each identifier in use.
    ///
    /// # Errors
    /// Engine failures; those of `go_on`.
    pub fn sweep_unowned(&self, go_on: &dyn Fn() -> Result<()>) -> Result<usize> {
        let shared = &self.shared;
        let Some(joined) = &self.joined else {
            let owned = self.owned_idents(go_on)?;
            return shared.sweep_unowned(shared.idents.first, &owned, go_on);
        };
        // The keys first and the catalog afterwards: keys appear at the earliest with the commit
        // that puts their identifier into the catalog, and no identifier comes back.
        let found = shared.list_idents(u32::MAX, go_on)?;
        joined.follower.moment().map_err(error::storage)?;
        let owned = self.owned_idents(go_on)?;
        let recorded = DroppedIdents::read(shared.engine.as_ref())?;
        let mut number = 0;
        for (table, ident) in found {
            if !owned.contains(ident) && !recorded.contains(table, ident) {
                go_on()?;
                shared.remove_unowned(table, ident)?;
                number += 1;
            }
        }
        Ok(number)
    }

    /// The identifiers of all collections and indexes in the catalog.
    fn owned_idents(&self, go_on: &dyn Fn() -> Result<()>) -> Result<IdentSet> {
        let mut owned: Vec<u32> = Vec::new();
        self.each_catalog_row(go_on, &mut |_, row| {
            owned.push(row.ident);
            owned.extend(row.indexes.iter().map(|i| i.ident));
        })?;
        Ok(owned.into_iter().collect())
    }

    /// Shows each catalog row with its key.
    fn each_catalog_row(
        &self,
        go_on: &dyn Fn() -> Result<()>,
        each: &mut dyn FnMut(&[u8], CatalogRow),
    ) -> Result<()> {
        let mut failed = None;
        let opts = CursorOpts {
            fill_cache: false,
            ..CursorOpts::default()
        };
        let range = KeyRange {
            lower: b"c",
            upper: b"d",
        };
        let engine = &self.shared.engine;
        let mut cursor = engine
            .cursor(Table::Meta, range, opts)
            .map_err(error::storage)?;
        let each = &mut |key: &[u8], value: &[u8]| {
            match CatalogRow::decode(value) {
                Ok(row) => each(key, row),
                Err(e) => failed = Some(e),
            }
            failed.is_none()
        };
        while cursor.visit(1024, each).map_err(error::storage)? {
            go_on()?;
        }
        // An unreadable row may own any identifier.
        failed.map_or(Ok(()), Err)
    }

    /// The collections whose catalog row is meant.
    fn collections_with(
        &self,
        go_on: &dyn Fn() -> Result<()>,
        is_meant: &dyn Fn(&CatalogRow) -> bool,
    ) -> Result<Vec<Namespace>> {
        let mut found = Vec::new();
        self.each_catalog_row(go_on, &mut |key, row| {
            if is_meant(&row)
                && let Some((db, coll)) = meta::split_catalog(key)
            {
                found.extend(Namespace::new(db, coll).ok());
            }
        })?;
        Ok(found)
    }
}

/// Whether another process has changed the catalog since the collection was found.
fn is_outdated(e: &MongoError) -> bool {
    e.is(ErrorKind::SetAside) || e.is_collection_gone()
}
