//! The rows from which a collection is opened. Promises: they are of one state, and read in one
//! visit to the engine; a later state can be compared with them. Must not know: what a collection
//! does with them.

use crate::catalog::row::CatalogRow;
use crate::error;
use crate::format::meta;
use model::{Namespace, Result};
use storage::{Reader, Table};

/// The catalog row of a collection and its marks.
pub(super) struct OpenedRows<'r> {
    pub(super) row: &'r CatalogRow,
    marks: Vec<Option<Vec<u8>>>,
}

/// The same rows, kept with the collection.
#[derive(PartialEq)]
pub(super) struct KeptRows {
    row: CatalogRow,
    marks: Vec<Option<Vec<u8>>>,
}

impl<'r> OpenedRows<'r> {
    /// Reads the marks.
    ///
    /// # Errors
    /// Engine failures.
    pub(super) fn read(row: &'r CatalogRow, reader: &dyn Reader) -> Result<OpenedRows<'r>> {
        let marks = read_marks(row, reader)?;
        Ok(OpenedRows { row, marks })
    }

    /// The mark that ids did not arrive in the order of their keys.
    pub(super) fn unordered(&self) -> Option<&[u8]> {
        self.marks.first()?.as_deref()
    }

    /// The mark of arrays in the index with this number in the row.
    pub(super) fn multikey(&self, index: usize) -> Option<&[u8]> {
        self.marks.get(index + 1)?.as_deref()
    }

    pub(super) fn keep(self) -> KeptRows {
        KeptRows {
            row: self.row.clone(),
            marks: self.marks,
        }
    }
}

impl KeptRows {
    /// Whether a state has the same rows.
    ///
    /// # Errors
    /// Engine failures.
    pub(super) fn are_in(&self, ns: &Namespace, reader: &dyn Reader) -> Result<bool> {
        let mut same = false;
        let key = meta::catalog(ns.db(), ns.coll());
        let compare = &mut |bytes: &[u8]| {
            same = CatalogRow::decode(bytes).is_ok_and(|row| row == self.row);
        };
        reader
            .get_with(Table::Meta, &key, compare)
            .map_err(error::storage)?;
        Ok(same && read_marks(&self.row, reader)? == self.marks)
    }
}

/// The mark of the order, then that of each index.
fn read_marks(row: &CatalogRow, reader: &dyn Reader) -> Result<Vec<Option<Vec<u8>>>> {
    let order = std::iter::once(meta::unordered(row.ident));
    let keys: Vec<[u8; 5]> = order
        .chain(row.indexes.iter().map(|i| meta::multikey(i.ident)))
        .collect();
    let keys: Vec<&[u8]> = keys.iter().map(<[u8; 5]>::as_slice).collect();
    let mut marks = vec![None; keys.len()];
    reader
        .multi_get(Table::Meta, &keys, &mut |n, value| {
            if let Some(mark) = marks.get_mut(n) {
                *mark = value.map(<[u8]>::to_vec);
            }
        })
        .map_err(error::storage)?;
    Ok(marks)
}
