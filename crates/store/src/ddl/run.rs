//! Entries of an index under construction, gathered and sorted by key. Promises: bounded memory, if
//! the caller checks `is_full` before adding. Must not know: the engine, where they come from.

use crate::index::{Key, KeySet};

/// Bytes at which a run is full. The engine merges runs as it merges all other writes.
const RUN_BYTES: usize = 16 << 20;

/// Entries of many documents.
#[derive(Default)]
pub(super) struct Run {
    /// For each entry its components, followed by the encoded id and the marks.
    bytes: Vec<u8>,
    places: Vec<EntrySlice>,
    /// How many entries were taken.
    taken: usize,
    sorted: bool,
}

#[derive(Clone, Copy)]
struct EntrySlice {
    /// The first bytes of the components, as a number with the same order.
    first: u64,
    start: u32,
    /// Length of the components.
    components: u32,
    /// Length of the id.
    id: u32,
    marks: u32,
}

/// One entry of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RunEntry<'r> {
    pub(super) key: Key<'r>,
    pub(super) id: &'r [u8],
}

impl Run {
    /// Adds the entries of a document.
    pub(super) fn add(&mut self, keys: &KeySet, id: &[u8]) {
        for Key { components, marks } in keys.keys() {
            let start = self.bytes.len() as u32;
            self.bytes.extend_from_slice(components);
            self.bytes.extend_from_slice(id);
            self.bytes.extend_from_slice(marks);
            self.places.push(EntrySlice {
                first: first_bytes(components),
                start,
                components: components.len() as u32,
                id: id.len() as u32,
                marks: marks.len() as u32,
            });
        }
    }

    /// Whether its entries have to be written before more are added.
    pub(super) fn is_full(&self) -> bool {
        self.sorted || self.bytes.len() + self.places.len() * size_of::<EntrySlice>() >= RUN_BYTES
    }

    /// Sorts the entries by key, and those of equal keys by id.
    pub(super) fn sort(&mut self) {
        if self.sorted {
            return;
        }
        let bytes = &self.bytes;
        self.places.sort_unstable_by(|a, b| {
            a.first.cmp(&b.first).then_with(|| {
                let (a, b) = (entry(bytes, a), entry(bytes, b));
                (a.key.components, a.id).cmp(&(b.key.components, b.id))
            })
        });
        self.sorted = true;
    }

    /// The entries that were not taken yet, in order.
    pub(super) fn remaining_entries(&self) -> impl Iterator<Item = RunEntry<'_>> {
        let left = self.places.get(self.taken..).unwrap_or_default();
        left.iter().map(|p| entry(&self.bytes, p))
    }

    /// Removes the next `number` entries; frees the run after the last one.
    pub(super) fn take(&mut self, number: usize) {
        self.taken += number;
        if self.taken >= self.places.len() {
            self.clear();
        }
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.places.clear();
        self.taken = 0;
        self.sorted = false;
    }
}

fn entry<'r>(bytes: &'r [u8], place: &EntrySlice) -> RunEntry<'r> {
    let components = place.start as usize;
    let id = components + place.components as usize;
    let marks = id + place.id as usize;
    let part = |from: usize, to: usize| bytes.get(from..to).unwrap_or_default();
    RunEntry {
        key: Key {
            components: part(components, id),
            marks: part(marks, marks + place.marks as usize),
        },
        id: part(id, marks),
    }
}

fn first_bytes(key: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let len = key.len().min(8);
    bytes[..len].copy_from_slice(&key[..len]);
    u64::from_be_bytes(bytes)
}
