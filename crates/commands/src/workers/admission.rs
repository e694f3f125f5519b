//! Adjusts how many operations run at the same time to the measured throughput.

use super::worker::{NextRound, Worker};

pub(super) static WORKER: Worker = Worker::short("admission", || {
    Box::new(|service, _| {
        let parameters = &service.state.parameters;
        let most = ["Read", "Write"]
            .map(|kind| parameters.int(&format!("wiredTigerConcurrent{kind}Transactions")));
        let now_us = service.clock.monotonic_us();
        service.state.admission.adapt(now_us, most);
        Ok(NextRound::Again)
    })
});
