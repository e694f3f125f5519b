//! Removes the retry records of ended sessions.

use super::worker::{NextRound, Scope, Worker};
use model::Result;
use state::service::Service;
use store::SeenSessions;

pub(super) static WORKER: Worker = Worker {
    scope: Scope::Database,
    error: ("WRITE", "records of sessions could not be removed"),
    ..Worker::short("sessionRecords", || {
        let mut seen = SeenSessions::default();
        Box::new(move |service, _| sweep(service, &mut seen).map(|()| NextRound::Again))
    })
};

fn sweep(service: &Service, seen: &mut SeenSessions) -> Result<()> {
    let sessions = &service.state.sessions;
    if !sessions.sweep_is_due(service.started_us, service.clock.monotonic_us()) {
        return Ok(());
    }
    let is_open = |id: &[u8; 16]| sessions.contains(id);
    // Beside other servers a session may be in use that this one does not know.
    match service.store.peer() {
        Some(_) => service.store.sweep_unused_sessions(seen, &is_open)?,
        None => service.store.sweep_sessions(&is_open)?,
    };
    Ok(())
}
