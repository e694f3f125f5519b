//! Saves documents of dropped collections that the log of changes refers to, after which the space
//! of their records is freed. Must not know: records, the log.

use super::worker::{Class, NextRound, Scope, Worker, never};
use operation::interrupted_error;
use std::time::Duration;

pub(super) static WORKER: Worker = Worker {
    name: "references",
    class: Class::Own,
    scope: Scope::Server,
    period: Duration::from_secs(1),
    is_due_early: never,
    work: || {
        Box::new(|service, turn| {
            let go_on = || match turn.may_continue() {
                true => Ok(()),
                false => Err(interrupted_error()),
            };
            service.store.save_references(&go_on)?;
            Ok(NextRound::Again)
        })
    },
    error: (
        "STORAGE",
        "documents of dropped collections could not be saved for the log",
    ),
};
