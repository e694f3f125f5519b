//! The held journal: commits are applied and visible, but nothing above a position becomes durable
//! until the journal is released, as with a slow device. Blocking waits for durability then block.

use parking_lot::{Condvar, Mutex};

use super::{Call, Observer};
use crate::engine::{Caps, CommitPos, Durability};
use crate::error::{Result, StorageError};

/// Delays durability on request.
#[derive(Debug, Default)]
pub struct HeldJournal {
    /// Commits above this position are not durable.
    at: Mutex<Option<CommitPos>>,
    released: Condvar,
}

impl HeldJournal {
    /// From now on nothing above `pos` becomes durable.
    pub fn hold(&self, pos: CommitPos) {
        *self.at.lock() = Some(pos);
    }

    /// Releases the journal. Hooks are called with the next commit.
    pub fn release(&self) {
        *self.at.lock() = None;
        self.released.notify_all();
    }

    fn wait(&self, pos: CommitPos) {
        let mut at = self.at.lock();
        while at.is_some_and(|held| pos > held) {
            self.released.wait(&mut at);
        }
    }
}

impl Observer for HeldJournal {
    fn before_call(&self, call: &Call<'_>, _caps: &Caps) -> Result<()> {
        if let Call::WaitDurable { pos } = call {
            self.wait(*pos);
        }
        Ok(())
    }

    fn after_call(
        &self,
        call: &Call<'_>,
        outcome: std::result::Result<CommitPos, &StorageError>,
    ) -> Result<()> {
        if let (
            Call::Apply {
                durability: Durability::Journaled,
                ..
            },
            Ok(pos),
        ) = (call, outcome)
        {
            self.wait(pos);
        }
        Ok(())
    }

    fn durable(&self, real: CommitPos) -> CommitPos {
        self.at.lock().map_or(real, |held| held.min(real))
    }
}
