//! State that the memory engine, its snapshots and its cursors share.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::SystemTime;

use parking_lot::{Mutex, RwLock};

use super::table::State;
use crate::batch::WriteBatch;
use crate::engine::{Caps, CommitPos, DurableHook, FlushEvent};
use crate::error::{Result, StorageError};
use crate::keys::Table;

pub(super) struct Shared {
    pub(super) state: RwLock<State>,
    pub(super) closed: AtomicBool,
    pub(super) hooks: Mutex<Vec<DurableHook>>,
    /// Position of the last commit of an exclusive unit. Changed under the lock of the state.
    pub(super) exclusive_pos: AtomicU64,
    /// Which rows other stores keep in memory.
    pub(super) kept: OnceLock<fn(Table, &[u8]) -> bool>,
    /// Position of the last commit that was announced. Changed under the lock of the state.
    pub(super) announced_pos: AtomicU64,
    /// The numbers of rows that were given so far.
    pub(super) numbered: AtomicU64,
    /// What a test does right before the next commit of a unit.
    pub(super) before_commit: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// The shared clock; 0 until it is set.
    pub(super) time_ms: AtomicU64,
    /// Whether several stores write, for which positions are times.
    pub(super) is_checked: bool,
}

impl Shared {
    /// The position of the next commit, the last of those that it takes.
    fn next_pos(&self, state: &State, positions: u32) -> u64 {
        let next = state.pos() + 1;
        if !self.is_checked {
            return next;
        }
        let (first, more) = (now().max(next), u64::from(positions) - 1);
        // All are of one millisecond.
        match (first & NUMBERS) + more > NUMBERS {
            true => (first | NUMBERS) + 1 + more,
            false => first + more,
        }
    }

    /// Applies a batch if the condition on the state holds; `None` when it does not.
    pub(super) fn apply_if(
        &self,
        batch: &WriteBatch,
        caps: &Caps,
        allows: impl FnOnce(&State, u64) -> bool,
    ) -> Result<Option<CommitPos>> {
        self.check_open()?;
        caps.check_sizes(batch)?;
        let pos = {
            let mut state = self.state.write();
            let next = self.next_pos(&state, batch.positions());
            if !allows(&state, next) {
                return Ok(None);
            }
            let pos = state.apply_at(batch, next);
            let kept = self.kept.get();
            if kept.is_some_and(|kept| batch.iter().any(|op| op.changes_kept(*kept))) {
                self.announced_pos.store(pos, Ordering::Relaxed);
            }
            CommitPos(pos)
        };
        for hook in self.hooks.lock().iter() {
            hook(FlushEvent::Durable(pos));
        }
        Ok(Some(pos))
    }

    /// Announces a commit that changes nothing.
    pub(super) fn announce_now(&self) -> Result<()> {
        self.check_open()?;
        let mut state = self.state.write();
        let next = self.next_pos(&state, 1);
        let pos = state.apply_at(&WriteBatch::new(), next);
        self.announced_pos.store(pos, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            Err(StorageError::Closed)
        } else {
            Ok(())
        }
    }
}

/// The bits of a position below the milliseconds.
const NUMBERS: u64 = (1 << 18) - 1;

/// The time as a position, see [`crate::CheckedUnit::commit`].
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let ms = since.map_or(0, |since| since.as_millis());
    u64::try_from(ms).unwrap_or(0) << 18
}
