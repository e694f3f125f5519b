//! The space of a collection on the device: how much of it is unused, and freeing that. Must not
//! know: how an engine does it.

use crate::catalog::Collection;
use crate::error;
use model::Result;
use storage::{KeyRange, Table};

/// A range of keys of a collection, and the number of its rows where that is known.
struct Part {
    table: Table,
    lower: [u8; 4],
    upper: [u8; 4],
    rows: Option<u64>,
}

impl Part {
    fn range(&self) -> KeyRange<'_> {
        KeyRange::new(&self.lower, &self.upper)
    }
}

impl Collection {
    fn parts(&self) -> Vec<Part> {
        let part = |table, ident: u32, rows| Part {
            table,
            lower: ident.to_be_bytes(),
            upper: (ident + 1).to_be_bytes(),
            rows,
        };
        if self.is_view() {
            return Vec::new();
        }
        if self.is_log() {
            return vec![part(Table::Log, self.ident, None)];
        }
        // The rows of a time series are its buckets, which are not counted.
        let docs = (!self.is_series()).then(|| self.count());
        let mut parts = vec![part(Table::Doc, self.ident, docs)];
        if self.is_capped() {
            parts.push(part(Table::Cap, self.ident, docs));
        }
        for index in self.indexes().iter() {
            let is_whole = !index.is_multikey() && !index.is_sparse() && !index.is_partial();
            let is_whole = is_whole && index.text().is_none() && index.wildcard().is_none();
            parts.push(part(Table::Idx, index.ident(), docs.filter(|_| is_whole)));
        }
        parts
    }

    /// Estimated bytes on the device that hold no live data; data that is only in memory is not
    /// counted.
    ///
    /// # Errors
    /// Engine failures.
    pub fn unused_bytes(&self) -> Result<u64> {
        let unused = |part: &Part| {
            let engine = &self.shared.engine;
            engine
                .unused_size(part.table, part.range(), part.rows)
                .map_err(error::storage)
        };
        self.parts().iter().map(unused).sum()
    }

    /// Frees unused space, as far as the engine does so on demand, until `check` fails to end the
    /// operation.
    ///
    /// # Output
    /// The number of bytes freed, as far as the engine knows it.
    ///
    /// # Errors
    /// That of `check`; engine failures.
    pub fn compact(&self, check: &dyn Fn() -> Result<()>) -> Result<u64> {
        let mut freed = 0;
        for part in self.parts() {
            let engine = &self.shared.engine;
            freed += engine
                .compact(part.table, part.range(), &|| check().is_err())
                .map_err(error::storage)?;
            check()?;
        }
        Ok(freed)
    }
}
