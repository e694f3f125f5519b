//! What all writers of index entries share. Must not know: where the documents come from.

use crate::catalog::Collection;
use crate::commit::WriteUnit;
use crate::error;
use crate::format::meta;
use crate::index::{Index, KeySet};
use crate::write::duplicate::duplicate_key;
use crate::write::mode::Mode;
use model::{Doc, MongoError, Result};
use rustc_hash::FxHashSet;
use std::sync::Arc;
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

/// Where a key of a chunk's documents is: its first bytes, the document's position, its number
/// among the keys of the document.
pub(crate) type KeyPlace = (u64, u32, u32);

/// Puts the entries of the documents at `positions` into one index in the order of their keys:
/// neighbours in the index are written one after the other, so that the engine finds the next
/// place near the last one, whichever structure it keeps. `of` gives a document's keys and id.
pub(crate) fn put_sorted<'k>(
    batch: &mut WriteBatch,
    index: &Index,
    positions: &[usize],
    of: impl Fn(usize) -> (&'k KeySet, &'k [u8]),
    order: &mut Vec<KeyPlace>,
    entry: &mut Vec<u8>,
) {
    let key = |place: &KeyPlace| of(place.1 as usize).0.iter().nth(place.2 as usize);
    order.clear();
    for n in positions {
        let keys = of(*n).0.iter().enumerate();
        order.extend(keys.map(|(k, key)| (first_bytes(key), *n as u32, k as u32)));
    }
    // Equal keys in the order of the documents, whose ids mostly ascend.
    order.sort_unstable_by(|a, b| {
        let by_key = a.0.cmp(&b.0).then_with(|| key(a).cmp(&key(b)));
        by_key.then(a.1.cmp(&b.1))
    });
    for place in order.iter() {
        let id = of(place.1 as usize).1;
        put_entries(batch, index, key(place).into_iter(), id, entry);
    }
}

/// The first eight bytes as a number of the same order; a shorter key is filled up with zeros.
fn first_bytes(key: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let len = key.len().min(8);
    bytes[..len].copy_from_slice(&key[..len]);
    u64::from_be_bytes(bytes)
}

/// The error of a document of which an entry is taken: in the collection, or by a document of the
/// same chunk, whose entries in unique indexes are `accepted`.
///
/// # Errors
/// Engine failures.
pub(crate) fn unique_violation(
    coll: &Collection,
    (indexes, sets): (&[Arc<Index>], &[KeySet]),
    accepted: &FxHashSet<Vec<u8>>,
    doc: Doc<'_>,
    entry: &mut Vec<u8>,
    mode: &Mode<'_, '_>,
) -> Result<Option<MongoError>> {
    for (index, set) in indexes.iter().zip(sets).filter(|(i, _)| i.is_unique()) {
        for key in set.iter() {
            index.unique_entry(key, entry);
            if accepted.contains(entry) || mode.exists(&coll.shared, Table::Idx, entry)? {
                return Ok(Some(duplicate_key(coll, index, doc)));
            }
        }
    }
    Ok(None)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hooks::NoHooks;
    use model::{DocBuf, doc};
    use storage::BatchOp;

    /// The keys of the entries that these documents get, in the order of the batch.
    fn entries(unique: bool, docs: &[DocBuf], positions: &[usize]) -> Vec<Vec<u8>> {
        let spec = doc! { "key": { "a": 1i32 }, "name": "a", "unique": unique };
        let index = Index::open(7, spec, true, 0, &NoHooks).unwrap();
        let sets: Vec<KeySet> = docs
            .iter()
            .map(|d| {
                let mut set = KeySet::default();
                index.keys_of(d.doc(), &mut set).unwrap();
                set
            })
            .collect();
        let ids: Vec<[u8; 1]> = (0..docs.len() as u8).map(|n| [n]).collect();
        let (mut batch, mut order, mut entry) = (WriteBatch::new(), Vec::new(), Vec::new());
        let of = |n: usize| (&sets[n], &ids[n][..]);
        put_sorted(&mut batch, &index, positions, of, &mut order, &mut entry);
        let key = |op: BatchOp<'_>| match op {
            BatchOp::Put {
                table: Table::Idx,
                key,
                ..
            } => key.to_vec(),
            other => panic!("{other:?}"),
        };
        batch.iter().map(key).collect()
    }

    #[test]
    fn entries_of_a_chunk_are_put_in_the_order_of_their_keys() {
        let docs = [
            doc! { "a": "equal in its first bytes, z" },
            doc! { "a": [5i32, -3i32, 5i32] },
            doc! { "a": "equal in its first bytes, b" },
            doc! { "a": 4i32 },
            doc! { "a": [] },
            doc! { "b": 1i32 },
            doc! { "a": 4i32 },
        ];
        for unique in [false, true] {
            let all = entries(unique, &docs, &[0, 1, 2, 3, 4, 5]);
            assert_eq!(all.len(), 7);
            assert!(all.is_sorted(), "{all:?}");
            // What was refused has no entry, and what is left is what each has alone.
            let some = entries(unique, &docs, &[1, 3, 5]);
            assert!(some.is_sorted(), "{some:?}");
            let mut alone: Vec<_> = [1, 3, 5]
                .iter()
                .flat_map(|n| entries(unique, &docs, &[*n]))
                .collect();
            alone.sort();
            assert_eq!(some, alone);
        }
        assert_eq!(entries(false, &docs, &[6, 3]).len(), 2);
        assert_eq!(entries(false, &docs, &[]).len(), 0);
    }
}
