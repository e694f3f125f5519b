//! Tells the log of how many refused connections there was no line.

use super::worker::{Next, Worker};

pub(super) static WORKER: Worker = Worker::short("refusals", || {
    Box::new(|service, _| {
        service.tell_left_out();
        Ok(Next::Again)
    })
});
