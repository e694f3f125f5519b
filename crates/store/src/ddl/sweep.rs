//! Deletes in the background keys of dropped identifiers, keys that no catalog row owns, and
//! indexes whose builds were abandoned.

use crate::catalog::CatalogRow;
use crate::ddl::writer::CatalogWriter;
use crate::error;
use crate::store::Store;
use model::Result;
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
            let there = self.collection(&ns).transpose();
            let removed = there.map_or(Ok(true), |c| c?.writer(self.operation).remove_abandoned());
            if !matches!(removed, Ok(true)) {
                self.shared.record_abandoned_build(&ns);
            }
            result = result.and(removed.map(|_| ()));
        }
        result
    }
}

impl Store {
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
    /// background; `go_on` is called repeatedly.
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
        // An unreadable row may own any identifier.
        if let Some(e) = failed {
            return Err(e);
        }
        let owned: IdentSet = owned.into_iter().collect();
        self.shared
            .sweep_unowned(self.shared.idents.first, &owned, go_on)
    }
}
