//! Deleting the keys of dropped identifiers: at the drop, and by sweeps. Must not know: catalog
//! rows.

use crate::catalog::dropped::{Leftover, TABLES, notify_engine, record};
use crate::catalog::shared::Shared;
use crate::commit::WriteUnit;
use crate::error;
use crate::format::meta;
use model::Result;
use storage::{CommitPos, CursorOpts, IdentSet, KeyRange, Table, WriteBatch};

/// A dropped collection or index with fewer keys than this is deleted key by key, which leaves
/// nothing on disk.
const SMALL_DROP_KEYS: u64 = 1000;

/// Keys of small identifiers that one commit deletes.
const DELETED_KEYS: usize = 1024;

/// Keys of one dropped identifier that one sweep deletes.
const SWEEP_KEYS: usize = 10_000;

impl Shared {
    /// Deletes the keys of identifiers whose records were committed at `dropped_at`, once no reader
    /// uses an earlier state. Keys that remain after a failure are deleted by the sweeps, or by the
    /// engine when it rewrites data.
    pub(crate) fn remove_leftovers(&self, leftovers: Vec<Leftover>, dropped_at: CommitPos) {
        let (referenced, leftovers): (Vec<_>, Vec<_>) =
            leftovers.into_iter().partition(|l| l.is_referenced);
        if !referenced.is_empty() {
            self.dropped
                .referenced
                .lock()
                .push((dropped_at, referenced));
        }
        if leftovers.is_empty() {
            return;
        }
        let mut awaited = self.dropped.awaited.lock();
        if self.pins.is_held_before(dropped_at) {
            awaited.push((dropped_at, leftovers));
            return;
        }
        drop(awaited);
        self.remove_unseen(&leftovers);
    }

    /// What dropped collections left to which the log refers, with the commits of the drops.
    /// [`Shared::free_referenced`] is called with it once the documents are saved.
    pub(crate) fn referenced_leftovers(&self) -> Vec<(CommitPos, Vec<Leftover>)> {
        self.dropped.referenced.lock().clone()
    }

    /// Deletes the keys of dropped collections. Their documents were saved in the log, and are
    /// durable before any record goes.
    ///
    /// # Errors
    /// Engine failures; the records stay.
    pub(crate) fn free_referenced(&self, saved: &[(CommitPos, Vec<Leftover>)]) -> Result<()> {
        let is_referenced = false;
        let free = |l: &Leftover| Leftover {
            is_referenced,
            ..*l
        };
        let mut batch = WriteBatch::new();
        let mut freed = Vec::with_capacity(saved.len());
        for (dropped_at, leftovers) in saved {
            let leftovers: Vec<Leftover> = leftovers.iter().map(free).collect();
            record(&mut batch, &leftovers);
            freed.push((*dropped_at, leftovers));
        }
        self.commit(WriteUnit::new(&batch).durable())?;
        for (dropped_at, leftovers) in freed {
            self.remove_leftovers(leftovers, dropped_at);
        }
        let mut referenced = self.dropped.referenced.lock();
        referenced.retain(|each| !saved.contains(each));
        Ok(())
    }

    /// Deletes the keys of identifiers that had readers when they were dropped and have none now.
    fn remove_awaited(&self) {
        let mut awaited = self.dropped.awaited.lock();
        let (kept, unseen): (Vec<_>, Vec<_>) = std::mem::take(&mut *awaited)
            .into_iter()
            .partition(|(pos, _)| self.pins.is_held_before(*pos));
        *awaited = kept;
        drop(awaited);
        unseen
            .iter()
            .for_each(|(_, leftovers)| self.remove_unseen(leftovers));
    }

    /// Deletes the keys of small identifiers and their records in one commit if possible: on some
    /// engines each commit is a flush, and a client waits.
    fn remove_unseen(&self, leftovers: &[Leftover]) {
        self.dropped
            .records
            .lock()
            .extend(leftovers.iter().map(|l| (l.table, l.ident)));
        let (mut gone, mut batch) = (Vec::new(), WriteBatch::new());
        for l in leftovers {
            let (lower, upper) = (l.ident.to_be_bytes(), (l.ident + 1).to_be_bytes());
            let range = KeyRange {
                lower: &lower,
                upper: &upper,
            };
            if l.keys < SMALL_DROP_KEYS && self.delete_keys(l.table, range, &mut batch).is_ok() {
                gone.push((l.table, l.ident));
                continue;
            }
            notify_engine(self.engine.as_ref(), l.table, &self.dropped.records.lock());
            // The drop has succeeded even if its space is not freed at once.
            let _ = self.engine.drop_range(l.table, range);
        }
        let _ = self.forget_dropped(&gone, batch);
    }

    /// Adds the deletion of all keys of a range to a batch, which is committed whenever it has
    /// become large.
    fn delete_keys(&self, table: Table, range: KeyRange<'_>, batch: &mut WriteBatch) -> Result<()> {
        let opts = CursorOpts {
            keys_only: true,
            fill_cache: false,
            ..CursorOpts::default()
        };
        let mut cursor = self
            .engine
            .cursor(table, range, opts)
            .map_err(error::storage)?;
        let mut more = true;
        while more {
            let each = &mut |key: &[u8], _: &[u8]| {
                batch.delete(table, key);
                true
            };
            more = cursor.visit(DELETED_KEYS, each).map_err(error::storage)?;
            if batch.len() >= DELETED_KEYS {
                self.commit(WriteUnit::new(batch))?;
                batch.clear();
            }
        }
        Ok(())
    }

    /// Deletes the records of identifiers that have no key left after `batch`, which deletes their
    /// last keys.
    fn forget_dropped(&self, gone: &[(Table, u32)], mut batch: WriteBatch) -> Result<()> {
        if gone.is_empty() {
            return Ok(());
        }
        let changing = self.dropped.changing.take(gone.iter().map(|(_, i)| *i));
        let mut left = self.dropped.records.lock().clone();
        left.retain(|r| !gone.contains(r));
        for (_, ident) in gone {
            let tables: Vec<u8> = left
                .iter()
                .filter(|(_, i)| i == ident)
                .map(|(t, _)| t.index() as u8)
                .collect();
            if tables.is_empty() {
                batch.delete(Table::Meta, &meta::drop_key(*ident));
            } else {
                batch.put(Table::Meta, &meta::drop_key(*ident), &tables);
            }
        }
        let engine = self.engine.as_ref();
        let forget = &mut |_: CommitPos| {
            let mut records = self.dropped.records.lock();
            records.retain(|r| !gone.contains(r));
            TABLES
                .iter()
                .for_each(|t| notify_engine(engine, *t, &records));
        };
        let done = self.commit(WriteUnit::new(&batch).add_hook(forget));
        drop(changing);
        done.map(|_| ())
    }

    /// Deletes the records of dropped identifiers whose keys are all gone, and keys of the others:
    /// those that a crash left behind, and those in files together with live keys. Returns the
    /// number of identifiers left.
    ///
    /// # Cost
    /// A seek for each identifier, and [`SWEEP_KEYS`] deletions at most.
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn sweep_dropped(&self) -> Result<usize> {
        self.remove_awaited();
        if self.has_joined {
            // Other processes have dropped something, too, and may have gone.
            self.dropped.read_again(self.engine.as_ref())?;
        }
        let records = self.dropped.records.lock().clone();
        let mut gone = Vec::new();
        for (table, ident) in records {
            if self.engine.is_gone(table, ident).map_err(error::storage)?
                || self.delete_some(table, ident)?
            {
                gone.push((table, ident));
            }
        }
        self.forget_dropped(&gone, WriteBatch::new())?;
        Ok(self.dropped.len())
    }

    /// Deletes keys of a dropped identifier; true when none is left.
    fn delete_some(&self, table: Table, ident: u32) -> Result<bool> {
        let (lower, upper) = (ident.to_be_bytes(), (ident + 1).to_be_bytes());
        let range = KeyRange {
            lower: &lower,
            upper: &upper,
        };
        let opts = CursorOpts {
            keys_only: true,
            fill_cache: false,
            ..CursorOpts::default()
        };
        let mut cursor = self
            .engine
            .cursor(table, range, opts)
            .map_err(error::storage)?;
        let mut batch = WriteBatch::new();
        let each = &mut |key: &[u8], _: &[u8]| {
            batch.delete(table, key);
            true
        };
        let more = cursor.visit(SWEEP_KEYS, each).map_err(error::storage)?;
        self.commit(WriteUnit::new(&batch))?;
        Ok(!more)
    }

    /// Deletes the keys of unowned identifiers below `below`, which a crash of an older version may
    /// have left.
    ///
    /// # Output
    /// Their number.
    ///
    /// # Cost
    /// A seek for each identifier that has keys.
    ///
    /// # Errors
    /// Engine failures; those of `go_on`.
    pub(crate) fn sweep_unowned(
        &self,
        below: u32,
        owned: &IdentSet,
        go_on: &dyn Fn() -> Result<()>,
    ) -> Result<usize> {
        let mut number = 0;
        for (table, ident) in self.list_idents(below, go_on)? {
            if !owned.contains(ident) && !self.dropped.contains(table, ident) {
                go_on()?;
                self.remove_unowned(table, ident)?;
                number += 1;
            }
        }
        Ok(number)
    }

    /// Deletes the keys of an identifier that no catalog row owns.
    pub(crate) fn remove_unowned(&self, table: Table, ident: u32) -> Result<()> {
        let leftovers = vec![Leftover {
            ident,
            table,
            keys: u64::MAX,
            is_referenced: false,
        }];
        let mut batch = WriteBatch::new();
        record(&mut batch, &leftovers);
        let pos = self.commit(WriteUnit::new(&batch))?;
        self.remove_leftovers(leftovers, pos);
        Ok(())
    }

    /// The identifiers below `below` that have keys, with their tables.
    pub(crate) fn list_idents(
        &self,
        below: u32,
        go_on: &dyn Fn() -> Result<()>,
    ) -> Result<Vec<(Table, u32)>> {
        let mut found = Vec::new();
        for table in TABLES {
            let opts = CursorOpts {
                keys_only: true,
                limit_hint: 1,
                fill_cache: false,
                ..CursorOpts::default()
            };
            let upper = below.to_be_bytes();
            let range = KeyRange {
                lower: &[],
                upper: &upper,
            };
            let mut cursor = self
                .engine
                .cursor(table, range, opts)
                .map_err(error::storage)?;
            let mut next = 0u32;
            loop {
                go_on()?;
                cursor.seek(&next.to_be_bytes()).map_err(error::storage)?;
                let mut ident = None;
                let first = &mut |key: &[u8], _: &[u8]| {
                    ident = key.first_chunk::<4>().map(|b| u32::from_be_bytes(*b));
                    false
                };
                cursor.visit(1, first).map_err(error::storage)?;
                let Some(ident) = ident else { break };
                next = ident.saturating_add(1);
                found.push((table, ident));
            }
        }
        Ok(found)
    }
}
