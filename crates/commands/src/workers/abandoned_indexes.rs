//! Removes indexes whose builds were abandoned.

use super::worker::{NextRound, Worker};

pub(super) static WORKER: Worker = Worker {
    error: ("INDEX", "an abandoned index could not be removed"),
    ..Worker::short("abandonedIndexes", || {
        Box::new(|service, _| {
            let operation = service.own_operation();
            service.store.writer(&operation).sweep_abandoned()?;
            Ok(NextRound::Again)
        })
    })
};
