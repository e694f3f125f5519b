//! A fixed state of all tables: a timestamp. Assembles values from pieces and extracts keys from
//! buckets.
//!
//! Must not know: commits, leases.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use storage::emulate::long_keys::{entries, find, is_bucket, place};
use storage::emulate::{FixedView, RowRequest, RowSource};
use storage::{
    CommitPos, KeyRange, Result, RowBatch, StorageError, Table, counter_add, counter_decode,
    counter_encode,
};

use crate::announcements::ExpectedAnnouncements;
use crate::cluster::{Change, Cluster, Row, ScanOrder};
use crate::error::corrupt;
use crate::layout::{Layout, REQUEST_ROWS, SCAN_ROWS, SlotId, StoredValue, decode_row, pieces};

mod parts;

/// Pieces requested at a time.
const PIECES_AT_ONCE: usize = 4;

/// A fixed state.
pub(crate) struct View {
    cluster: Arc<Cluster>,
    layout: Layout,
    ts: u64,
    taken: Instant,
    /// How long the view may be read.
    kept: Option<Duration>,
    /// Which keys of `Meta` are counters that are sums of the parts of slots; `None` where one
    /// server writes.
    counters: Option<CounterFilter>,
    /// What is expected of the announcements; `None` when they were read.
    expected: Option<ExpectedAnnouncements>,
    /// Rows that were read with others, and keys of which there are none.
    read: FxHashMap<Vec<u8>, Option<Vec<u8>>>,
}

/// The part of a counter that belongs to a slot.
pub(crate) struct CounterPart {
    /// The key of the counter.
    pub(crate) key: Vec<u8>,
    /// The key of the row.
    pub(crate) row: Vec<u8>,
    pub(crate) value: [i64; 2],
}

/// Whether a key of `Meta` is one to which batches add.
pub(crate) type CounterFilter = fn(&[u8]) -> bool;

impl View {
    /// The state at a timestamp.
    pub(crate) fn at(
        cluster: &Arc<Cluster>,
        layout: &Layout,
        ts: u64,
        kept: Option<Duration>,
    ) -> View {
        View {
            cluster: Arc::clone(cluster),
            layout: layout.clone(),
            ts,
            taken: Instant::now(),
            kept,
            counters: None,
            expected: None,
            read: FxHashMap::default(),
        }
    }

    /// This view, if the announcements are those that are expected; otherwise reads will fail.
    pub(crate) fn expect(self, expected: ExpectedAnnouncements) -> View {
        View {
            expected: Some(expected),
            ..self
        }
    }

    /// This view, of which some rows were read already: all of these keys that exist.
    pub(crate) fn with_rows(self, keys: Vec<Vec<u8>>, found: Vec<Row>) -> View {
        let mut read: FxHashMap<_, _> = keys.into_iter().map(|key| (key, None)).collect();
        read.extend(found.into_iter().map(|(key, row)| (key, Some(row))));
        View { read, ..self }
    }

    /// The key of the row to which a key belongs, unless its value is a sum.
    pub(crate) fn row_of(&self, table: Table, key: &[u8]) -> Option<Vec<u8>> {
        let stored = place(key).0;
        let is_row = !stored.is_empty() && !self.is_counter(table, key);
        is_row.then(|| self.layout.row(table, stored))
    }

    /// The existing ones of the rows. The first request compares the announcements, too.
    fn batch_get(&self, keys: &[Vec<u8>]) -> Result<Vec<Row>> {
        let ts = self.fixed_ts()?;
        let Some(expected) = self.expected.as_ref().filter(|e| !e.is_met(ts)) else {
            return self.cluster.batch_get(ts, keys);
        };
        let announcement = self.layout.announcement_key();
        let keys = [keys, std::slice::from_ref(&announcement)].concat();
        let mut rows = self.cluster.batch_get(ts, &keys)?;
        let at = rows.iter().position(|(key, _)| *key == announcement);
        let found = at.map(|at| rows.swap_remove(at).1);
        expected.compare(&found.unwrap_or_default(), ts)?;
        Ok(rows)
    }

    fn is_checked(&self) -> bool {
        self.expected.as_ref().is_none_or(|e| e.is_met(self.ts))
    }

    /// This view of a database to which several servers write.
    pub(crate) fn with_parts(self, counters: CounterFilter) -> View {
        View {
            counters: Some(counters),
            ..self
        }
    }

    /// Whether the value of a key is a sum of parts.
    pub(crate) fn is_counter(&self, table: Table, key: &[u8]) -> bool {
        let is_short = || place(key).1.is_none();
        table == Table::Meta && self.counters.is_some_and(|filter| filter(key)) && is_short()
    }

    /// The part of a counter that belongs to a slot.
    pub(crate) fn counter_part(&self, key: &[u8], id: SlotId) -> Result<[i64; 2]> {
        let row = self
            .cluster
            .get(self.ts()?, &self.layout.counter_part(key, id))?;
        Ok(row.as_deref().map_or([0, 0], counter_decode))
    }

    /// The parts of counters between two keys.
    pub(crate) fn counter_parts(&self, lower: &[u8], upper: &[u8]) -> Result<Vec<CounterPart>> {
        let (mut parts, mut damaged) = (Vec::new(), false);
        let range = self.layout.counter_parts(lower, upper);
        self.each_row(range, ScanOrder::ROWS, &mut |row, value| {
            let Some(key) = self.layout.parse_counter_part(&row) else {
                damaged = true;
                return;
            };
            let value = counter_decode(&value);
            parts.push(CounterPart { key, row, value });
        })?;
        match damaged {
            true => Err(corrupt("the key of a part of a counter")),
            false => Ok(parts),
        }
    }

    /// The value of a counter: what was stored by one server, and the parts of slots.
    fn sum(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let whole = self.get_stored(Table::Meta, key)?;
        let parts = self.counter_parts(key, &[key, &[0]].concat())?;
        if parts.is_empty() {
            return Ok(whole);
        }
        let first = whole.as_deref().map_or([0, 0], counter_decode);
        let sum = parts
            .iter()
            .fold(first, |sum, part| counter_add(sum, part.value));
        Ok(Some(counter_encode(sum).to_vec()))
    }

    /// As [`RowSource::rows`] for `Meta`, with the sums of counters.
    fn rows_with_sums(&self, wanted: &RowRequest<'_>, rows: &mut RowBatch) -> Result<bool> {
        let mut stored = RowBatch::new();
        let more = self.stored_rows(wanted, &mut stored)?;
        let last = stored.iter().last().map(|(key, _)| [key, &[0]].concat());
        let range = wanted.range;
        let (lower, upper) = match last.filter(|_| more) {
            Some(last) if wanted.reverse => (last[..last.len() - 1].to_vec(), range.upper.to_vec()),
            Some(last) => (range.lower.to_vec(), last),
            None => (range.lower.to_vec(), range.upper.to_vec()),
        };
        let mut merged: BTreeMap<Vec<u8>, Vec<u8>> = stored
            .iter()
            .map(|(key, value)| (key.to_vec(), value.to_vec()))
            .collect();
        for part in self.counter_parts(&lower, &upper)? {
            let value = merged.entry(part.key).or_default();
            let sum = counter_add(counter_decode(value), part.value);
            *value = counter_encode(sum).to_vec();
        }
        rows.clear();
        let mut merged: Vec<_> = merged.into_iter().collect();
        if wanted.reverse {
            merged.reverse();
        }
        for (key, value) in merged {
            rows.push(&key, if wanted.keys_only { &[] } else { &value });
            if wanted.is_full(rows) {
                return Ok(true);
            }
        }
        Ok(more)
    }

    /// The timestamp for reading, after the announcements were compared.
    ///
    /// # Errors
    /// [`StorageError::SnapshotTooOld`], [`StorageError::Outdated`]; those of the cluster.
    fn ts(&self) -> Result<u64> {
        if !self.is_checked() {
            self.batch_get(&[])?;
        }
        self.fixed_ts()
    }

    fn fixed_ts(&self) -> Result<u64> {
        match self.kept {
            Some(kept) if self.age() > kept => Err(StorageError::SnapshotTooOld {
                age_s: self.age().as_secs(),
                kept_s: kept.as_secs(),
            }),
            _ => Ok(self.ts),
        }
    }

    /// The row stored under a key of a table.
    pub(crate) fn get_stored(&self, table: Table, stored: &[u8]) -> Result<Option<Vec<u8>>> {
        if stored.is_empty() {
            return Ok(None);
        }
        let key = self.layout.row(table, stored);
        let row = match self.read.get(&key) {
            Some(row) => row.clone(),
            None if self.is_checked() => self.cluster.get(self.fixed_ts()?, &key)?,
            None => self.batch_get(&[key])?.pop().map(|(_, row)| row),
        };
        row.map(|row| self.read_value(table, stored, row))
            .transpose()
    }

    fn read_value(&self, table: Table, key: &[u8], mut row: Vec<u8>) -> Result<Vec<u8>> {
        match decode_row(&row) {
            None => Err(corrupt("a row begins with an unknown byte")),
            Some(StoredValue::Inline(_)) => {
                row.remove(0);
                Ok(row)
            }
            Some(StoredValue::Pieces(len)) => self.pieces(table, key, len),
        }
    }

    fn pieces(&self, table: Table, key: &[u8], len: usize) -> Result<Vec<u8>> {
        let numbers: Vec<u32> = (0..pieces(len)).collect();
        let mut whole = Vec::with_capacity(len);
        for some in numbers.chunks(PIECES_AT_ONCE) {
            let keys: Vec<_> = some
                .iter()
                .map(|n| self.layout.piece(table, key, *n))
                .collect();
            let mut found = self.cluster.batch_get(self.ts()?, &keys)?;
            found.sort_unstable();
            found
                .iter()
                .for_each(|(_, piece)| whole.extend_from_slice(piece));
        }
        if whole.len() != len {
            return Err(corrupt("a piece of a value is missing"));
        }
        Ok(whole)
    }

    /// The existing ones of the stored keys.
    pub(crate) fn rows_of(
        &self,
        table: Table,
        keys: &[&[u8]],
    ) -> Result<FxHashMap<Vec<u8>, Vec<u8>>> {
        let mut rows = FxHashMap::default();
        for some in keys.chunks(SCAN_ROWS) {
            let mut unread = Vec::new();
            for key in some {
                let row_key = self.layout.row(table, key);
                match self.read.get(&row_key) {
                    Some(None) => {}
                    Some(Some(row)) => _ = rows.insert(key.to_vec(), row.clone()),
                    None => unread.push(row_key),
                }
            }
            if unread.is_empty() {
                continue;
            }
            for (key, row) in self.batch_get(&unread)? {
                rows.insert(self.layout.stored_key(&key).to_vec(), row);
            }
        }
        Ok(rows)
    }

    /// Stored keys of a range, including those of buckets at its ends, in any order.
    pub(crate) fn stored_keys(&self, table: Table, range: KeyRange<'_>) -> Result<Vec<Vec<u8>>> {
        let mut keys = Vec::new();
        let ranges = self.layout.rows(table, range);
        for range in ranges.unspread.into_iter().chain(ranges.parts) {
            self.each_row(range, ScanOrder::KEYS, &mut |key, _| {
                keys.push(self.layout.stored_key(&key).to_vec());
            })?;
        }
        Ok(keys)
    }

    /// Passes the rows of a range, in order.
    fn each_row(
        &self,
        mut left: Range<Vec<u8>>,
        how: ScanOrder,
        each: &mut dyn FnMut(Vec<u8>, Vec<u8>),
    ) -> Result<()> {
        loop {
            let rows = self.cluster.scan(self.ts()?, &left, SCAN_ROWS, how)?;
            let last = rows.get(SCAN_ROWS - 1).map(|(key, _)| next(key.clone()));
            rows.into_iter().for_each(|(key, row)| each(key, row));
            match last {
                Some(last) => left.start = last,
                None => return Ok(()),
            }
        }
    }

    /// All idents that have values in pieces.
    pub(crate) fn marked_idents(&self) -> Result<Vec<(Table, u32)>> {
        let mut marked = Vec::new();
        self.each_row(
            self.layout.piece_marker_range(),
            ScanOrder::KEYS,
            &mut |key, _| {
                marked.extend(self.layout.parse_with_pieces(&key));
            },
        )?;
        Ok(marked)
    }

    /// Changes that write the rows of a range as they are.
    pub(crate) fn rows_as_they_are(&self, range: Range<Vec<u8>>) -> Result<Vec<Change>> {
        let mut changes = Vec::new();
        self.each_row(range, ScanOrder::ROWS, &mut |key, row| {
            changes.push((key, Some(row)))
        })?;
        Ok(changes)
    }

    /// Number of pieces of values in a table.
    pub(crate) fn pieces_of(&self, table: Table) -> Result<usize> {
        let mut count = 0;
        self.each_row(self.layout.pieces(table), ScanOrder::KEYS, &mut |_, _| {
            count += 1
        })?;
        Ok(count)
    }

    /// Reads the values of buckets after a scan that has left out all values.
    fn read_buckets(&self, rows: &mut [Row]) -> Result<()> {
        for (key, row) in rows {
            if is_bucket(self.layout.stored_key(key)) {
                let found = self.cluster.get(self.ts()?, key)?;
                *row = found.ok_or_else(|| corrupt("a row is listed and not there"))?;
            }
        }
        Ok(())
    }

    /// Adds the rows of one stored row. False when no more are wanted.
    fn take(
        &self,
        wanted: &RowRequest<'_>,
        key: &[u8],
        row: Vec<u8>,
        rows: &mut RowBatch,
    ) -> Result<bool> {
        let stored_key = self.layout.stored_key(key);
        if !is_bucket(stored_key) {
            if wanted.keys_only {
                rows.push(stored_key, &[]);
                return Ok(rows.len() < wanted.rows_max);
            }
            if let Some(StoredValue::Inline(value)) = decode_row(&row) {
                rows.push(stored_key, value);
                // Short rows were read already: they are shown even beyond the limit of bytes.
                return Ok(rows.len() < wanted.rows_max);
            }
            rows.push(stored_key, &self.read_value(wanted.table, stored_key, row)?);
            return Ok(!wanted.is_full(rows));
        }
        let bucket = self.read_value(wanted.table, stored_key, row)?;
        let whole: Option<Vec<_>> = entries(&bucket).collect();
        let mut whole = whole.ok_or_else(|| corrupt("a bucket of long keys is cut short"))?;
        if wanted.reverse {
            whole.reverse();
        }
        for (rest, value) in whole {
            let key = [stored_key, rest].concat();
            if !wanted.range.contains(&key) {
                continue;
            }
            rows.push(&key, if wanted.keys_only { &[] } else { value });
            if wanted.is_full(rows) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl FixedView for View {
    fn get(&self, table: Table, key: &[u8], f: &mut dyn FnMut(&[u8])) -> Result<bool> {
        if self.is_counter(table, key) {
            return Ok(self.sum(key)?.map(|sum| f(&sum)).is_some());
        }
        let (stored, rest) = place(key);
        let Some(value) = self.get_stored(table, stored)? else {
            return Ok(false);
        };
        match rest {
            None => f(&value),
            Some(rest) => match find(&value, rest) {
                Some(value) => f(value),
                None => return Ok(false),
            },
        }
        Ok(true)
    }

    fn multi_get(
        &self,
        table: Table,
        keys: &[&[u8]],
        each: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        if keys.iter().any(|key| self.is_counter(table, key)) {
            for (n, key) in keys.iter().enumerate() {
                if !self.get(table, key, &mut |value| each(n, Some(value)))? {
                    each(n, None);
                }
            }
            return Ok(());
        }
        for (first, some) in keys.chunks(SCAN_ROWS).enumerate() {
            let mut stored: Vec<_> = some.iter().map(|key| place(key).0).collect();
            stored.sort_unstable();
            stored.dedup();
            stored.retain(|key| !key.is_empty());
            let mut found = FxHashMap::default();
            for (key, row) in self.rows_of(table, &stored)? {
                let value = self.read_value(table, &key, row)?;
                found.insert(key, value);
            }
            for (index, key) in some.iter().enumerate() {
                let (stored, rest) = place(key);
                let value = found.get(stored).map(Vec::as_slice);
                let value = match rest {
                    Some(rest) => value.and_then(|bucket| find(bucket, rest)),
                    None => value,
                };
                each(first * SCAN_ROWS + index, value);
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<()> {
        self.ts().map(|_| ())
    }

    fn pos(&self) -> CommitPos {
        CommitPos(self.ts)
    }

    fn age(&self) -> Duration {
        self.taken.elapsed()
    }
}

impl RowSource for View {
    fn rows_at_first(&self) -> usize {
        REQUEST_ROWS
    }

    fn rows(&self, wanted: RowRequest<'_>, rows: &mut RowBatch) -> Result<bool> {
        match wanted.table == Table::Meta && self.counters.is_some() {
            true => self.rows_with_sums(&wanted, rows),
            false => self.stored_rows(&wanted, rows),
        }
    }
}

impl View {
    fn stored_rows(&self, wanted: &RowRequest<'_>, rows: &mut RowBatch) -> Result<bool> {
        rows.clear();
        if wanted.range.is_empty() {
            return Ok(false);
        }
        let ranges = self.layout.rows(wanted.table, wanted.range);
        let unspread = |rows: &mut RowBatch| match ranges.unspread {
            Some(range) => self.rows_in_order(wanted, range, rows),
            None => Ok(false),
        };
        let spread = |rows: &mut RowBatch| self.merge_parts(wanted, ranges.parts, rows);
        // Those of parts are after all others.
        match wanted.reverse {
            true => Ok(spread(rows)? || unspread(rows)?),
            false => Ok(unspread(rows)? || spread(rows)?),
        }
    }

    /// Adds the rows of a range. False when it is exhausted.
    fn rows_in_order(
        &self,
        wanted: &RowRequest<'_>,
        mut left: Range<Vec<u8>>,
        rows: &mut RowBatch,
    ) -> Result<bool> {
        let how = scan_order(wanted);
        loop {
            let limit = (wanted.rows_max - rows.len()).clamp(1, SCAN_ROWS);
            let mut found = self.cluster.scan(self.ts()?, &left, limit, how)?;
            if wanted.keys_only {
                self.read_buckets(&mut found)?;
            }
            let full = found.len() == limit;
            for (key, row) in found {
                if !self.take(wanted, &key, row, rows)? {
                    return Ok(true);
                }
                if wanted.reverse {
                    left.end = key;
                } else {
                    left.start = next(key);
                }
            }
            if !full {
                return Ok(false);
            }
        }
    }
}

fn scan_order(wanted: &RowRequest<'_>) -> ScanOrder {
    ScanOrder {
        keys_only: wanted.keys_only,
        reverse: wanted.reverse,
    }
}

/// The first key after `key`.
fn next(mut key: Vec<u8>) -> Vec<u8> {
    key.push(0);
    key
}
