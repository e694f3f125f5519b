//! The background workers: work that no client waits for. Each worker is a file and a line here.
//! Promises: the log reports each error and panic of a worker; the worker runs again, and no other
//! worker stops. Must not know: threads, which the server creates.

mod schedule;
mod worker;

pub use schedule::{Schedule, run};
use state::service::Service;
pub use state::workers::{Progress, RoundContext, Workers};
pub use worker::{Class, NextRound, Scope, Worker, WorkerFn, never};

/// A worker by its name.
pub fn find(name: &str) -> Option<&'static Worker> {
    ALL.iter().copied().find(|worker| worker.name == name)
}

/// Declares the files of the workers, and their table.
macro_rules! workers {
    ($($module:ident),* $(,)?) => {
        $(mod $module;)*
        /// All workers of the service. Workers that share a thread take turns in this order.
        pub static ALL: &[&Worker] = &[$(&$module::WORKER),*];
    };
}

// Add a line here for a new worker.
workers! {
    peers,
    admission,
    cursors,
    snapshots,
    transactions,
    sessions,
    log_of_changes,
    abandoned_indexes,
    session_records,
    temporary_collections,
    refusals,
    sweeper,
    references,
    ttl,
    search,
    samples,
    column_segments,
}

/// Runs one round of each worker that shares a thread, for tests.
pub fn run_shared_once(service: &Service) {
    let shared = ALL.iter().copied().filter(|w| w.class == Class::Shared);
    if let Ok(service) = service.arc() {
        Schedule::new(&service, shared).run_due(&service, &|| true);
    }
}
