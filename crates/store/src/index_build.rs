//! Building an index while the collection is in use: it is registered first, so that writers maintain it; then the
//! documents that were there before are walked in small steps under their locks; then readers may use it.

use crate::capped;
use crate::collection::Collection;
use crate::error;
use crate::format::{meta, record};
use crate::index::{Index, KeySet};
use crate::insert::{duplicate_key, fits, mark_multikey, put_entries, unique_entry};
use crate::locks::{LockTable, StripeId};
use model::{DocBuf, Result};
use smallvec::SmallVec;
use std::sync::Arc;
use storage::{Batch, CursorOpts, Durability, KeyRange, RowBatch, Table, WriteClass};

const STEP_DOCS: usize = 64;

impl Collection {
    /// Builds an index from a complete specification. The caller has checked that no index of that name or key exists.
    ///
    /// # Errors
    /// 11000 when documents share a unique key, 171 parallel arrays, 67 for a key that cannot be indexed; nothing of
    /// the index remains then.
    pub fn create_index(&self, spec: DocBuf) -> Result<()> {
        self.create_index_while(spec, &|| Ok(()))
    }

    /// [`Collection::create_index`], asking `go_on` every few documents.
    ///
    /// # Errors
    /// Those of [`Collection::create_index`] and of `go_on`; nothing of the index remains then.
    pub fn create_index_while(&self, spec: DocBuf, go_on: &dyn Fn() -> Result<()>) -> Result<()> {
        let ident = self.shared.new_ident()?;
        let index = Arc::new(Index::open(ident, spec, false, 0, self.shared.hooks.as_ref())?);
        self.replace_indexes(|list| list.push(index.clone()))?;
        match self.fill(&index, go_on) {
            Ok(()) => {
                index.set_ready();
                self.replace_indexes(|_| {})
            }
            Err(e) => {
                self.remove_index(&index)?;
                Err(e)
            }
        }
    }

    /// Drops the index called `name`; false when there is none.
    ///
    /// # Errors
    /// Engine failures.
    pub fn drop_index(&self, name: &str) -> Result<bool> {
        let Some(index) = self.indexes().iter().find(|i| i.name() == name).cloned() else { return Ok(false) };
        self.remove_index(&index)?;
        Ok(true)
    }

    fn remove_index(&self, index: &Arc<Index>) -> Result<()> {
        self.replace_indexes(|list| list.retain(|i| i.ident() != index.ident()))?;
        self.shared.drop_index_keys(index, self.count())
    }

    /// Replaces the specification of an index (collMod: hidden, expireAfterSeconds, ...).
    ///
    /// # Errors
    /// As [`Index::open`]; engine failures.
    pub fn respecify_index(&self, name: &str, spec: DocBuf) -> Result<()> {
        let mut failed = None;
        self.replace_indexes(|list| {
            for i in list.iter_mut().filter(|i| i.name() == name) {
                let hooks = self.shared.hooks.as_ref();
                match Index::open(i.ident(), spec.clone(), i.is_ready(), i.multikey_bits(), hooks) {
                    Ok(new) => *i = Arc::new(new),
                    Err(e) => failed = Some(e),
                }
            }
        })?;
        failed.map_or(Ok(()), Err)
    }

    /// Replaces the options (collMod).
    ///
    /// # Errors
    /// Engine failures.
    pub fn set_options(&self, options: DocBuf) -> Result<()> {
        let mut state = self.state.write();
        if state.dropped {
            return Err(self.gone());
        }
        let capped = capped::is_capped(options.doc());
        if capped && !state.capped {
            self.write_order()?;
        }
        self.shared.write_row(&self.ns, &self.row(&options, &state.indexes))?;
        state.options = Arc::new(options);
        state.capped = capped;
        Ok(())
    }

    /// Changes the list of indexes, on disk first. Waits for writers that still see the old list.
    fn replace_indexes(&self, change: impl FnOnce(&mut Vec<Arc<Index>>)) -> Result<()> {
        let mut state = self.state.write();
        if state.dropped {
            return Err(self.gone());
        }
        let mut list = state.indexes.as_ref().clone();
        change(&mut list);
        self.shared.write_row(&self.ns, &self.row(&state.options, &list))?;
        state.indexes = Arc::new(list);
        Ok(())
    }

    fn fill(&self, index: &Index, go_on: &dyn Fn() -> Result<()>) -> Result<()> {
        let engine = &self.shared.engine;
        let (mut lower, upper) = (self.key_bounds().0.to_vec(), self.key_bounds().1);
        let (mut rows, mut batch) = (RowBatch::new(), Batch::new());
        let (mut set, mut entry, mut value) = (KeySet::default(), Vec::new(), Vec::new());
        loop {
            go_on()?;
            // The walk only names candidates; each is read again under its lock.
            let opts = CursorOpts { keys_only: true, fill_cache: false, ..CursorOpts::default() };
            let range = KeyRange { lower: &lower, upper: &upper };
            let mut cursor = engine.cursor(Table::Doc, range, opts).map_err(error::storage)?;
            let more = cursor.next_batch(&mut rows, STEP_DOCS, 1 << 20).map_err(error::storage)?;
            drop(cursor);
            engine.admit(rows.len() * 64, WriteClass::Background);
            for (key, _) in rows.iter() {
                self.index_one(index, key, &mut batch, &mut set, &mut entry, &mut value)?;
                lower.clear();
                lower.extend_from_slice(key);
                lower.push(0);
            }
            if !more {
                return Ok(());
            }
        }
    }

    fn index_one(
        &self,
        index: &Index,
        key: &[u8],
        batch: &mut Batch,
        set: &mut KeySet,
        entry: &mut Vec<u8>,
        value: &mut Vec<u8>,
    ) -> Result<()> {
        let engine = &self.shared.engine;
        let id = &key[4..];
        let own = LockTable::stripe(key);
        let mut stripes: SmallVec<[StripeId; 8]> = SmallVec::from_slice(&[own]);
        loop {
            let held = self.shared.locks.lock(&mut stripes);
            if !engine.get(Table::Doc, key, value).map_err(error::storage)? {
                return Ok(());
            }
            let Some((_, doc)) = record::read(value) else { return Err(error::corrupt("a record")) };
            index.keys_of(doc, set)?;
            fits(index, set, key.len(), engine.caps().key_bytes_max)?;
            if index.is_unique() {
                let mut wanted = stripes.clone();
                for k in set.iter() {
                    unique_entry(index, k, entry);
                    wanted.push(LockTable::stripe(entry));
                }
                wanted.sort_unstable();
                wanted.dedup();
                if wanted != stripes {
                    drop(held);
                    stripes = wanted;
                    continue;
                }
                for k in set.iter() {
                    unique_entry(index, k, entry);
                    let mut other = false;
                    engine
                        .get_with(Table::Idx, entry, &mut |owner| other = owner != id)
                        .map_err(error::storage)?;
                    if other {
                        return Err(duplicate_key(self, index, doc));
                    }
                }
            }
            batch.clear();
            put_entries(batch, index, set.iter(), id, entry);
            mark_multikey(batch, index, set.multikey);
            if !batch.is_empty() {
                engine.apply(batch, Durability::Buffered).map_err(error::storage)?;
            }
            return Ok(());
        }
    }
}

/// Removes unfinished indexes of a row found at open (a crash during a build).
pub(crate) fn unfinished(row: &crate::catalog::CatalogRow) -> Vec<u32> {
    row.indexes.iter().filter(|i| !i.ready).map(|i| i.ident).collect()
}

/// Forgets the multikey mark of a dropped index.
pub(crate) fn forget(batch: &mut Batch, ident: u32) {
    batch.delete(Table::Meta, &meta::multikey(ident));
}
