//! Removes the retry records of ended sessions.

use super::worker::{NextRound, Worker};

pub(super) static WORKER: Worker = Worker {
    error: ("WRITE", "records of sessions could not be removed"),
    ..Worker::short("sessionRecords", || {
        Box::new(|service, _| {
            let sessions = &service.state.sessions;
            if sessions.sweep_is_due(service.started_ms, service.clock.now_ms()) {
                let is_open = |id: &[u8; 16]| sessions.contains(id);
                service.store.sweep_sessions(&is_open)?;
            }
            Ok(NextRound::Again)
        })
    })
};
