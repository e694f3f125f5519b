//! What one run of a command keeps for the next: what it has done, and what it is to see again. A
//! run that meets what another operation holds is set aside, and the command is run again (ADR
//! 0037). Must not know: what commands do.

use super::reported::Reported;
use model::{Result, Timestamp};
use operation::{OpaqueValue, ended};
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
    /// Until when the first statement of a transaction may be run again, monotonic microseconds.
    pub(crate) waits_until_us: Option<u64>,
    /// Of the store, for a change that it had begun.
    pub(crate) kept: Option<OpaqueValue>,
}

impl Progress {
    /// What the runs before have done; nothing in the first.
    pub(crate) fn done<T: Any + Default>(&mut self) -> T {
        self.take().unwrap_or_default()
    }

    /// The same for what does not begin empty.
    pub(crate) fn take<T: Any>(&mut self) -> Option<T> {
        let done = self.done.take()?.downcast().ok()?;
        Some(*done)
    }

    /// What was done, and the value of its result. The next run, if there is one, is given what was
    /// done.
    ///
    /// # Errors
    /// That of the result.
    pub(crate) fn settle<T: Any + Send, R>(
        &mut self,
        done: T,
        result: Result<R>,
    ) -> Result<(T, R)> {
        match ended(result) {
            Ok(result) => result.map(|value| (done, value)),
            Err(again) => {
                self.done = Some(Box::new(done));
                Err(again)
            }
        }
    }

    /// The moment of the first run that asked.
    pub(crate) fn moment(&self, now: impl FnOnce() -> Moment) -> Moment {
        *self.moment.get_or_init(now)
    }
}
