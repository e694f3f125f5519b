//! The oldest state of the data that has a reader. Promises: while a state is held, everything that
//! was dropped after it is known to be still needed. Must not know: what is read or dropped.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use storage::{CommitPos, Engine};

/// The held states: how many hold each position.
#[derive(Default)]
pub(crate) struct Pins {
    held: Mutex<BTreeMap<CommitPos, usize>>,
}

/// Holds a state until it is dropped.
pub(crate) struct Pin {
    pins: Arc<Pins>,
    pos: CommitPos,
}

impl Pins {
    /// Holds the current state. A snapshot taken afterwards is covered, too: it is this state or a
    /// later one.
    pub(crate) fn hold(self: &Arc<Self>, engine: &dyn Engine) -> Pin {
        let mut held = self.held.lock();
        let pos = engine.last_pos();
        *held.entry(pos).or_insert(0) += 1;
        Pin {
            pins: Arc::clone(self),
            pos,
        }
    }

    /// Whether a state before this commit is held. Once the answer is no for a visible commit, it
    /// stays no.
    pub(crate) fn is_held_before(&self, pos: CommitPos) -> bool {
        let held = self.held.lock();
        held.first_key_value()
            .is_some_and(|(first, _)| *first < pos)
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut held = self.pins.held.lock();
        if let Some(count) = held.get_mut(&self.pos) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.pos);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use storage::{Durability, MemoryEngine, Table, WriteBatch};

    #[test]
    fn a_commit_is_held_back_by_states_before_it_alone() {
        let (engine, pins) = (MemoryEngine::new(), Arc::<Pins>::default());
        let commit = || {
            let mut batch = WriteBatch::new();
            batch.put(Table::Meta, b"k", b"v");
            engine.apply(&batch, Durability::Buffered).unwrap()
        };
        let first = pins.hold(&engine);
        let dropped = commit();
        let (second, third) = (pins.hold(&engine), pins.hold(&engine));
        assert!(pins.is_held_before(dropped));
        drop(first);
        assert!(!pins.is_held_before(dropped));
        let later = commit();
        drop(second);
        assert!(pins.is_held_before(later));
        drop(third);
        assert!(!pins.is_held_before(later));
    }
}
