//! Does nothing once a second.

use super::worker::{NextRound, Worker};

pub(super) static WORKER: Worker =
    Worker::short("toyWorker", || Box::new(|_, _| Ok(NextRound::Again)));
