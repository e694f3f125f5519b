//! Says that this server is alive, where several servers write one database: the others do the
//! work of one that has gone. On a thread of its own, so that long work does not make this server
//! count as gone.

use super::worker::{Class, NextRound, Scope, Worker, never};
use std::time::{Duration, Instant};

/// Interval at which the rows of servers that have gone are removed, and users are resolved again.
const FORGET_EVERY: Duration = Duration::from_secs(30);

pub(super) static WORKER: Worker = Worker {
    name: "peers",
    class: Class::Own,
    scope: Scope::Server,
    period: Duration::from_secs(1),
    is_due_early: never,
    work: || {
        let mut forgot = Instant::now();
        Box::new(move |service, _| {
            if service.store.peer().is_none() {
                return Ok(NextRound::Ended);
            }
            service.store.say_alive()?;
            if forgot.elapsed() >= FORGET_EVERY {
                // A server that ended between a change of rights and its announcement.
                service.access.forget_resolved();
                service.store.forget_gone_peers()?;
                forgot = Instant::now();
            }
            Ok(NextRound::Again)
        })
    },
    error: (
        "STORAGE",
        "the other servers could not be told that this one is alive",
    ),
};
