//! Opens the indexes of a collection. Promises: an index has the marks of the state from which its
//! catalog row was read. Must not know: entries, documents.

use crate::catalog::row::CatalogRow;
use crate::catalog::shared::Shared;
use crate::error;
use crate::format::meta;
use crate::index::Index;
use model::Result;
use std::sync::Arc;
use storage::{Reader, Table};

/// Opens the indexes of a catalog row with their marks. Unfinished ones are left out, unless
/// another process may be building them.
///
/// # Errors
/// Engine failures; those of the hooks for filters and collations.
pub(super) fn open_indexes(
    shared: &Shared,
    row: &CatalogRow,
    reader: &dyn Reader,
) -> Result<Vec<Arc<Index>>> {
    let mut buf = Vec::new();
    let mut indexes = Vec::new();
    for i in row.indexes.iter().filter(|i| i.ready || shared.has_joined) {
        let found = reader
            .get(Table::Meta, &meta::multikey(i.ident), &mut buf)
            .map_err(error::storage)?;
        let bits = buf
            .first_chunk::<4>()
            .filter(|_| found)
            .map_or(0, |b| u32::from_le_bytes(*b));
        let index = Index::open(
            i.ident,
            i.spec.clone(),
            i.ready,
            bits,
            shared.hooks.as_ref(),
        )?;
        indexes.push(Arc::new(
            index.with_format(i.keyed, i.marked).with_builder(i.builder),
        ));
    }
    Ok(indexes)
}
