//! What the memory engine, its snapshots and its cursors share.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;

use super::table::State;
use crate::error::{Result, StorageError};

pub(super) struct Shared {
    pub(super) state: RwLock<State>,
    pub(super) closed: AtomicBool,
}

impl Shared {
    pub(super) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            Err(StorageError::Closed)
        } else {
            Ok(())
        }
    }
}
