//! Ends sessions that were not used for half an hour.

use super::worker::{NextRound, Worker};

pub(super) static WORKER: Worker = Worker::short("sessions", || {
    Box::new(|service, _| {
        for id in service.state.sessions.idle(service.clock.monotonic_us()) {
            match service.store.peer() {
                // Another server may use the session; its record goes when none does.
                Some(_) => _ = service.kill_session(&id),
                None => service.end_session(&id),
            }
        }
        Ok(NextRound::Again)
    })
});
