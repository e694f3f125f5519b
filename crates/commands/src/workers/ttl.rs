//! Deletes documents that expire, on a thread of its own, so that a long pass delays nothing else.

use super::worker::{Class, Next, Worker, never};
use crate::ttl::Monitor;
use std::time::Duration;

pub(super) static WORKER: Worker = Worker {
    name: "TTLMonitor",
    class: Class::Own,
    // Whether a pass is due is asked so often.
    period: Duration::from_millis(250),
    is_due_early: never,
    work: || {
        let mut monitor = Monitor::default();
        Box::new(move |service, turn| {
            let passed = monitor.pass_if_due(service, &|| turn.goes_on());
            passed.map(|()| Next::Again)
        })
    },
    error: ("INDEX", "collections with TTL could not all be found"),
};
