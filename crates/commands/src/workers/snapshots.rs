//! Drops states that are too old for clients to read by cluster time.

use super::worker::{NextRound, Worker};

pub(super) static WORKER: Worker = Worker::short("snapshots", || {
    Box::new(|service, _| {
        let window_s = (service.state.parameters).int("minSnapshotHistoryWindowInSeconds");
        let before_ms = service.clock.now_ms() - window_s.saturating_mul(1000);
        service.state.snapshots.expire(before_ms);
        Ok(NextRound::Again)
    })
});
