//! Logs how many refused connections got no line.

use super::worker::{NextRound, Worker};

pub(super) static WORKER: Worker = Worker::short("refusals", || {
    Box::new(|service, _| {
        service.tell_left_out();
        Ok(NextRound::Again)
    })
});
