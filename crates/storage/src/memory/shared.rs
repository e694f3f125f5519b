//! State that the memory engine, its snapshots and its cursors share.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

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
}

impl Shared {
    /// Applies a batch if the condition on the state holds; `None` when it does not.
    pub(super) fn apply_if(
        &self,
        batch: &WriteBatch,
        caps: &Caps,
        allows: impl FnOnce(&State) -> bool,
    ) -> Result<Option<CommitPos>> {
        self.check_open()?;
        caps.check_sizes(batch)?;
        let pos = {
            let mut state = self.state.write();
            if !allows(&state) {
                return Ok(None);
            }
            let pos = state.apply(batch);
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
        let pos = state.apply(&WriteBatch::new());
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
