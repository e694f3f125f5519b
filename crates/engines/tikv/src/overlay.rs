//! Converts batches to puts and deletes of stored rows; rows that they add to, cut or rewrite are
//! read first.
//!
//! Promises: after each batch the state is that of the contract, including all batches before it.
//! Must not know: how it is committed.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};
use storage::emulate::long_keys::{is_bucket, place, replace_entry, retain_entries};
use storage::{
    BatchOp, KeyRange, Result, Table, WriteBatch, counter_add, counter_decode, counter_encode,
};

use crate::cluster::Change;
use crate::layout::{
    INLINE_BYTES, Layout, PIECE_BYTES, StoredValue, decode_row, encode_pieces_row, ident, inline,
    pieces,
};
use crate::slots::Slot;
use crate::view::View;

/// Facts about the newest state that the only writer knows without reading.
#[derive(Default)]
pub(crate) struct WriterCache {
    /// Counters of `Meta` by key.
    counters: FxHashMap<Vec<u8>, [i64; 2]>,
    /// All idents that have values in pieces.
    with_pieces: FxHashSet<(Table, u32)>,
}

/// Largest number of counters kept in memory.
const COUNTERS_MAX: usize = 100_000;

impl WriterCache {
    /// Begins with the idents that have values in pieces.
    pub(crate) fn new(with_pieces: impl Iterator<Item = (Table, u32)>) -> WriterCache {
        WriterCache {
            counters: FxHashMap::default(),
            with_pieces: with_pieces.collect(),
        }
    }
}

/// The parts of counters that a commit in a slot changes.
struct CounterParts<'a> {
    slot: &'a Slot,
    /// The part of this slot by the counter's key.
    own: BTreeMap<Vec<u8>, [i64; 2]>,
    /// Keys of counters: the commit removes their parts, those of every slot.
    cleared: FxHashSet<Vec<u8>>,
    /// The rows of those parts.
    cleared_rows: Vec<Vec<u8>>,
}

/// The changes of batches over a view.
pub(crate) struct Overlay<'a> {
    view: &'a View,
    known: &'a WriterCache,
    rows: BTreeMap<(Table, Vec<u8>), Option<Vec<u8>>>,
    added: FxHashMap<Vec<u8>, [i64; 2]>,
    with_pieces: FxHashSet<(Table, u32)>,
    /// Where several servers write: counters are sums of the parts of slots.
    parts: Option<CounterParts<'a>>,
}

/// The changes of a commit in a slot.
pub(crate) struct SlotChanges {
    pub(crate) changes: Vec<Change>,
    /// Parts of counters after the commit.
    pub(crate) counters: BTreeMap<Vec<u8>, [i64; 2]>,
    /// Whether other servers, and other slots, remember what this commit changes.
    pub(crate) is_announced: bool,
}

/// What the writer knows once the changes are committed.
pub(crate) struct CacheUpdate {
    forget: Vec<Vec<u8>>,
    counters: FxHashMap<Vec<u8>, [i64; 2]>,
    with_pieces: FxHashSet<(Table, u32)>,
}

impl CacheUpdate {
    /// Updates `known` to the state after the commit.
    pub(crate) fn apply(self, known: &mut WriterCache) {
        for key in self.forget {
            known.counters.remove(&key);
        }
        if known.counters.len() > COUNTERS_MAX {
            known.counters.clear();
        }
        known.counters.extend(self.counters);
        known.with_pieces.extend(self.with_pieces);
    }
}

impl<'a> Overlay<'a> {
    pub(crate) fn new(view: &'a View, known: &'a WriterCache) -> Overlay<'a> {
        Overlay {
            view,
            known,
            rows: BTreeMap::new(),
            added: FxHashMap::default(),
            with_pieces: FxHashSet::default(),
            parts: None,
        }
    }

    /// As [`Overlay::new`], for a commit in a slot.
    pub(crate) fn in_slot(view: &'a View, known: &'a WriterCache, slot: &'a Slot) -> Overlay<'a> {
        let parts = CounterParts {
            slot,
            own: BTreeMap::new(),
            cleared: FxHashSet::default(),
            cleared_rows: Vec::new(),
        };
        Overlay {
            parts: Some(parts),
            ..Overlay::new(view, known)
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds the operations of a batch.
    pub(crate) fn add(&mut self, batch: &WriteBatch) -> Result<()> {
        batch.iter().try_for_each(|op| self.operate(op))
    }

    fn operate(&mut self, op: BatchOp<'_>) -> Result<()> {
        match op {
            BatchOp::Put { table, key, value } => {
                self.clear_parts(table, key)?;
                self.set(table, key, Some(value))
            }
            BatchOp::Delete { table, key } => {
                self.clear_parts(table, key)?;
                self.set(table, key, None)
            }
            BatchOp::DeleteRange {
                table,
                lower,
                upper,
            } => self.delete_range(table, KeyRange::new(lower, upper)),
            BatchOp::Add { table, key, delta } if self.view.is_counter(table, key) => {
                self.add_part(key, delta)
            }
            BatchOp::Add { table, key, delta } => {
                let old = self.counter(table, key)?;
                let sum = counter_add(old, delta);
                self.set(table, key, Some(&counter_encode(sum)))?;
                if table == Table::Meta && place(key).1.is_none() {
                    self.added.insert(key.to_vec(), sum);
                }
                Ok(())
            }
        }
    }

    /// Adds to the slot's part of a counter.
    fn add_part(&mut self, key: &[u8], delta: [i64; 2]) -> Result<()> {
        let Some(parts) = &mut self.parts else {
            return Ok(());
        };
        let old = match (parts.own.get(key), parts.slot.counters.get(key)) {
            (Some(own), _) => *own,
            _ if parts.cleared.contains(key) => [0, 0],
            (None, Some(remembered)) => *remembered,
            (None, None) => self.view.counter_part(key, parts.slot.id)?,
        };
        parts.own.insert(key.to_vec(), counter_add(old, delta));
        Ok(())
    }

    /// Removes all parts of a counter, before its value is replaced.
    fn clear_parts(&mut self, table: Table, key: &[u8]) -> Result<()> {
        if !self.view.is_counter(table, key) {
            return Ok(());
        }
        self.clear_parts_between(key, &[key, &[0]].concat())
    }

    fn clear_parts_between(&mut self, lower: &[u8], upper: &[u8]) -> Result<()> {
        let Some(parts) = &mut self.parts else {
            return Ok(());
        };
        for part in self.view.counter_parts(lower, upper)? {
            parts.cleared.insert(part.key);
            parts.cleared_rows.push(part.row);
        }
        let is_within = |key: &Vec<u8>| key.as_slice() >= lower && key.as_slice() < upper;
        let own: Vec<_> = parts
            .own
            .keys()
            .filter(|key| is_within(key))
            .cloned()
            .collect();
        for key in own {
            parts.own.remove(&key);
            parts.cleared.insert(key);
        }
        Ok(())
    }

    fn counter(&self, table: Table, key: &[u8]) -> Result<[i64; 2]> {
        let (stored, rest) = place(key);
        if rest.is_some() {
            let bucket = self.current(table, stored)?.unwrap_or_default();
            let found = storage::emulate::long_keys::find(&bucket, rest.unwrap_or_default());
            return Ok(found.map_or([0, 0], counter_decode));
        }
        let changed = self.rows.contains_key(&(table, stored.to_vec()));
        let known = self.known.counters.get(key);
        if let Some(pair) = known.filter(|_| !changed && table == Table::Meta) {
            return Ok(*pair);
        }
        let value = self.current(table, stored)?;
        Ok(value.as_deref().map_or([0, 0], counter_decode))
    }

    fn current(&self, table: Table, stored: &[u8]) -> Result<Option<Vec<u8>>> {
        match self.rows.get(&(table, stored.to_vec())) {
            Some(value) => Ok(value.clone()),
            None => self.view.get_stored(table, stored),
        }
    }

    fn set(&mut self, table: Table, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        let (stored, rest) = place(key);
        if table == Table::Meta && rest.is_none() {
            self.added.remove(key);
        }
        let value = match rest {
            None => value.map(<[u8]>::to_vec),
            Some(rest) => {
                let bucket = self.current(table, stored)?.unwrap_or_default();
                Some(replace_entry(&bucket, rest, value)).filter(|bucket| !bucket.is_empty())
            }
        };
        self.rows.insert((table, stored.to_vec()), value);
        Ok(())
    }

    fn delete_range(&mut self, table: Table, range: KeyRange<'_>) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        if table == Table::Meta {
            self.clear_parts_between(range.lower, range.upper)?;
        }
        let mut stored = self.view.stored_keys(table, range)?;
        let from = place(range.lower).0.to_vec();
        let here = self.rows.range((table, from)..);
        let here = here.take_while(|((t, key), _)| *t == table && key.as_slice() < range.upper);
        stored.extend(here.map(|((_, key), _)| key.clone()));
        stored.sort_unstable();
        stored.dedup();
        for key in stored {
            let kept = if is_bucket(&key) {
                let bucket = self.current(table, &key)?.unwrap_or_default();
                let kept = retain_entries(&bucket, |rest| {
                    !range.contains(&[key.as_slice(), rest].concat())
                });
                Some(kept).filter(|kept| !kept.is_empty())
            } else if range.contains(&key) {
                None
            } else {
                continue;
            };
            if table == Table::Meta {
                self.added.remove(&key);
            }
            self.rows.insert((table, key), kept);
        }
        Ok(())
    }

    /// The changes to commit in the slot.
    ///
    /// # Errors
    /// Those of the cluster.
    pub(crate) fn finish_in_slot(mut self, layout: &Layout) -> Result<SlotChanges> {
        let parts = self.parts.take();
        let (mut changes, learned) = self.finish(layout)?;
        let mut is_announced = !learned.with_pieces.is_empty();
        let mut counters = BTreeMap::new();
        if let Some(parts) = parts {
            is_announced |= !parts.cleared.is_empty();
            let id = parts.slot.id;
            let own: Vec<_> = parts
                .own
                .keys()
                .map(|k| layout.counter_part(k, id))
                .collect();
            let cleared = parts
                .cleared_rows
                .into_iter()
                .filter(|row| !own.contains(row));
            changes.extend(cleared.map(|row| (row, None)));
            let values = parts
                .own
                .values()
                .map(|sum| Some(counter_encode(*sum).to_vec()));
            changes.extend(own.iter().cloned().zip(values));
            counters = parts.own;
        }
        Ok(SlotChanges {
            changes,
            counters,
            is_announced,
        })
    }

    /// The changes to commit, and what is known after the commit.
    pub(crate) fn finish(mut self, layout: &Layout) -> Result<(Vec<Change>, CacheUpdate)> {
        let mut changes = Vec::with_capacity(self.rows.len() + 2);
        let rows = std::mem::take(&mut self.rows);
        let mut old = self.old_pieces(&rows)?;
        let mut forget = Vec::new();
        for ((table, key), value) in rows {
            if table == Table::Meta && !self.added.contains_key(&key) {
                forget.push(key.clone());
            }
            let before = old.remove(&(table, key.clone())).unwrap_or_default();
            let count = self.write(layout, &mut changes, table, &key, value);
            for number in count..before {
                changes.push((layout.piece(table, &key, number), None));
            }
        }
        for (table, ident) in &self.with_pieces {
            changes.push((layout.with_pieces(*table, *ident), Some(vec![1])));
        }
        let learned = CacheUpdate {
            forget,
            counters: self.added,
            with_pieces: self.with_pieces,
        };
        Ok((changes, learned))
    }

    /// Adds the changes of one row. The output is its number of pieces.
    fn write(
        &mut self,
        layout: &Layout,
        changes: &mut Vec<Change>,
        table: Table,
        key: &[u8],
        value: Option<Vec<u8>>,
    ) -> u32 {
        let row = layout.row(table, key);
        let Some(value) = value else {
            changes.push((row, None));
            return 0;
        };
        if value.len() <= INLINE_BYTES {
            changes.push((row, Some(inline(&value))));
            return 0;
        }
        changes.push((row, Some(encode_pieces_row(value.len()))));
        for (number, piece) in (0..).zip(value.chunks(PIECE_BYTES)) {
            changes.push((layout.piece(table, key, number), Some(piece.to_vec())));
        }
        let owner = (table, ident(table, key));
        if !self.known.with_pieces.contains(&owner) {
            self.with_pieces.insert(owner);
        }
        pieces(value.len())
    }

    /// The numbers of pieces of the replaced values.
    fn old_pieces(
        &self,
        rows: &BTreeMap<(Table, Vec<u8>), Option<Vec<u8>>>,
    ) -> Result<FxHashMap<(Table, Vec<u8>), u32>> {
        let mut old = FxHashMap::default();
        if self.known.with_pieces.is_empty() {
            return Ok(old);
        }
        for table in Table::ALL {
            let of_table = rows.keys().filter(|(t, key)| {
                *t == table && self.known.with_pieces.contains(&(table, ident(table, key)))
            });
            let keys: Vec<&[u8]> = of_table.map(|(_, key)| key.as_slice()).collect();
            for (key, row) in self.view.rows_of(table, &keys)? {
                if let Some(StoredValue::Pieces(len)) = decode_row(&row) {
                    old.insert((table, key), pieces(len));
                }
            }
        }
        Ok(old)
    }
}
