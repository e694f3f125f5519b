//! Does nothing once a second.

use super::worker::{Next, Worker};

pub(super) static WORKER: Worker = Worker::short("toyWorker", || Box::new(|_, _| Ok(Next::Again)));
