//! What all writers of index entries share. Must not know: where the documents come from.

use crate::catalog::Collection;
use crate::commit::WriteUnit;
use crate::error;
use crate::format::meta;
use crate::index::{Index, KeySet};
use model::Result;
use storage::{CommitPos, Table, WriteBatch};

/// The value of an entry of an index that is not unique; its bytes are kept for type bits.
const PLAIN_VALUE: &[u8] = &[0];

/// Refuses a document whose entry in an index is longer than the engine takes.
///
/// # Errors
/// 17280 KeyTooLong.
pub(crate) fn check_length(index: &Index, set: &KeySet, id_bytes: usize, max: usize) -> Result<()> {
    // Identifier, end bytes and the length of the id.
    let around = id_bytes + 16;
    if set.byte_len() + around <= max {
        return Ok(());
    }
    match set.iter().map(|k| k.len() + around).max() {
        Some(longest) if longest > max => Err(error::key_too_long(index.name(), longest, max)),
        _ => Ok(()),
    }
}

/// The value of an entry for the document with this encoded id.
pub(crate) fn entry_value<'v>(index: &Index, id: &'v [u8]) -> &'v [u8] {
    if index.is_unique() { id } else { PLAIN_VALUE }
}

/// Puts the entries of one document.
pub(crate) fn put_entries<'k>(
    batch: &mut WriteBatch,
    index: &Index,
    components: impl Iterator<Item = &'k [u8]>,
    id: &[u8],
    entry: &mut Vec<u8>,
) {
    for c in components {
        index.entry_key(c, id, entry);
        batch.put(Table::Idx, entry, entry_value(index, id));
    }
}

impl Collection {
    /// Marks fields of an index as having seen an array, before the entries that need it are
    /// committed: a commit of its own, so that a later refusal of the document leaves at most a
    /// mark too many, in memory and on disk alike. Of a collection that is not committed itself the
    /// marks are committed with it.
    ///
    /// # Cost
    /// None once the bits are set.
    ///
    /// # Errors
    /// Engine failures; nothing is marked then.
    pub(crate) fn mark_multikey(&self, index: &Index, bits: u32) -> Result<()> {
        if bits & !index.multikey_bits() == 0 {
            return Ok(());
        }
        // The row holds all bits: two writers must not each write what they know.
        let _marking = index.marking();
        let all = bits | index.multikey_bits();
        let mut batch = WriteBatch::new();
        batch.put(
            Table::Meta,
            &meta::multikey(index.ident()),
            &all.to_le_bytes(),
        );
        let mark = &mut |_: CommitPos| index.add_multikey(all);
        if self.is_uncommitted() {
            mark(CommitPos::default());
            return Ok(());
        }
        let unit = WriteUnit::new(&batch).then(mark);
        self.shared.commit(unit).map(|_| ())
    }
}
