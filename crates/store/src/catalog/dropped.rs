//! Identifiers of dropped collections and indexes whose keys may still be on disk. Promises: a
//! record of each is written in the batch that removes the identifier from the catalog, so no crash
//! leaves keys without an owner; the record is deleted when the keys are gone, also while the
//! server runs. Records that the log refers to stay until their documents are saved in the log (ADR
//! 0051). Must not know: catalog rows, the log.
//!
//! The engine discards keys of dropped identifiers whenever it rewrites data; this module tells it
//! the identifiers.

use crate::error;
use crate::exclusive::Exclusive;
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
    /// The log refers to records with this identifier: its keys in all tables stay until the
    /// documents are saved.
    pub(crate) is_referenced: bool,
}

/// In a record of an identifier, beside the number of a table: [`Leftover::is_referenced`].
const REFERENCED: u8 = 0x80;

impl Leftover {
    /// As its byte in the record of the identifier says.
    fn of_record(ident: u32, number: u8) -> Option<Leftover> {
        Some(Leftover {
            ident,
            table: Table::from_number(number & !REFERENCED)?,
            keys: u64::MAX,
            is_referenced: number & REFERENCED != 0,
        })
    }

    /// Its byte in the record of the identifier.
    fn number(&self) -> u8 {
        let referenced = if self.is_referenced { REFERENCED } else { 0 };
        self.table.index() as u8 | referenced
    }
}

/// Records of dropped identifiers, as on disk.
#[derive(Default)]
pub(crate) struct DroppedIdents {
    pub(super) records: Mutex<Vec<(Table, u32)>>,
    /// Identifiers that a reader of an earlier state still uses, with the commits that dropped
    /// them. The engine is not told of them yet.
    pub(super) awaited: Mutex<Vec<(CommitPos, Vec<Leftover>)>>,
    /// Identifiers of records that the log refers to, with the commits that dropped them. The
    /// engine does not know them yet.
    pub(super) referenced: Mutex<Vec<(CommitPos, Vec<Leftover>)>>,
    /// Identifiers whose records a commit changes. The list of records is not locked meanwhile:
    /// others would wait for a flush.
    pub(super) changing: Exclusive<u32>,
}

impl DroppedIdents {
    /// Reads the records and passes the identifiers to the engine.
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn load(engine: &dyn Engine) -> Result<DroppedIdents> {
        let dropped = DroppedIdents::read(engine)?;
        let records = dropped.records.lock();
        TABLES
            .iter()
            .for_each(|t| notify_engine(engine, *t, &records));
        drop(records);
        Ok(dropped)
    }

    /// Reads the records.
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn read(engine: &dyn Engine) -> Result<DroppedIdents> {
        let (mut records, mut referenced) = (Vec::new(), Vec::new());
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
                let (kept, free): (Vec<Leftover>, Vec<Leftover>) = value
                    .iter()
                    .filter_map(|number| Leftover::of_record(ident, *number))
                    .partition(|leftover| leftover.is_referenced);
                records.extend(free.iter().map(|l| (l.table, ident)));
                if !kept.is_empty() {
                    // Nobody reads the state before a drop of an earlier process.
                    referenced.push((CommitPos::default(), kept));
                }
            }
            true
        };
        while cursor.visit(1024, each).map_err(error::storage)? {}
        Ok(DroppedIdents {
            records: Mutex::new(records),
            referenced: Mutex::new(referenced),
            ..DroppedIdents::default()
        })
    }

    /// Reads the records again, except for what this process still has readers for.
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn read_again(&self, engine: &dyn Engine) -> Result<()> {
        let stored = DroppedIdents::load(engine)?.records.into_inner();
        let awaited = self.awaited.lock();
        let is_awaited = |(table, ident): &(Table, u32)| {
            let is_it = |l: &Leftover| (l.table, l.ident) == (*table, *ident);
            awaited.iter().any(|(_, all)| all.iter().any(is_it))
        };
        let free = stored.into_iter().filter(|record| !is_awaited(record));
        *self.records.lock() = free.collect();
        Ok(())
    }

    /// Identifiers whose keys are not all deleted.
    pub(crate) fn len(&self) -> usize {
        let awaited: usize = self.awaited.lock().iter().map(|(_, all)| all.len()).sum();
        let referenced = self.referenced.lock();
        let referenced: usize = referenced.iter().map(|(_, all)| all.len()).sum();
        awaited + referenced + self.records.lock().len()
    }

    pub(crate) fn contains(&self, table: Table, ident: u32) -> bool {
        let is_it = |l: &Leftover| (l.table, l.ident) == (table, ident);
        // In this order, since an identifier moves from the first list to one of the others.
        let referenced = self.referenced.lock();
        if referenced.iter().any(|(_, all)| all.iter().any(is_it)) {
            return true;
        }
        drop(referenced);
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
            .map(Leftover::number)
            .collect();
        batch.put(Table::Meta, &meta::drop_key(l.ident), &tables);
        if l.table == Table::Idx {
            batch.delete(Table::Meta, &meta::multikey(l.ident));
        }
    }
}
