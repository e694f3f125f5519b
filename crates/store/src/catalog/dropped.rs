//! Identifiers of dropped collections and indexes whose keys may still lie on disk. Promises: a
//! record of each is written in the batch that takes the identifier out of the catalog, so no crash
//! leaves keys without an owner; the record goes when the keys are gone, also while the server
//! runs. Must not know: catalog rows.
//!
//! The engine leaves out keys of dropped identifiers whenever it rewrites data; the set of them is
//! told to it here.

use crate::catalog::shared::Shared;
use crate::commit::WriteUnit;
use crate::error;
use crate::format::meta;
use model::Result;
use parking_lot::Mutex;
use std::sync::Arc;
use storage::{Batch, CursorOpts, Engine, IdentSet, KeyRange, Table};

/// Fewer keys than this are deleted one by one when a collection or index is dropped: that leaves
/// nothing behind.
const SMALL_DROP_KEYS: u64 = 1000;

/// Keys of one dropped identifier that a sweep deletes.
const SWEEP_KEYS: usize = 10_000;

/// The tables in which identifiers have keys.
const TABLES: [Table; 3] = [Table::Doc, Table::Idx, Table::Cap];

/// Something of a dropped identifier that has to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leftover {
    pub(crate) ident: u32,
    pub(crate) table: Table,
    /// About how many keys there are.
    pub(crate) keys: u64,
}

/// Records of dropped identifiers, as on disk.
#[derive(Default)]
pub(crate) struct Dropped {
    records: Mutex<Vec<(Table, u32)>>,
}

impl Dropped {
    /// Reads the records and tells the engine.
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn load(engine: &dyn Engine) -> Result<Dropped> {
        let mut records = Vec::new();
        let range = KeyRange {
            lower: b"d",
            upper: b"e",
        };
        let mut cursor = engine
            .cursor(Table::Meta, range, CursorOpts::default())
            .map_err(error::storage)?;
        let each = &mut |key: &[u8], value: &[u8]| {
            let ident = key
                .get(1..5)
                .and_then(|k| k.first_chunk::<4>())
                .map(|k| u32::from_be_bytes(*k));
            if let Some(ident) = ident {
                records.extend(
                    value
                        .iter()
                        .filter_map(|t| Table::from_number(*t))
                        .map(|t| (t, ident)),
                );
            }
            true
        };
        while cursor.visit(1024, each).map_err(error::storage)? {}
        TABLES.iter().for_each(|t| tell(engine, *t, &records));
        Ok(Dropped {
            records: Mutex::new(records),
        })
    }

    /// How many identifiers are waiting for their keys to go.
    pub(crate) fn len(&self) -> usize {
        self.records.lock().len()
    }

    pub(crate) fn contains(&self, table: Table, ident: u32) -> bool {
        self.records.lock().contains(&(table, ident))
    }
}

fn tell(engine: &dyn Engine, table: Table, records: &[(Table, u32)]) {
    let set: IdentSet = records
        .iter()
        .filter(|(t, _)| *t == table)
        .map(|(_, i)| *i)
        .collect();
    engine.set_dropped(table, Arc::new(set));
}

/// Notes in the batch that takes identifiers out of the catalog that their keys have to go.
pub(crate) fn record(batch: &mut Batch, leftovers: &[Leftover]) {
    for l in leftovers {
        // A capped collection lies in two tables under one identifier.
        let tables: Vec<u8> = leftovers
            .iter()
            .filter(|o| o.ident == l.ident)
            .map(|o| o.table.index() as u8)
            .collect();
        batch.put(Table::Meta, &meta::dropped(l.ident), &tables);
        if l.table == Table::Idx {
            batch.delete(Table::Meta, &meta::multikey(l.ident));
        }
    }
}

impl Shared {
    /// Gets rid of the keys of identifiers whose records were committed. What fails here is left to
    /// the engine, which leaves the keys out when it rewrites data, and to the sweeps.
    pub(crate) fn remove_leftovers(&self, leftovers: &[Leftover]) {
        if leftovers.is_empty() {
            return;
        }
        self.dropped
            .records
            .lock()
            .extend(leftovers.iter().map(|l| (l.table, l.ident)));
        let mut gone = Vec::new();
        for l in leftovers {
            let (lower, upper) = (l.ident.to_be_bytes(), (l.ident + 1).to_be_bytes());
            let range = KeyRange {
                lower: &lower,
                upper: &upper,
            };
            if l.keys < SMALL_DROP_KEYS && self.delete_keys(l.table, range).is_ok() {
                gone.push((l.table, l.ident));
                continue;
            }
            tell(self.engine.as_ref(), l.table, &self.dropped.records.lock());
            // Not giving the space back at once is no failure of the drop.
            let _ = self.engine.drop_range(l.table, range);
        }
        let _ = self.forget_dropped(&gone);
    }

    fn delete_keys(&self, table: Table, range: KeyRange<'_>) -> Result<()> {
        let opts = CursorOpts {
            keys_only: true,
            fill_cache: false,
            ..CursorOpts::default()
        };
        let mut cursor = self
            .engine
            .cursor(table, range, opts)
            .map_err(error::storage)?;
        let (mut batch, mut more) = (Batch::new(), true);
        while more {
            batch.clear();
            let each = &mut |key: &[u8], _: &[u8]| {
                batch.delete(table, key);
                true
            };
            more = cursor.visit(1024, each).map_err(error::storage)?;
            self.commit(WriteUnit::new(&batch))?;
        }
        Ok(())
    }

    /// The keys are gone: so are the records.
    fn forget_dropped(&self, gone: &[(Table, u32)]) -> Result<()> {
        if gone.is_empty() {
            return Ok(());
        }
        let mut records = self.dropped.records.lock();
        let left: Vec<(Table, u32)> = records
            .iter()
            .filter(|r| !gone.contains(r))
            .copied()
            .collect();
        let mut batch = Batch::new();
        for (_, ident) in gone {
            let tables: Vec<u8> = left
                .iter()
                .filter(|(_, i)| i == ident)
                .map(|(t, _)| t.index() as u8)
                .collect();
            if tables.is_empty() {
                batch.delete(Table::Meta, &meta::dropped(*ident));
            } else {
                batch.put(Table::Meta, &meta::dropped(*ident), &tables);
            }
        }
        let engine = self.engine.as_ref();
        let forget = &mut |_: storage::CommitPos| {
            *records = left.clone();
            TABLES.iter().for_each(|t| tell(engine, *t, &records));
        };
        self.commit(WriteUnit::new(&batch).then(forget)).map(|_| ())
    }

    /// Forgets dropped identifiers whose keys are all gone, and deletes keys of the others: those a
    /// crash has left behind, and what lies in files together with keys that live. The number left.
    ///
    /// # Cost
    /// A seek for each identifier, and [`SWEEP_KEYS`] deletions at most.
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn sweep_dropped(&self) -> Result<usize> {
        let records = self.dropped.records.lock().clone();
        let mut gone = Vec::new();
        for (table, ident) in records {
            if self.engine.is_gone(table, ident).map_err(error::storage)?
                || self.delete_some(table, ident)?
            {
                gone.push((table, ident));
            }
        }
        self.forget_dropped(&gone)?;
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
        let mut batch = Batch::new();
        let each = &mut |key: &[u8], _: &[u8]| {
            batch.delete(table, key);
            true
        };
        let more = cursor.visit(SWEEP_KEYS, each).map_err(error::storage)?;
        self.commit(WriteUnit::new(&batch))?;
        Ok(!more)
    }

    /// Drops the keys of identifiers below `below` that nobody owns: left by a crash of an older
    /// version.
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
        let mut found = 0;
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
                if !owned.contains(ident) && !self.dropped.contains(table, ident) {
                    let leftovers = [Leftover {
                        ident,
                        table,
                        keys: u64::MAX,
                    }];
                    let mut batch = Batch::new();
                    record(&mut batch, &leftovers);
                    self.commit(WriteUnit::new(&batch))?;
                    self.remove_leftovers(&leftovers);
                    found += 1;
                }
            }
        }
        Ok(found)
    }
}
