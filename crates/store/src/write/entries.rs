//! Functions that all writers of index entries share. Must not know: where the documents come from.

use crate::commit::WriteUnit;
use crate::error;
use crate::format::meta;
use crate::index::{Index, Key, KeySet};
use crate::write::reads::WriteReader;
use crate::write::writer::Writer;
use model::Result;
use rustc_hash::FxHashSet;
use smallvec::SmallVec;
use storage::{CommitPos, Table, WriteBatch};

/// Refuses a document whose entry in an index is longer than the engine takes.
///
/// # Errors
/// 17280 KeyTooLong.
pub(crate) fn check_length(index: &Index, set: &KeySet, id_bytes: usize, max: usize) -> Result<()> {
    // The identifier, the end bytes and the length of the id.
    let around = id_bytes + 16;
    if set.byte_len() + around <= max {
        return Ok(());
    }
    match set.iter().map(|k| k.len() + around).max() {
        Some(longest) if longest > max => Err(error::key_too_long(index.name(), longest, max)),
        _ => Ok(()),
    }
}

/// Puts one entry of the document with this encoded id; afterwards `entry` holds the key of the
/// entry.
pub(crate) fn put_entry(
    batch: &mut WriteBatch,
    index: &Index,
    key: Key<'_>,
    id: &[u8],
    entry: &mut Vec<u8>,
) {
    index.entry_key(key.components, id, entry);
    let len = entry.len();
    index.append_value(key.marks, id, entry);
    let (key, value) = entry.split_at(len);
    batch.put(Table::Idx, key, value);
    entry.truncate(len);
}

/// Puts the entries of one document.
pub(crate) fn put_entries<'k>(
    batch: &mut WriteBatch,
    index: &Index,
    keys: impl Iterator<Item = Key<'k>>,
    id: &[u8],
    entry: &mut Vec<u8>,
) {
    for key in keys {
        put_entry(batch, index, key, id, entry);
    }
}

/// The place of a key of a chunk: its first bytes, the position of its document, its number among
/// the keys of the document.
pub(crate) type KeyPlace = (u64, u32, u32);

/// Puts the entries of the documents at `positions` into one index in key order, so that the engine
/// finds each place near the last one, whatever its data structure. `of` returns a document's keys
/// and id.
pub(crate) fn put_sorted<'k>(
    batch: &mut WriteBatch,
    index: &Index,
    positions: &[usize],
    of: impl Fn(usize) -> (&'k KeySet, &'k [u8]),
    order: &mut Vec<KeyPlace>,
    entry: &mut Vec<u8>,
) {
    let key = |place: &KeyPlace| of(place.1 as usize).0.keys().nth(place.2 as usize);
    order.clear();
    for n in positions {
        let keys = of(*n).0.iter().enumerate();
        order.extend(keys.map(|(k, key)| (first_bytes(key), *n as u32, k as u32)));
    }
    // Equal keys are put in the order of their documents, whose ids mostly ascend.
    order.sort_unstable_by(|a, b| {
        let by_key = a.0.cmp(&b.0).then_with(|| key(a).cmp(&key(b)));
        by_key.then(a.1.cmp(&b.1))
    });
    for place in order.iter() {
        let id = of(place.1 as usize).1;
        put_entries(batch, index, key(place).into_iter(), id, entry);
    }
}

/// The first eight bytes as a number with the same order; a shorter key is padded with zeros.
fn first_bytes(key: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let len = key.len().min(8);
    bytes[..len].copy_from_slice(&key[..len]);
    u64::from_be_bytes(bytes)
}

/// The entries of a chunk's documents in unique indexes, and which of them are taken.
#[derive(Default)]
pub(crate) struct UniqueEntries {
    bytes: Vec<u8>,
    entries: Vec<UniqueEntry>,
    /// For each document, the number of entries up to its end.
    ends: Vec<usize>,
    /// Whether each entry is in the collection; empty when entries are looked up one by one.
    taken: Vec<bool>,
}

struct UniqueEntry {
    /// The end of its key in the buffer.
    end: usize,
    /// The number of its index.
    index: usize,
}

impl UniqueEntries {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
        self.ends.clear();
        self.taken.clear();
    }

    /// Adds an entry of the current document.
    pub(crate) fn push(&mut self, index: usize, entry: &[u8]) {
        self.bytes.extend_from_slice(entry);
        let end = self.bytes.len();
        self.entries.push(UniqueEntry { end, index });
    }

    /// Ends the current document; the entries of a refused one are removed.
    pub(crate) fn end_document(&mut self, refused: bool) {
        if refused {
            self.entries
                .truncate(self.ends.last().copied().unwrap_or(0));
            self.bytes
                .truncate(self.entries.last().map_or(0, |e| e.end));
        }
        self.ends.push(self.entries.len());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn get(&self, n: usize) -> &[u8] {
        let end_of = |e: &UniqueEntry| e.end;
        let start = n
            .checked_sub(1)
            .and_then(|n| self.entries.get(n))
            .map_or(0, end_of);
        let end = self.entries.get(n).map_or(start, end_of);
        self.bytes.get(start..end).unwrap_or_default()
    }

    fn numbers_of(&self, document: usize) -> std::ops::Range<usize> {
        let end_of = |n: usize| self.ends.get(n).copied();
        let end = end_of(document).unwrap_or(0);
        document.checked_sub(1).and_then(end_of).unwrap_or(0)..end
    }

    /// The entries of a document.
    pub(crate) fn of(&self, document: usize) -> impl Iterator<Item = &[u8]> {
        self.numbers_of(document).map(|n| self.get(n))
    }

    /// The entries of all documents.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.entries.len()).map(|n| self.get(n))
    }

    /// Looks all of them up in one call to the engine. In a transaction each is looked up when it
    /// is asked for, so that documents after a refused one cause no conflicts.
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn look_up(&mut self, reads: &WriteReader<'_>) -> Result<()> {
        if self.is_empty() || reads.is_transaction() {
            return Ok(());
        }
        let mut taken = std::mem::take(&mut self.taken);
        taken.resize(self.entries.len(), false);
        let wanted: SmallVec<[&[u8]; 8]> = self.iter().collect();
        reads.multi_get(Table::Idx, &wanted, &mut |n, value| {
            if let Some(t) = taken.get_mut(n) {
                *t = value.is_some();
            }
        })?;
        drop(wanted);
        self.taken = taken;
        Ok(())
    }

    /// The number of the first index in which an entry of the document is taken, in the collection
    /// or by an accepted document of the same chunk.
    ///
    /// # Errors
    /// Those of a transaction's reads.
    pub(crate) fn find_taken(
        &self,
        document: usize,
        accepted: &FxHashSet<Vec<u8>>,
        reads: &WriteReader<'_>,
    ) -> Result<Option<usize>> {
        for n in self.numbers_of(document) {
            let entry = self.get(n);
            let is_taken = accepted.contains(entry)
                || match self.taken.get(n) {
                    Some(taken) => *taken,
                    None => reads.exists(Table::Idx, entry)?,
                };
            if is_taken {
                return Ok(self.entries.get(n).map(|e| e.index));
            }
        }
        Ok(None)
    }

    /// Frees the memory that a large chunk has used; removes the entries.
    pub(crate) fn shrink(&mut self, bytes_max: usize) {
        self.clear();
        self.bytes.shrink_to(bytes_max);
        self.entries.shrink_to(bytes_max / size_of::<UniqueEntry>());
        self.taken.shrink_to(bytes_max);
    }
}

impl Writer<'_> {
    /// Marks fields of an index as having seen an array, before the entries that need the mark are
    /// committed. The mark is a commit of its own, so a later refusal of the document leaves at
    /// most an unneeded mark, in memory and on disk alike. The marks of an uncommitted collection
    /// are committed with it.
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
        // The row holds the bits of all writers: without the lock one could overwrite those of
        // another.
        let _marking = index.lock_marks();
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
        let unit = WriteUnit::new(&batch).add_hook(mark);
        self.commit(unit).map(|_| ())
    }

    /// As [`Writer::mark_multikey`]. Where other processes write, too, the mark is in the batch of
    /// the entries, and the bits of the others are read through their unit.
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn mark_multikey_in(
        &self,
        index: &Index,
        bits: u32,
        reads: &WriteReader<'_>,
        batch: &mut WriteBatch,
    ) -> Result<()> {
        let is_memory = !self.shared.has_joined || self.is_uncommitted();
        if is_memory || bits & !index.multikey_bits() == 0 {
            return self.mark_multikey(index, bits);
        }
        let (key, mut row) = (meta::multikey(index.ident()), Vec::new());
        reads.get(Table::Meta, &key, &mut row)?;
        let stored = row.first_chunk::<4>().map_or(0, |b| u32::from_le_bytes(*b));
        if bits & !stored != 0 {
            batch.put(Table::Meta, &key, &(stored | bits).to_le_bytes());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hooks::NoHooks;
    use model::{DocBuf, doc};
    use storage::BatchOp;

    /// The keys of these documents' entries, in the order of the batch.
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
            // Refused documents have no entries, and the others have those that they would have
            // alone.
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
