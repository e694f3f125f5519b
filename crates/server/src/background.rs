//! The threads of the background workers, which no client waits for. Promises: each thread ends
//! soon after it is told to. Must not know: what the workers of `commands` do.

use crate::report::FaultMonitor;
use commands::Service;
use commands::workers::{self, Class, NextRound, Scope, Worker, never};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Logs every count of engine trouble that has grown since the last look.
static TROUBLE: Worker = Worker {
    name: "trouble",
    class: Class::Shared,
    scope: Scope::Server,
    period: Duration::from_secs(1),
    is_due_early: never,
    work: || {
        let mut trouble = FaultMonitor::default();
        Box::new(move |service, _| {
            let found = trouble.collect_changes(service.store.engine().as_ref());
            found.iter().for_each(|e| service.write_log(e));
            Ok(NextRound::Again)
        })
    },
    error: ("STORAGE", "the state of the engine could not be read"),
};

/// Names of the workers that run on a server that only reads: they end its cursors and sessions.
const OF_READERS: &[&str] = &["cursors", "sessions", "refusals"];

/// Starts the worker of a server that only reads; it ends with the process.
pub(crate) fn start_for_reading(service: &Arc<Service>) -> std::io::Result<()> {
    let list = || OF_READERS.iter().filter_map(|name| workers::find(name));
    let service = Arc::clone(service);
    let work = move || workers::run(&service, list().collect::<Vec<_>>(), &|| true);
    let thread = std::thread::Builder::new().name("housekeeping".to_owned());
    thread.spawn(work).map(drop)
}

/// Starts all workers; they end after `stopping` is set and their threads are unparked.
pub(crate) fn start_all(service: &Arc<Service>, stopping: &Arc<AtomicBool>) -> Vec<JoinHandle<()>> {
    let all = || workers::ALL.iter().copied().chain([&TROUBLE]);
    let of = |class: Class| all().filter(move |worker| worker.class == class);
    let shared = ("housekeeping", of(Class::Shared).collect::<Vec<_>>());
    let own = of(Class::Own).map(|worker| (worker.name, vec![worker]));
    let begin = |(name, list): (&str, Vec<&'static Worker>)| {
        let (service, stopping) = (Arc::clone(service), Arc::clone(stopping));
        let work = move || workers::run(&service, list, &|| !stopping.load(Ordering::Acquire));
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(work)
            .ok()
    };
    std::iter::once(shared)
        .chain(own)
        .filter_map(begin)
        .collect()
}
