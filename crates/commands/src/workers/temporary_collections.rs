//! Drops the temporary collections of servers that have gone, where several write one database.

use super::worker::{NextRound, Scope, Worker};
use context::ddl::temporary;
use std::time::Duration;

pub(super) static WORKER: Worker = Worker {
    scope: Scope::Database,
    period: Duration::from_secs(10),
    error: ("STORAGE", "temporary collections could not be dropped"),
    ..Worker::short("temporaryCollections", || {
        Box::new(|service, _| {
            if service.store.peer().is_none() {
                return Ok(NextRound::Ended);
            }
            temporary::sweep(service).map(|()| NextRound::Again)
        })
    })
};
