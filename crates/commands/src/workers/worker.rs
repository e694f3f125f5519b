//! The definition of a background worker. Must not know: which workers exist, threads.

use model::Result;
use state::service::Service;
use state::workers::RoundContext;
use std::sync::Arc;
use std::time::Duration;

/// The work of one round, with the state that it keeps between rounds.
pub type WorkerFn = Box<dyn FnMut(&Arc<Service>, &RoundContext<'_>) -> Result<NextRound> + Send>;

/// A background worker, as data.
pub struct Worker {
    /// Its name in `currentOp`, in `serverStatus` and in the log.
    pub name: &'static str,
    /// The kind of thread it runs on.
    pub class: Class,
    /// Of what there is one such worker.
    pub scope: Scope,
    /// Time between the end of a round and the next one.
    pub period: Duration,
    /// Whether a round is due before the period ends; checked when the thread is unparked.
    pub is_due_early: fn(&Service) -> bool,
    /// Creates the work function.
    pub work: fn() -> WorkerFn,
    /// The log component of its errors, and the beginning of the log line.
    pub error: (&'static str, &'static str),
}

/// The kind of thread that a worker runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Workers with short rounds share one thread and take turns.
    Shared,
    /// The worker has its own thread.
    Own,
}

/// Of what there is one worker of a kind. It matters where several servers write one database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One in each server: it works on what this server keeps in memory.
    Server,
    /// One in the database: when the server that has this work has gone, another does it.
    Database,
}

/// What follows a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextRound {
    /// Another round after the period.
    Again,
    /// Nothing: this server has no work for the worker.
    Ended,
}

impl Worker {
    /// A worker with short rounds, one per second.
    pub const fn short(name: &'static str, work: fn() -> WorkerFn) -> Worker {
        Worker {
            name,
            class: Class::Shared,
            scope: Scope::Server,
            period: Duration::from_secs(1),
            is_due_early: never,
            work,
            error: ("CONTROL", "a background worker failed"),
        }
    }
}

/// For a worker whose rounds are due only by its period.
pub fn never(_: &Service) -> bool {
    false
}
