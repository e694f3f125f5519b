//! What a command that is set aside keeps for its next run: what it has done, and what it is to see
//! again. Must not know: what commands do.

use super::reported::Reported;
use model::{Result, Timestamp};
use operation::{Kept, is_set_aside};
use std::any::Any;
use std::cell::OnceCell;

/// The moment that a command takes for now, and its random numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) now_ms: i64,
    pub(crate) cluster_time: Timestamp,
    pub(crate) seed: u64,
}

/// See the head of this file. Empty in the first run.
#[derive(Default)]
pub(crate) struct Progress {
    /// The command has run before.
    pub(crate) begun: bool,
    done: Option<Box<dyn Any + Send>>,
    moment: OnceCell<Moment>,
    pub(crate) reported: Reported,
    /// Statements that were not run again.
    pub(crate) retried: Vec<i32>,
    /// Until when the first statement of a transaction may be set aside, monotonic microseconds.
    pub(crate) waits_until_us: Option<u64>,
    /// Of the store, for a change that was set aside.
    pub(crate) kept: Option<Kept>,
}

impl Progress {
    /// What the runs before have done; nothing in the first.
    pub(crate) fn done<T: Any + Default>(&mut self) -> T {
        let done = self.done.take().and_then(|d| d.downcast().ok());
        done.map_or_else(T::default, |d| *d)
    }

    /// Keeps what was done when the command is set aside.
    pub(crate) fn keep<T: Any + Send, R>(&mut self, done: T, result: &Result<R>) {
        if is_set_aside(result) {
            self.done = Some(Box::new(done));
        }
    }

    /// The moment of the first run that asked.
    pub(crate) fn moment(&self, now: impl FnOnce() -> Moment) -> Moment {
        *self.moment.get_or_init(now)
    }
}
