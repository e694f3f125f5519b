//! Ends cursors that were not used for `cursorTimeoutMillis`.

use super::worker::{NextRound, Worker};

pub(super) static WORKER: Worker = Worker::short("cursors", || {
    Box::new(|service, _| {
        let timeout_ms = service.state.parameters.int("cursorTimeoutMillis");
        service
            .cursors
            .expire(service.clock.monotonic_us(), timeout_ms);
        Ok(NextRound::Again)
    })
});
