//! The background workers: what no client waits for. Each is a file here and a line in [`ALL`].
//! Promises: the log reports each error and panic of a worker; the worker runs again, and no other
//! worker stops. Must not know: threads, which the server brings.

mod abandoned_indexes;
mod admission;
mod cursors;
mod log_of_changes;
mod refusals;
mod schedule;
mod search;
mod session_records;
mod sessions;
mod snapshots;
mod sweeper;
mod transactions;
mod ttl;
mod worker;

use crate::state::service::Service;
pub use crate::state::workers::{Progress, Turn, Workers};
pub use schedule::{Schedule, run};
pub use worker::{Class, Next, Work, Worker, never};

/// A worker by its name.
pub fn find(name: &str) -> Option<&'static Worker> {
    ALL.iter().copied().find(|worker| worker.name == name)
}

/// All workers of the service, those that share a thread in the order in which they take turns.
pub static ALL: &[&Worker] = &[
    &admission::WORKER,
    &cursors::WORKER,
    &snapshots::WORKER,
    &transactions::WORKER,
    &sessions::WORKER,
    &log_of_changes::WORKER,
    &abandoned_indexes::WORKER,
    &session_records::WORKER,
    &refusals::WORKER,
    &sweeper::WORKER,
    &ttl::WORKER,
    &search::WORKER,
];

/// One round of each worker that shares a thread, for tests.
pub fn run_shared_once(service: &Service) {
    let shared = ALL.iter().copied().filter(|w| w.class == Class::Shared);
    if let Ok(service) = service.arc() {
        Schedule::new(&service, shared).run_due(&service, &|| true);
    }
}
