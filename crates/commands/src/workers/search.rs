//! Builds search indexes and follows the log for them.

use super::worker::{Class, NextRound, Scope, Worker, never};
use std::time::Duration;

pub(super) static WORKER: Worker = Worker {
    name: "search",
    class: Class::Own,
    scope: Scope::Server,
    period: Duration::ZERO,
    is_due_early: never,
    work: || {
        Box::new(|service, turn| {
            // The feeder schedules itself, because changes wake it.
            crate::feed::run(service, turn);
            Ok(NextRound::Ended)
        })
    },
    error: ("INDEX", "search indexes could not be followed"),
};
