//! Reads the last document of a collection when the collection is opened. Promises: a damaged last
//! document does not restart the order of insertion. Must not know: who opens it, indexes.

use crate::catalog::live::Order;
use crate::error;
use crate::format::record;
use model::Result;
use std::cell::Cell;
use storage::{CursorOpts, KeyRange, Reader, Table};

/// Notes the last document: no key is above its key, and in an ordered collection it has the
/// highest sequence number. There a damaged one is passed over.
///
/// # Errors
/// Engine failures.
pub(super) fn read_last(
    reader: &dyn Reader,
    ident: u32,
    in_order: bool,
    order: &mut Order,
) -> Result<()> {
    let (lower, upper) = (ident.to_be_bytes(), (ident + 1).to_be_bytes());
    let opts = CursorOpts {
        reverse: true,
        limit_hint: 1,
        ..CursorOpts::default()
    };
    let range = KeyRange::new(&lower, &upper);
    let mut cursor = reader
        .cursor(Table::Doc, range, opts)
        .map_err(error::storage)?;
    let is_done = Cell::new(false);
    let last = &mut |key: &[u8], value: &[u8]| {
        if order.max_key.is_empty() {
            order.max_key = key.to_vec();
        }
        let seq = record::read_seq(value);
        order.next_seq = order.next_seq.max(seq.map_or(0, |seq| seq + 1));
        is_done.set(seq.is_some() || !in_order);
        !is_done.get()
    };
    while cursor.visit(1, last).map_err(error::storage)? && !is_done.get() {}
    Ok(())
}
