//! Units of a memory engine to which several stores write: a commit compares what the unit has read
//! with the current state. Must not know: which other stores write.

use super::read::{MemoryCursor, MemorySnapshot, SharedSnapshot};
use super::shared::Shared;
use super::table::State;
use crate::batch::WriteBatch;
use crate::engine::{Caps, CheckedUnit, CommitPos, Cursor, CursorOpts, Durability, Reader};
use crate::error::{Result, StorageError};
use crate::keys::{KeyRange, Table};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A unit that detects conflicts, see [`CheckedUnit`].
pub(super) struct MemoryUnit<'e> {
    shared: &'e Arc<Shared>,
    caps: &'e Caps,
    snapshot: SharedSnapshot,
    seen: Mutex<Vec<ReadRange>>,
    /// Position of the last commit that was announced before it began.
    announced: [u8; 8],
    is_exclusive: bool,
}

/// A range of keys that was read; a single key is the range up to its successor.
struct ReadRange {
    table: Table,
    lower: Vec<u8>,
    upper: Vec<u8>,
}

impl<'e> MemoryUnit<'e> {
    pub(super) fn begin(shared: &'e Arc<Shared>, caps: &'e Caps) -> Result<MemoryUnit<'e>> {
        let (snapshot, announced) = MemorySnapshot::take_announced(shared)?;
        let snapshot = Arc::new(snapshot);
        Ok(MemoryUnit::begin_at(shared, caps, snapshot, announced))
    }

    /// Begins at an earlier state. `announced` is the position of the last commit before it that
    /// was announced.
    pub(super) fn begin_at(
        shared: &'e Arc<Shared>,
        caps: &'e Caps,
        snapshot: Arc<MemorySnapshot>,
        announced: u64,
    ) -> MemoryUnit<'e> {
        MemoryUnit {
            shared,
            caps,
            snapshot: SharedSnapshot(snapshot),
            seen: Mutex::default(),
            announced: announced.to_be_bytes(),
            is_exclusive: false,
        }
    }

    /// Makes it conflict with all units that commit after it and began before.
    pub(super) fn exclusive(self) -> MemoryUnit<'e> {
        MemoryUnit {
            is_exclusive: true,
            ..self
        }
    }

    fn note(&self, table: Table, lower: &[u8], upper: &[u8]) {
        self.seen.lock().push(ReadRange {
            table,
            lower: lower.to_vec(),
            upper: upper.to_vec(),
        });
    }

    fn note_key(&self, table: Table, key: &[u8]) {
        self.note(table, key, &[key, &[0]].concat());
    }
}

impl Reader for MemoryUnit<'_> {
    fn get_with(&self, table: Table, key: &[u8], f: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.note_key(table, key);
        self.snapshot.get_with(table, key, f)
    }

    fn multi_get(
        &self,
        table: Table,
        keys: &[&[u8]],
        each: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        keys.iter().for_each(|key| self.note_key(table, key));
        self.snapshot.multi_get(table, keys, each)
    }

    fn cursor(
        &self,
        table: Table,
        range: KeyRange<'_>,
        opts: CursorOpts,
    ) -> Result<Box<dyn Cursor>> {
        range.check()?;
        self.note(table, range.lower, range.upper);
        let snapshot = Arc::clone(&self.snapshot.0);
        Ok(Box::new(MemoryCursor::new(snapshot, table, range, opts)))
    }
}

impl CheckedUnit for MemoryUnit<'_> {
    fn commit(self: Box<Self>, batch: &WriteBatch, _: Durability) -> Result<CommitPos> {
        let act = self.shared.before_commit.lock().take();
        if let Some(act) = act {
            act();
        }
        let began = self.snapshot.0.pos();
        let is_unchanged = |state: &State, next: u64| {
            let exclusive_pos = &self.shared.exclusive_pos;
            if exclusive_pos.load(Ordering::Relaxed) > began {
                return false;
            }
            let is_unchanged = self.seen.lock().iter().all(|seen| {
                let range = KeyRange::new(&seen.lower, &seen.upper);
                let now = state.range(seen.table, range, state.pos());
                state.range(seen.table, range, began).eq(now)
            });
            if is_unchanged && self.is_exclusive {
                exclusive_pos.store(next, Ordering::Relaxed);
            }
            is_unchanged
        };
        let applied = self.shared.apply_if(batch, self.caps, is_unchanged)?;
        applied.ok_or(StorageError::Conflict)
    }

    fn announced(&self) -> &[u8] {
        &self.announced
    }
}
