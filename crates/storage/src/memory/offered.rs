//! The moments of a memory engine at which units may begin. Must not know: units.

use super::read::MemorySnapshot;
use crate::engine::CommitPos;
use parking_lot::Mutex;
use std::sync::{Arc, Weak};

/// A moment, while somebody has it, and the position of the last commit before it that was
/// announced.
struct OfferedMoment {
    snapshot: Weak<MemorySnapshot>,
    announced: u64,
}

/// The moments at which no unit has begun.
#[derive(Default)]
pub(super) struct OfferedMoments(Mutex<Vec<OfferedMoment>>);

impl OfferedMoments {
    /// Allows a unit to begin at a moment.
    pub(super) fn add(&self, snapshot: &Arc<MemorySnapshot>, announced: u64) {
        let mut offered = self.0.lock();
        offered.retain(|moment| moment.snapshot.strong_count() > 0);
        offered.push(OfferedMoment {
            snapshot: Arc::downgrade(snapshot),
            announced,
        });
    }

    /// The moment at this position, for one unit.
    pub(super) fn take(&self, at: CommitPos) -> Option<(Arc<MemorySnapshot>, u64)> {
        let mut offered = self.0.lock();
        for n in 0..offered.len() {
            let snapshot = offered[n].snapshot.upgrade();
            if let Some(snapshot) = snapshot.filter(|s| s.pos() == at.0) {
                return Some((snapshot, offered.swap_remove(n).announced));
            }
        }
        None
    }
}
