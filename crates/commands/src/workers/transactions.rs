//! Aborts transactions whose time is over.

use super::worker::{NextRound, Worker};
use state::service::Service;

pub(super) static WORKER: Worker = Worker::short("transactions", || {
    Box::new(|service, _| {
        if service.state.transactions.open() > 0 {
            abort_expired(service);
        }
        Ok(NextRound::Again)
    })
});

fn abort_expired(service: &Service) {
    let now_us = service.clock.monotonic_us();
    for (id, session) in service.state.sessions.list() {
        // A locked session runs a statement; the next round checks it again.
        if let Some(mut writes) = session.writes.try_lock()
            && let Some(number) = writes.expire(now_us, &service.state.transactions)
        {
            service.cursors.kill_transaction(&id, number);
        }
    }
}
