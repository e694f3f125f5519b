//! Finds documents that share a key of an index that is to become unique.

use crate::catalog::Collection;
use crate::error;
use crate::format::keys;
use crate::index::Index;
use crate::view::ReadView;
use model::{OwnedValue, Result};
use std::cell::Cell;
use storage::{CursorOpts, KeyRange, Table};

/// Number of entries between two calls of `go_on`.
const STEP: usize = 4096;

impl Collection {
    /// The ids of documents that share a key of a non-unique index, key by key, up to about
    /// `bytes_max` of ids. `go_on` is asked every few entries.
    ///
    /// # Cost
    /// A walk over the index, and a read of every document that shares a key.
    ///
    /// # Errors
    /// Those of `go_on`; 175 QueryPlanKilled when the collection is gone; engine failures.
    pub fn shared_keys(
        &self,
        index: &Index,
        bytes_max: usize,
        go_on: &dyn Fn() -> Result<()>,
    ) -> Result<Vec<Vec<OwnedValue>>> {
        let (lower, upper) = (
            index.ident().to_be_bytes(),
            index.ident().saturating_add(1).to_be_bytes(),
        );
        let range = KeyRange {
            lower: &lower,
            upper: &upper,
        };
        let opts = CursorOpts {
            fill_cache: false,
            ..CursorOpts::default()
        };
        let engine = &self.shared.engine;
        let mut cursor = engine
            .cursor(Table::Idx, range, opts)
            .map_err(error::storage)?;
        let (mut last, mut groups) = (Vec::new(), Groups::default());
        let (damaged, full) = (Cell::new(false), Cell::new(false));
        let each = &mut |entry: &[u8], _: &[u8]| {
            let Some((key, id)) = keys::split_tail(entry) else {
                damaged.set(true);
                return false;
            };
            if key != last.as_slice() {
                groups.end();
                last.clear();
                last.extend_from_slice(key);
            }
            full.set(groups.add(id) > bytes_max);
            !full.get()
        };
        loop {
            go_on()?;
            let more = cursor.visit(STEP, each).map_err(error::storage)?;
            if !more || damaged.get() || full.get() {
                break;
            }
        }
        if damaged.get() {
            return Err(error::corrupt(&format!(
                "an entry of index {}",
                index.name()
            )));
        }
        groups.end();
        groups
            .ended
            .iter()
            .map(|group| self.ids_of(group))
            .collect()
    }

    /// The values of encoded ids.
    fn ids_of(&self, encoded: &[Vec<u8>]) -> Result<Vec<OwnedValue>> {
        let ids: Vec<&[u8]> = encoded.iter().map(Vec::as_slice).collect();
        let mut out = Vec::with_capacity(encoded.len());
        self.get_encoded(&ReadView::LATEST, &ids, &mut |row| {
            out.push(row.doc.field("_id").to_owned_value());
            true
        })?;
        Ok(out)
    }
}

/// Groups encoded ids by key; keeps the groups of several documents.
#[derive(Default)]
struct Groups {
    /// Ids of the key that is being read.
    open: Vec<Vec<u8>>,
    ended: Vec<Vec<Vec<u8>>>,
    /// Bytes of all ids after the first of their key.
    bytes: usize,
}

impl Groups {
    /// Adds an id; returns the total bytes.
    fn add(&mut self, id: &[u8]) -> usize {
        self.open.push(id.to_vec());
        if self.open.len() > 1 {
            self.bytes += id.len();
        }
        self.bytes
    }

    fn end(&mut self) {
        let group = std::mem::take(&mut self.open);
        if group.len() > 1 {
            self.ended.push(group);
        }
    }
}
