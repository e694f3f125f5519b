//! Tables and secondary indexes over an ordered engine, shared by all sessions.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};

use super::directory::OwnDirectory;
use super::encode;
use crate::engine::{Counters, LabEngine};
use crate::row::contents::Contents;
use crate::row::{Key, Value};
use crate::target::Table;

/// The number of locks that protect rows from concurrent changes.
pub(super) const STRIPES: usize = 1_024;

/// A secondary index as positions among a row's fields.
#[derive(Clone, Debug)]
pub(super) struct KvIndex {
    /// Positions of its fields.
    pub(super) fields: Vec<usize>,
    /// Whether the index is unique.
    pub(super) unique: bool,
}

/// State that all sessions share.
pub(super) struct KvTables {
    pub(super) engine: Box<dyn LabEngine>,
    pub(super) tables: Vec<Table>,
    /// The contents that rows of each table must have.
    pub(super) contents: Vec<Contents>,
    pub(super) indexes: RwLock<Vec<KvIndex>>,
    pub(super) stripes: Vec<Mutex<()>>,
    /// The next id for rows whose ids the target makes.
    pub(super) next_id: AtomicI64,
    /// The directory, kept locked while the engine is open.
    pub(super) directory: OwnDirectory,
    pub(super) address: String,
    pub(super) durability: String,
    /// The engine's counters at the last request for statistics.
    pub(super) counted: Mutex<Counters>,
}

impl KvTables {
    /// The keys of a row's index entries.
    pub(super) fn entries(&self, table: usize, id: &[u8], values: &[Value]) -> Vec<Vec<u8>> {
        let indexes = self.indexes.read().unwrap_or_else(PoisonError::into_inner);
        let entry = |(number, index): (usize, &KvIndex)| {
            let mut out = encode::prefix(table, space_of(number));
            let fields = index.fields.iter().filter_map(|at| values.get(*at));
            fields.for_each(|value| encode::push_ordered(&mut out, value));
            out.extend(id);
            out
        };
        indexes.iter().enumerate().map(entry).collect()
    }

    /// The prefixes, up to the id, of a row's entries in unique indexes.
    pub(super) fn unique_prefixes(&self, table: usize, values: &[Value]) -> Vec<Vec<u8>> {
        let indexes = self.indexes.read().unwrap_or_else(PoisonError::into_inner);
        let prefix = |(number, index): (usize, &KvIndex)| {
            let mut out = encode::prefix(table, space_of(number));
            let fields = index.fields.iter().filter_map(|at| values.get(*at));
            fields.for_each(|value| encode::push_ordered(&mut out, value));
            out
        };
        let unique = indexes.iter().enumerate().filter(|(_, index)| index.unique);
        unique.map(prefix).collect()
    }

    /// Whether an insert must first check that its keys do not exist.
    pub(super) fn guards(&self, table: usize) -> bool {
        let indexes = self.indexes.read();
        let indexes = indexes.unwrap_or_else(PoisonError::into_inner);
        indexes.iter().any(|index| index.unique)
            || self
                .tables
                .get(table)
                .is_some_and(|table| table.ids_in_no_order)
    }

    pub(super) fn has_indexes(&self) -> bool {
        let indexes = self.indexes.read();
        !indexes.unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

impl KvTables {
    pub(super) fn make_id(&self) -> Key {
        Key::Number(self.next_id.fetch_add(1, Ordering::Relaxed))
    }
}

pub(super) fn space_of(index: usize) -> u8 {
    u8::try_from(index).unwrap_or(250).saturating_add(1)
}
