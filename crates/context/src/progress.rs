//! What one run of a command keeps for the next run: its progress, and the values that all runs
//! have to share. A run that needs a lock of another operation is set aside, and the command is run
//! again (ADR 0037). Must not know: what commands do.

use super::reported::ReplyState;
use model::{Result, Timestamp};
use operation::{OpaqueValue, split_set_aside};
use std::any::Any;
use std::cell::OnceCell;

/// The time that a command uses as now, and the seed of its random numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) now_ms: i64,
    pub(crate) cluster_time: Timestamp,
    pub(crate) seed: u64,
}

/// The values that one run of a command keeps for the next; empty in the first run.
#[derive(Default)]
pub struct Progress {
    /// The command has run before.
    pub begun: bool,
    done: Option<Box<dyn Any + Send>>,
    moment: OnceCell<Moment>,
    /// What the reply reports so far.
    pub reported: ReplyState,
    /// Numbers of statements that were done before and not run again.
    pub retried: Vec<i32>,
    /// The end of the period in which the first statement of a transaction may be run again,
    /// monotonic microseconds.
    pub waits_until_us: Option<u64>,
    /// The value that the store keeps for a change that it had begun.
    pub kept: Option<OpaqueValue>,
}

impl Progress {
    /// What the previous runs have done; the empty value in the first run.
    pub fn take_or_default<T: Any + Default>(&mut self) -> T {
        self.take().unwrap_or_default()
    }

    /// The same for a type without a default; `None` in the first run.
    pub fn take<T: Any>(&mut self) -> Option<T> {
        let done = self.done.take()?.downcast().ok()?;
        Some(*done)
    }

    /// Keeps `done` for the next run, if the command is run again, and returns it with the value of
    /// `result` otherwise.
    ///
    /// # Errors
    /// That of the result.
    pub fn settle<T: Any + Send, R>(&mut self, done: T, result: Result<R>) -> Result<(T, R)> {
        match split_set_aside(result) {
            Ok(result) => result.map(|value| (done, value)),
            Err(again) => {
                self.done = Some(Box::new(done));
                Err(again)
            }
        }
    }

    /// The time of the first run that asked for it.
    pub(crate) fn moment(&self, now: impl FnOnce() -> Moment) -> Moment {
        *self.moment.get_or_init(now)
    }
}
