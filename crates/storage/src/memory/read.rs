//! Snapshots and cursors of the memory engine. A cursor keeps its position as a key and takes the
//! lock for each call.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::engine::{CommitPos, Cursor, CursorOpts, Reader, Snapshot};
use crate::error::{Result, StorageError};
use crate::keys::{KeyRange, Table};
use crate::unread::UnreadRange;

use super::shared::Shared;

// Few rows, so that a visit that ends early has copied few in vain.
const COPIED_ROWS: usize = 16;

pub(super) struct MemorySnapshot {
    shared: Arc<Shared>,
    pos: u64,
    taken: Instant,
}

impl MemorySnapshot {
    pub(super) fn take(shared: &Arc<Shared>) -> Result<Self> {
        shared.check_open()?;
        // Under the write lock, so that no commit prunes versions before the snapshot holds them.
        let mut state = shared.state.write();
        let pos = state.pos();
        state.hold(pos);
        Ok(Self {
            shared: Arc::clone(shared),
            pos,
            taken: Instant::now(),
        })
    }
}

impl MemorySnapshot {
    pub(super) fn pos(&self) -> u64 {
        self.pos
    }

    /// Takes a snapshot; the second output is the position of the last commit that was announced
    /// before it.
    pub(super) fn take_announced(shared: &Arc<Shared>) -> Result<(Self, u64)> {
        loop {
            let snapshot = Self::take(shared)?;
            let announced = shared.announced_pos.load(Ordering::Relaxed);
            if announced <= snapshot.pos {
                return Ok((snapshot, announced));
            }
        }
    }
}

impl Drop for MemorySnapshot {
    fn drop(&mut self) {
        self.shared.state.write().release(self.pos);
    }
}

// Reads through an `Arc` so that a cursor can keep its snapshot alive.
pub(super) struct SharedSnapshot(pub(super) Arc<MemorySnapshot>);

impl Reader for SharedSnapshot {
    fn get_with(&self, table: Table, key: &[u8], f: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.0.shared.check_open()?;
        Ok(self
            .0
            .shared
            .state
            .read()
            .get(table, key, self.0.pos)
            .map(f)
            .is_some())
    }

    fn multi_get(
        &self,
        table: Table,
        keys: &[&[u8]],
        each: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        self.0.shared.check_open()?;
        let state = self.0.shared.state.read();
        for (index, key) in keys.iter().enumerate() {
            each(index, state.get(table, key, self.0.pos));
        }
        Ok(())
    }

    fn cursor(
        &self,
        table: Table,
        range: KeyRange<'_>,
        opts: CursorOpts,
    ) -> Result<Box<dyn Cursor>> {
        self.0.shared.check_open()?;
        range.check()?;
        Ok(Box::new(MemoryCursor::new(
            Arc::clone(&self.0),
            table,
            range,
            opts,
        )))
    }
}

impl Snapshot for SharedSnapshot {
    fn pos(&self) -> CommitPos {
        CommitPos(self.0.pos)
    }

    fn age(&self) -> Duration {
        self.0.taken.elapsed()
    }
}

/// A snapshot whose announcements are expected to be those of an earlier one.
pub(super) struct ExpectedSnapshot {
    pub(super) snapshot: SharedSnapshot,
    /// They are others.
    pub(super) is_outdated: bool,
}

impl Reader for ExpectedSnapshot {
    fn get_with(&self, table: Table, key: &[u8], f: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.check()?;
        self.snapshot.get_with(table, key, f)
    }

    fn multi_get(
        &self,
        table: Table,
        keys: &[&[u8]],
        each: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        self.check()?;
        self.snapshot.multi_get(table, keys, each)
    }

    fn cursor(
        &self,
        table: Table,
        range: KeyRange<'_>,
        opts: CursorOpts,
    ) -> Result<Box<dyn Cursor>> {
        self.check()?;
        self.snapshot.cursor(table, range, opts)
    }
}

impl Snapshot for ExpectedSnapshot {
    fn pos(&self) -> CommitPos {
        self.snapshot.pos()
    }

    fn age(&self) -> Duration {
        self.snapshot.age()
    }

    fn check(&self) -> Result<()> {
        match self.is_outdated {
            true => Err(StorageError::Outdated),
            false => Ok(()),
        }
    }
}

pub(super) struct MemoryCursor {
    snapshot: Arc<MemorySnapshot>,
    table: Table,
    unread: UnreadRange,
    opts: CursorOpts,
}

impl MemoryCursor {
    pub(super) fn new(
        snapshot: Arc<MemorySnapshot>,
        table: Table,
        range: KeyRange<'_>,
        opts: CursorOpts,
    ) -> Self {
        Self {
            snapshot,
            table,
            unread: UnreadRange::new(range, opts.reverse),
            opts,
        }
    }
}

impl Cursor for MemoryCursor {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.snapshot.shared.check_open()?;
        self.unread.seek(key);
        Ok(())
    }

    fn visit(&mut self, rows_max: usize, f: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<bool> {
        let mut left = rows_max;
        while left > 0 {
            // Rows are copied, so that the lock is not held while `f` runs: it may be slow, and may
            // write.
            let (rows, more) = self.copy(left.min(COPIED_ROWS))?;
            left -= rows.len();
            for (key, value) in &rows {
                if !f(key, value) {
                    self.unread.go_on_behind(key);
                    return Ok(true);
                }
            }
            if let Some((last, _)) = rows.last() {
                self.unread.go_on_behind(last);
            }
            if !more {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

type Copied = Vec<(Vec<u8>, Vec<u8>)>;

impl MemoryCursor {
    /// The next rows, and false when the range ends with them.
    fn copy(&self, rows_max: usize) -> Result<(Copied, bool)> {
        self.snapshot.shared.check_open()?;
        let state = self.snapshot.shared.state.read();
        let mut range = state.range(self.table, self.unread.range(), self.snapshot.pos);
        let mut rows = Vec::new();
        while rows.len() < rows_max {
            let next = if self.opts.reverse {
                range.next_back()
            } else {
                range.next()
            };
            let Some((key, value)) = next else {
                return Ok((rows, false));
            };
            rows.push((
                key.to_vec(),
                if self.opts.keys_only {
                    Vec::new()
                } else {
                    value.to_vec()
                },
            ));
        }
        Ok((rows, true))
    }
}
