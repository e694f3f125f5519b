//! Opens the indexes of a collection. Promises: an index has the marks of the state from which its
//! catalog row was read. Must not know: entries, documents.

use crate::catalog::opened::OpenedRows;
use crate::catalog::shared::Shared;
use crate::index::Index;
use model::Result;
use std::sync::Arc;

/// Opens the indexes of a catalog row with their marks. Unfinished ones are left out, unless
/// another process may be building them.
///
/// # Errors
/// Those of the hooks for filters and collations.
pub(super) fn open_indexes(shared: &Shared, rows: &OpenedRows<'_>) -> Result<Vec<Arc<Index>>> {
    let mut indexes = Vec::new();
    for (n, i) in rows.row.indexes.iter().enumerate() {
        if !i.ready && !shared.has_joined {
            continue;
        }
        let mark = rows.multikey(n).and_then(|mark| mark.first_chunk::<4>());
        let bits = mark.map_or(0, |b| u32::from_le_bytes(*b));
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
