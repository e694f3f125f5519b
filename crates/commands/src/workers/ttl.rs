//! Deletes expired documents on its own thread, so that a long pass delays no other worker.

use super::worker::{Class, NextRound, Scope, Worker, never};
use crate::ttl::Monitor;
use std::time::Duration;

pub(super) static WORKER: Worker = Worker {
    name: "TTLMonitor",
    class: Class::Own,
    scope: Scope::Database,
    // How often the monitor checks whether a pass is due.
    period: Duration::from_millis(250),
    is_due_early: never,
    work: || {
        let mut monitor = Monitor::default();
        Box::new(move |service, turn| {
            let passed = monitor.pass_if_due(service, &|| turn.may_continue());
            passed.map(|()| NextRound::Again)
        })
    },
    error: ("INDEX", "collections with TTL could not all be found"),
};
