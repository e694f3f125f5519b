//! What a background worker is. Must not know: which workers there are, threads.

use crate::state::service::Service;
use crate::state::workers::Turn;
use model::Result;
use std::sync::Arc;
use std::time::Duration;

/// What a worker does, with what it remembers from round to round.
pub type Work = Box<dyn FnMut(&Arc<Service>, &Turn<'_>) -> Result<Next> + Send>;

/// A background worker, as data.
pub struct Worker {
    /// Its name in `currentOp`, in `serverStatus` and in the log.
    pub name: &'static str,
    /// Where it runs.
    pub class: Class,
    /// From the end of a round to the next one.
    pub period: Duration,
    /// Whether its round is due before that. It is asked when the thread is unparked.
    pub is_due_early: fn(&Service) -> bool,
    /// Makes what it does.
    pub work: fn() -> Work,
    /// The component of the log that tells of its errors, and what the line begins with.
    pub error: (&'static str, &'static str),
}

/// Where a worker runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// One after another on one thread: its rounds are short.
    Shared,
    /// On a thread of its own.
    Own,
}

/// What comes after a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Another one, after the period.
    Again,
    /// None: this server has nothing for the worker.
    Ended,
}

impl Worker {
    /// A worker with short rounds, one a second.
    pub const fn short(name: &'static str, work: fn() -> Work) -> Worker {
        Worker {
            name,
            class: Class::Shared,
            period: Duration::from_secs(1),
            is_due_early: never,
            work,
            error: ("CONTROL", "a background worker failed"),
        }
    }
}

/// Of a worker whose rounds are due by its period alone.
pub fn never(_: &Service) -> bool {
    false
}
