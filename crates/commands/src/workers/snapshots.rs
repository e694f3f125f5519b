//! Drops states that are too old for clients to read by cluster time.

use super::worker::{NextRound, Worker};

pub(super) static WORKER: Worker = Worker::short("snapshots", || {
    Box::new(|service, _| {
        let window_s = (service.state.parameters).int("minSnapshotHistoryWindowInSeconds");
        let window_us = u64::try_from(window_s)
            .unwrap_or(0)
            .saturating_mul(1_000_000);
        let now_us = service.clock.monotonic_us();
        (service.state.snapshots).expire(now_us.saturating_sub(window_us));
        Ok(NextRound::Again)
    })
});
