//! State that the memory engine, its snapshots and its cursors share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use super::table::State;
use crate::batch::WriteBatch;
use crate::engine::{Caps, CommitPos, DurableHook, FlushEvent};
use crate::error::{Result, StorageError};

pub(super) struct Shared {
    pub(super) state: RwLock<State>,
    pub(super) closed: AtomicBool,
    pub(super) hooks: Mutex<Vec<DurableHook>>,
    /// Position of the last commit of an exclusive unit. Changed under the lock of the state.
    pub(super) exclusive_pos: AtomicU64,
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
            CommitPos(state.apply(batch))
        };
        for hook in self.hooks.lock().iter() {
            hook(FlushEvent::Durable(pos));
        }
        Ok(Some(pos))
    }

    pub(super) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            Err(StorageError::Closed)
        } else {
            Ok(())
        }
    }
}
