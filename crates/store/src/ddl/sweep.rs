//! Background deletion of keys of dropped identifiers, of keys that no catalog row owns, and of
//! indexes whose builds were given up.

use crate::catalog::CatalogRow;
use crate::ddl::writer::CatalogWriter;
use crate::error;
use crate::store::Store;
use model::Result;
use storage::{CursorOpts, IdentSet, KeyRange, Table};

impl CatalogWriter<'_> {
    /// Removes indexes whose builds were given up, as when the client of one has gone that waited
    /// for a transaction: until then writers maintain them. What is in use is left to the next
    /// call. One load when there is nothing to do; to be called every second or so.
    ///
    /// # Errors
    /// Engine failures.
    pub fn sweep_abandoned(&self) -> Result<()> {
        let mut result = Ok(());
        for ns in self.shared.builds_given_up() {
            // Opened anew it has no unfinished indexes.
            let there = self.collection(&ns).transpose();
            let removed = there.map_or(Ok(true), |c| c?.writer(self.operation).remove_abandoned());
            if !matches!(removed, Ok(true)) {
                self.shared.build_given_up(&ns);
            }
            result = result.and(removed.map(|_| ()));
        }
        result
    }
}

impl Store {
    /// Forgets dropped identifiers whose keys are gone from disk. Cheap; to be called every minute
    /// or so.
    ///
    /// # Output
    /// How many are left.
    ///
    /// # Errors
    /// Engine failures.
    pub fn sweep_dropped(&self) -> Result<usize> {
        self.shared.sweep_dropped()
    }

    /// Gives back the space of documents and entries that no catalog row owns: those a crash during
    /// a drop left behind before drops were one commit. To be called once after the start, in the
    /// background; `go_on` is asked now and then.
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
        let mut owned: Vec<u32> = Vec::new();
        let mut failed = None;
        let opts = CursorOpts {
            fill_cache: false,
            ..CursorOpts::default()
        };
        let range = KeyRange {
            lower: b"c",
            upper: b"d",
        };
        let mut cursor = self
            .shared
            .engine
            .cursor(Table::Meta, range, opts)
            .map_err(error::storage)?;
        let each = &mut |_: &[u8], value: &[u8]| {
            match CatalogRow::decode(value) {
                Ok(row) => owned.extend(
                    [row.ident]
                        .into_iter()
                        .chain(row.indexes.iter().map(|i| i.ident)),
                ),
                Err(e) => failed = Some(e),
            }
            failed.is_none()
        };
        while cursor.visit(1024, each).map_err(error::storage)? {
            go_on()?;
        }
        // A row that cannot be read may own anything.
        if let Some(e) = failed {
            return Err(e);
        }
        let owned: IdentSet = owned.into_iter().collect();
        self.shared
            .sweep_unowned(self.shared.idents.first, &owned, go_on)
    }
}
