//! Versioned tables of the memory engine: for each key the versions that some reader may still see,
//! newest last.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use crate::batch::{BatchOp, WriteBatch, counter_add, counter_decode, counter_encode};
use crate::keys::{IdentSet, KeyRange, Table};

type Key = Box<[u8]>;

struct Version {
    pos: u64,
    // None: deleted at `pos`.
    value: Option<Box<[u8]>>,
}

#[derive(Default)]
pub(super) struct State {
    pos: u64,
    tables: [BTreeMap<Key, Vec<Version>>; Table::ALL.len()],
    // Positions that readers hold, each with its number of holders.
    held: BTreeMap<u64, usize>,
    // Keys that got a new version while a reader held an older position, ordered by the position of
    // the new version.
    garbage: VecDeque<(u64, Table, Key)>,
}

impl State {
    pub(super) fn pos(&self) -> u64 {
        self.pos
    }

    pub(super) fn hold(&mut self, pos: u64) {
        *self.held.entry(pos).or_default() += 1;
    }

    pub(super) fn release(&mut self, pos: u64) {
        if let Some(count) = self.held.get_mut(&pos) {
            *count -= 1;
            if *count == 0 {
                self.held.remove(&pos);
            }
        }
        self.collect();
    }

    pub(super) fn held_count(&self) -> usize {
        self.held.values().sum()
    }

    pub(super) fn garbage_count(&self) -> usize {
        self.garbage.len()
    }

    /// Number of keys, including deleted ones that a snapshot still sees.
    pub(super) fn keys_with_versions(&self, table: Table) -> usize {
        self.table(table).len()
    }

    pub(super) fn get(&self, table: Table, key: &[u8], at: u64) -> Option<&[u8]> {
        visible(self.table(table).get(key)?, at)
    }

    /// Live rows of a range as of `at`.
    pub(super) fn range(
        &self,
        table: Table,
        range: KeyRange<'_>,
        at: u64,
    ) -> impl DoubleEndedIterator<Item = (&[u8], &[u8])> {
        // BTreeMap panics on inverted bounds; an inverted range is legal here and empty.
        let upper = range.upper.max(range.lower);
        self.table(table)
            .range::<[u8], _>((Bound::Included(range.lower), Bound::Excluded(upper)))
            .filter_map(move |(key, versions)| Some((&**key, visible(versions, at)?)))
    }

    pub(super) fn size_bytes(&self, table: Table, range: KeyRange<'_>) -> u64 {
        self.range(table, range, self.pos)
            .map(|(key, value)| (key.len() + value.len()) as u64)
            .sum()
    }

    /// The position of the commit that wrote the value of a key.
    pub(super) fn written_at(&self, table: Table, key: &[u8]) -> Option<u64> {
        let newest = self.table(table).get(key)?.last()?;
        newest.value.is_some().then_some(newest.pos)
    }

    /// Applies a batch as the commit with this position, which is above all earlier ones.
    pub(super) fn apply_at(&mut self, batch: &WriteBatch, pos: u64) -> u64 {
        self.pos = pos;
        for op in batch.iter() {
            match op {
                BatchOp::Put { table, key, value } => self.set(table, key, Some(value.into())),
                BatchOp::Delete { table, key } => self.set(table, key, None),
                BatchOp::DeleteRange {
                    table,
                    lower,
                    upper,
                } => {
                    let range = KeyRange::new(lower, upper);
                    let keys: Vec<Key> = self
                        .range(table, range, self.pos)
                        .map(|(key, _)| key.into())
                        .collect();
                    for key in keys {
                        self.set(table, &key, None);
                    }
                }
                BatchOp::Add { table, key, delta } => {
                    let old = self
                        .get(table, key, self.pos)
                        .map_or([0, 0], counter_decode);
                    self.set(
                        table,
                        key,
                        Some(counter_encode(counter_add(old, delta)).into()),
                    );
                }
            }
        }
        self.collect();
        self.pos
    }

    /// Removes keys with all their versions: only for ranges that nobody reads any more.
    pub(super) fn erase_range(&mut self, table: Table, range: KeyRange<'_>) {
        if range.is_empty() {
            return;
        }
        let map = self.table_mut(table);
        let keys: Vec<Key> = map
            .range::<[u8], _>((Bound::Included(range.lower), Bound::Excluded(range.upper)))
            .map(|(key, _)| key.clone())
            .collect();
        for key in keys {
            map.remove(&key);
        }
    }

    pub(super) fn erase_idents(&mut self, table: Table, idents: &IdentSet) {
        if !idents.is_empty() {
            self.table_mut(table)
                .retain(|key, _| !idents.contains_key(key));
        }
    }

    fn table(&self, table: Table) -> &BTreeMap<Key, Vec<Version>> {
        &self.tables[table.index()]
    }

    fn table_mut(&mut self, table: Table) -> &mut BTreeMap<Key, Vec<Version>> {
        &mut self.tables[table.index()]
    }

    fn set(&mut self, table: Table, key: &[u8], value: Option<Box<[u8]>>) {
        let (pos, oldest) = (self.pos, self.oldest_held());
        let map = self.table_mut(table);
        let Some(versions) = map.get_mut(key) else {
            if value.is_some() {
                map.insert(key.into(), vec![Version { pos, value }]);
            }
            return;
        };
        // A second change of one key in a batch replaces the first, which no reader can see.
        versions.pop_if(|last| last.pos == pos);
        versions.push(Version { pos, value });
        if oldest < pos {
            self.garbage.push_back((pos, table, key.into()));
        } else {
            prune(map, key, pos);
        }
    }

    // Without holders, later readers see no version older than the commit in progress.
    fn oldest_held(&self) -> u64 {
        self.held.keys().next().copied().unwrap_or(self.pos)
    }

    fn collect(&mut self) {
        let oldest = self.oldest_held();
        while self.garbage.front().is_some_and(|(pos, ..)| *pos <= oldest) {
            if let Some((_, table, key)) = self.garbage.pop_front() {
                prune(self.table_mut(table), &key, oldest);
            }
        }
    }
}

fn visible(versions: &[Version], at: u64) -> Option<&[u8]> {
    versions
        .iter()
        .rev()
        .find(|version| version.pos <= at)?
        .value
        .as_deref()
}

// Drops versions that no reader at `oldest` or later can see, and the key when only a deletion is
// left.
fn prune(map: &mut BTreeMap<Key, Vec<Version>>, key: &[u8], oldest: u64) {
    let Some(versions) = map.get_mut(key) else {
        return;
    };
    if let Some(keep) = versions.iter().rposition(|version| version.pos <= oldest) {
        versions.drain(..keep);
    }
    if matches!(&versions[..], [only] if only.value.is_none() && only.pos <= oldest) {
        map.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(state: &mut State, key: &[u8], value: &[u8]) {
        let mut batch = WriteBatch::new();
        batch.put(Table::Doc, key, value);
        let next = state.pos() + 1;
        state.apply_at(&batch, next);
    }

    #[test]
    fn old_versions_live_exactly_as_long_as_a_reader() {
        let mut state = State::default();
        put(&mut state, b"k", b"1");
        let at = state.pos();
        state.hold(at);
        put(&mut state, b"k", b"2");
        let mut batch = WriteBatch::new();
        batch.delete(Table::Doc, b"k");
        let next = state.pos() + 1;
        state.apply_at(&batch, next);
        assert_eq!(state.get(Table::Doc, b"k", at), Some(&b"1"[..]));
        assert_eq!(state.get(Table::Doc, b"k", state.pos()), None);
        state.release(at);
        assert_eq!(
            (state.keys_with_versions(Table::Doc), state.garbage_count()),
            (0, 0)
        );
    }

    #[test]
    fn inverted_range_is_empty() {
        let mut state = State::default();
        put(&mut state, b"k", b"1");
        assert_eq!(
            state
                .range(Table::Doc, KeyRange::new(b"z", b"a"), state.pos())
                .count(),
            0
        );
        state.erase_range(Table::Doc, KeyRange::new(b"z", b"a"));
        assert_eq!(state.keys_with_versions(Table::Doc), 1);
    }
}
