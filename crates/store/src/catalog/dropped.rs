//! Identifiers of dropped collections and indexes whose keys may still be on disk. Promises: a
//! record of each is written in the batch that removes the identifier from the catalog, so no crash
//! leaves keys without an owner; the record is deleted when the keys are gone, also while the
//! server runs. Must not know: catalog rows.
//!
//! The engine discards keys of dropped identifiers whenever it rewrites data; this module tells it
//! the identifiers.

use crate::error;
use crate::format::meta;
use model::Result;
use parking_lot::Mutex;
use std::sync::Arc;
use storage::{CommitPos, CursorOpts, Engine, IdentSet, KeyRange, Table, WriteBatch};

/// The tables in which identifiers have keys.
pub(super) const TABLES: [Table; 3] = [Table::Doc, Table::Idx, Table::Cap];

/// The keys of a dropped identifier in one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leftover {
    pub(crate) ident: u32,
    pub(crate) table: Table,
    /// Estimated number of keys.
    pub(crate) keys: u64,
}

/// Records of dropped identifiers, as on disk.
#[derive(Default)]
pub(crate) struct DroppedIdents {
    pub(super) records: Mutex<Vec<(Table, u32)>>,
    /// Identifiers that a reader of an earlier state still uses, with the commits that dropped
    /// them. The engine is not told of them yet.
    pub(super) awaited: Mutex<Vec<(CommitPos, Vec<Leftover>)>>,
}

impl DroppedIdents {
    /// Reads the records and passes the identifiers to the engine.
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn load(engine: &dyn Engine) -> Result<DroppedIdents> {
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
        TABLES
            .iter()
            .for_each(|t| notify_engine(engine, *t, &records));
        Ok(DroppedIdents {
            records: Mutex::new(records),
            awaited: Mutex::default(),
        })
    }

    /// Identifiers whose keys are not all deleted.
    pub(crate) fn len(&self) -> usize {
        let awaited: usize = self.awaited.lock().iter().map(|(_, all)| all.len()).sum();
        awaited + self.records.lock().len()
    }

    pub(crate) fn contains(&self, table: Table, ident: u32) -> bool {
        let is_it = |l: &Leftover| (l.table, l.ident) == (table, ident);
        let awaited = self.awaited.lock();
        awaited.iter().any(|(_, all)| all.iter().any(is_it))
            || self.records.lock().contains(&(table, ident))
    }
}

/// Passes the dropped identifiers of a table to the engine.
pub(super) fn notify_engine(engine: &dyn Engine, table: Table, records: &[(Table, u32)]) {
    let set: IdentSet = records
        .iter()
        .filter(|(t, _)| *t == table)
        .map(|(_, i)| *i)
        .collect();
    engine.set_dropped(table, Arc::new(set));
}

/// Adds a record of each dropped identifier to the batch that removes it from the catalog.
pub(crate) fn record(batch: &mut WriteBatch, leftovers: &[Leftover]) {
    for l in leftovers {
        // A capped collection has keys in two tables under one identifier.
        let tables: Vec<u8> = leftovers
            .iter()
            .filter(|o| o.ident == l.ident)
            .map(|o| o.table.index() as u8)
            .collect();
        batch.put(Table::Meta, &meta::drop_key(l.ident), &tables);
        if l.table == Table::Idx {
            batch.delete(Table::Meta, &meta::multikey(l.ident));
        }
    }
}
