//! The uncommitted writes of one transaction, and reads that combine them with a fixed view. Must
//! not know: documents, indexes, who commits.

use parking_lot::RwLock;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use storage::{Cursor, KeyRange, Result, RowBatch, Table};

/// Assumed memory of one change in addition to key and value.
const ENTRY_BYTES: usize = 96;
/// Rows read from the engine's cursor at a time.
const ROWS_MAX: usize = 64;
const ROWS_BYTES_MAX: usize = 1 << 20;

/// Changes by key; `None` is a deletion.
type Changes = BTreeMap<Box<[u8]>, Option<Box<[u8]>>>;

/// Called with a change: the value is `None` for a deletion.
type ChangeVisitor<'a> = dyn FnMut(Table, &[u8], Option<&[u8]>) + 'a;

/// Uncommitted changes.
#[derive(Default)]
pub(crate) struct Overlay {
    tables: RwLock<[Changes; Table::ALL.len()]>,
    bytes: AtomicUsize,
}

impl Overlay {
    /// Sets a key, or deletes it.
    pub(crate) fn set(&self, table: Table, key: &[u8], value: Option<&[u8]>) {
        let size = |value: Option<&[u8]>| key.len() + value.map_or(0, <[u8]>::len) + ENTRY_BYTES;
        self.bytes.fetch_add(size(value), Relaxed);
        let old = self.tables.write()[table.index()].insert(key.into(), value.map(Into::into));
        if let Some(old) = old {
            self.bytes.fetch_sub(size(old.as_deref()), Relaxed);
        }
    }

    /// The change of a key: `None` when there is none.
    pub(crate) fn get<T>(
        &self,
        table: Table,
        key: &[u8],
        f: impl FnOnce(Option<&[u8]>) -> T,
    ) -> Option<T> {
        let tables = self.tables.read();
        let change = tables[table.index()].get(key)?;
        Some(f(change.as_deref()))
    }

    /// Bytes of memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// Calls `f` with every change, table by table in key order.
    pub(crate) fn visit(&self, f: &mut ChangeVisitor<'_>) {
        let tables = self.tables.read();
        for (table, changes) in Table::ALL.iter().zip(tables.iter()) {
            for (key, value) in changes {
                f(*table, key, value.as_deref());
            }
        }
    }

    /// Copies the first change between two keys (the last in reverse) into `next`; false when there
    /// is none.
    fn next(
        &self,
        table: Table,
        lower: &[u8],
        upper: &[u8],
        reverse: bool,
        next: &mut OverlayChange,
    ) -> bool {
        if lower >= upper {
            return false;
        }
        let tables = self.tables.read();
        let bounds = (Bound::Included(lower), Bound::Excluded(upper));
        let mut range = tables[table.index()].range::<[u8], _>(bounds);
        let found = if reverse {
            range.next_back()
        } else {
            range.next()
        };
        let Some((key, value)) = found else {
            return false;
        };
        next.key.clear();
        next.key.extend_from_slice(key);
        next.value.clear();
        next.value
            .extend_from_slice(value.as_deref().unwrap_or_default());
        next.deleted = value.is_none();
        true
    }
}

/// One change.
#[derive(Default)]
struct OverlayChange {
    key: Vec<u8>,
    value: Vec<u8>,
    deleted: bool,
}

/// A range of keys, the upper one excluded.
#[derive(Clone)]
struct KeySpan {
    lower: Vec<u8>,
    upper: Vec<u8>,
}

/// A cursor over a fixed view with an overlay. It sees changes that are made while it is open if it
/// has not passed their keys.
pub(crate) struct OverlayCursor {
    inner: Box<dyn Cursor>,
    overlay: Arc<Overlay>,
    table: Table,
    reverse: bool,
    /// The range as opened, and the part that was not read yet.
    range: KeySpan,
    left: KeySpan,
    rows: RowBatch,
    at: usize,
    more: bool,
    next: OverlayChange,
}

impl OverlayCursor {
    pub(crate) fn new(
        inner: Box<dyn Cursor>,
        overlay: Arc<Overlay>,
        table: Table,
        range: KeyRange<'_>,
        reverse: bool,
    ) -> OverlayCursor {
        let range = KeySpan {
            lower: range.lower.to_vec(),
            upper: range.upper.to_vec(),
        };
        OverlayCursor {
            inner,
            overlay,
            table,
            reverse,
            left: range.clone(),
            range,
            rows: RowBatch::new(),
            at: 0,
            more: true,
            next: OverlayChange::default(),
        }
    }

    /// Which of the two sources has the next row.
    fn choose(&self, changed: bool) -> Option<Ordering> {
        let row = self.rows.get(self.at).map(|(key, _)| key);
        match (row, changed) {
            (None, false) => None,
            (Some(_), false) => Some(Ordering::Less),
            (None, true) => Some(Ordering::Greater),
            (Some(row), true) if self.reverse => Some(self.next.key.as_slice().cmp(row)),
            (Some(row), true) => Some(row.cmp(&self.next.key)),
        }
    }

    /// Narrows the unread part after the row with this key.
    fn pass(left: &mut KeySpan, key: &[u8], reverse: bool) {
        let bound = match reverse {
            true => &mut left.upper,
            false => &mut left.lower,
        };
        bound.clear();
        bound.extend_from_slice(key);
        if !reverse {
            bound.push(0);
        }
    }
}

impl Cursor for OverlayCursor {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.left.clone_from(&self.range);
        if self.reverse {
            self.left.upper = key.min(&self.range.upper).to_vec();
        } else {
            self.left.lower = key.max(&self.range.lower).to_vec();
        }
        self.rows.clear();
        (self.at, self.more) = (0, true);
        self.inner.seek(key)
    }

    fn visit(&mut self, rows_max: usize, f: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<bool> {
        let mut shown = 0;
        while shown < rows_max {
            if self.at >= self.rows.len() && self.more {
                let want = (rows_max - shown).clamp(1, ROWS_MAX);
                self.more = self
                    .inner
                    .next_batch(&mut self.rows, want, ROWS_BYTES_MAX)?;
                self.at = 0;
                if self.rows.is_empty() && self.more {
                    continue;
                }
            }
            let (lower, upper) = (&self.left.lower, &self.left.upper);
            let changed = self
                .overlay
                .next(self.table, lower, upper, self.reverse, &mut self.next);
            let go_on = match self.choose(changed) {
                None => return Ok(false),
                Some(Ordering::Less) => {
                    let Some((key, value)) = self.rows.get(self.at) else {
                        return Ok(false);
                    };
                    self.at += 1;
                    Self::pass(&mut self.left, key, self.reverse);
                    shown += 1;
                    f(key, value)
                }
                Some(order) => {
                    self.at += usize::from(order == Ordering::Equal);
                    Self::pass(&mut self.left, &self.next.key, self.reverse);
                    if self.next.deleted {
                        continue;
                    }
                    shown += 1;
                    f(&self.next.key, &self.next.value)
                }
            };
            if !go_on {
                return Ok(true);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::ReadView;
    use storage::{CursorOpts, Durability, Engine, MemoryEngine, WriteBatch};

    fn rows(view: &ReadView, engine: &dyn Engine, reverse: bool, step: usize) -> Vec<(u8, u8)> {
        let range = KeyRange {
            lower: &[0],
            upper: &[200],
        };
        let opts = CursorOpts {
            reverse,
            ..CursorOpts::default()
        };
        let mut cursor = view.cursor(engine, Table::Doc, range, opts).unwrap();
        let mut out = Vec::new();
        while cursor
            .visit(step, &mut |k, v| {
                out.push((k[0], v[0]));
                true
            })
            .unwrap()
        {}
        out
    }

    /// Every way of merging: keys of either source, of both, deleted, at the ends.
    #[test]
    fn a_cursor_merges_changes_and_rows_in_both_directions() {
        for seed in 0..64u64 {
            let engine = MemoryEngine::new();
            let (mut batch, mut expected) = (WriteBatch::new(), BTreeMap::new());
            let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
            let mut draw = || {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                (random % 250) as u8
            };
            for _ in 0..20 {
                let key = draw();
                batch.put(Table::Doc, &[key, 1], &[1]);
                expected.insert(vec![key, 1], 1u8);
            }
            engine.apply(&batch, Durability::Buffered).unwrap();
            let view = ReadView::now(&engine).unwrap().with_overlay();
            let overlay = view.overlay().unwrap();
            for _ in 0..20 {
                let key = draw();
                if key % 3 == 0 {
                    overlay.set(Table::Doc, &[key, 1], None);
                    expected.remove(&vec![key, 1]);
                } else {
                    overlay.set(Table::Doc, &[key, 1], Some(&[2]));
                    expected.insert(vec![key, 1], 2);
                }
            }
            let mut wanted: Vec<(u8, u8)> = expected
                .iter()
                .filter(|(k, _)| k[0] < 200)
                .map(|(k, v)| (k[0], *v))
                .collect();
            for step in [1, 3, 1000] {
                assert_eq!(rows(&view, &engine, false, step), wanted, "seed {seed}");
            }
            wanted.reverse();
            for step in [1, 3, 1000] {
                assert_eq!(rows(&view, &engine, true, step), wanted, "seed {seed}");
            }
            let keys: Vec<[u8; 2]> = (0..250).map(|k| [k, 1]).collect();
            let asked: Vec<&[u8]> = keys.iter().map(|k| &k[..]).collect();
            let mut got = Vec::new();
            view.multi_get(&engine, Table::Doc, &asked, &mut |n, v| {
                got.push((n, v.map(|v| v[0])));
            })
            .unwrap();
            for (n, value) in got.iter().copied() {
                assert_eq!(value, expected.get(keys[n].as_slice()).copied());
            }
            assert_eq!(got.len(), keys.len());
        }
    }
}
