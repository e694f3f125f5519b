//! Removals that several steps share. Must not know: why something is removed.

use super::mender::RepairContext;
use model::{Doc, Namespace, Result, doc};
use storage::{KeyRange, Table, WriteBatch};

/// Hands the specification of an index to the caller before the index is removed.
pub(super) fn take_index(
    m: &mut RepairContext<'_>,
    ns: &Namespace,
    spec: Doc<'_>,
    why: &str,
) -> Result<()> {
    let name = spec.field("name");
    m.report_mended(&format!("{ns}: index {name} is given up: {why}"));
    let shown = Namespace::new(ns.db(), "system.indexes")?;
    let spec = doc! { "ns": ns.to_string().as_str(), "spec": spec };
    m.keep_document(&shown, spec.doc(), why)
}

/// Removes all keys of an identifier from a table.
pub(super) fn drop_keys(m: &mut RepairContext<'_>, table: Table, ident: u32) -> Result<()> {
    let (lower, upper) = (ident.to_be_bytes(), (ident + 1).to_be_bytes());
    let range = KeyRange::new(&lower, &upper);
    let mut batch = WriteBatch::new();
    m.each_row(table, range, &mut |m, key, _| {
        batch.delete(table, key);
        match batch.byte_len() > 1 << 20 {
            true => m.apply(&mut batch),
            false => Ok(()),
        }
    })?;
    m.apply(&mut batch)
}
