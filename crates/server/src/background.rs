//! The threads behind the server that no client waits for: expiry of cursors and sessions, space of
//! what was dropped, documents that expire, search indexes. Promises: each ends soon after it is
//! told to.

use crate::report::Trouble;
use commands::Service;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Starts all of them; they end after `stopping` is set and they are unparked.
pub(crate) fn start_all(service: &Arc<Service>, stopping: &Arc<AtomicBool>) -> Vec<JoinHandle<()>> {
    [housekeeping, ttl_monitor, search_feeder, sweeper]
        .into_iter()
        .filter_map(|start| start(Arc::clone(service), Arc::clone(stopping)))
        .collect()
}

/// Ends idle cursors and sessions, once a second.
fn housekeeping(service: Arc<Service>, stopping: Arc<AtomicBool>) -> Option<JoinHandle<()>> {
    std::thread::Builder::new()
        .name("housekeeping".to_owned())
        .spawn(move || {
            let mut trouble = Trouble::default();
            while !stopping.load(Ordering::Acquire) {
                service.expire();
                let found = trouble.look(service.store.engine().as_ref());
                found.iter().for_each(|e| service.tell(e));
                service.tell_left_out();
                std::thread::park_timeout(Duration::from_secs(1));
            }
        })
        .ok()
}

/// How often keys of dropped identifiers are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// Gives back the space of what was dropped: all of it once after the start, then what the engine
/// has rewritten.
fn sweeper(service: Arc<Service>, stopping: Arc<AtomicBool>) -> Option<JoinHandle<()>> {
    std::thread::Builder::new()
        .name("sweeper".to_owned())
        .spawn(move || {
            let go_on = || !stopping.load(Ordering::Acquire);
            let mut unowned = true;
            while go_on() {
                service.sweep(unowned, &go_on);
                unowned = false;
                let began = std::time::Instant::now();
                while go_on() && began.elapsed() < SWEEP_EVERY {
                    std::thread::park_timeout(SWEEP_EVERY.saturating_sub(began.elapsed()));
                }
            }
        })
        .ok()
}

/// Works until the second argument says no.
type Work = fn(&Arc<Service>, &dyn Fn() -> bool);

/// Deletes documents that expire, on a thread of its own, so that a long pass delays nothing else.
fn ttl_monitor(service: Arc<Service>, stopping: Arc<AtomicBool>) -> Option<JoinHandle<()>> {
    begin("ttl", service, stopping, commands::ttl::run)
}

/// Builds search indexes and follows the log for them.
fn search_feeder(service: Arc<Service>, stopping: Arc<AtomicBool>) -> Option<JoinHandle<()>> {
    begin("search", service, stopping, commands::feed::run)
}

/// A thread that begins again when its work panics.
fn begin(
    name: &'static str,
    service: Arc<Service>,
    stopping: Arc<AtomicBool>,
    work: Work,
) -> Option<JoinHandle<()>> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            let go_on = || !stopping.load(Ordering::Acquire);
            while go_on() {
                let run = || work(&service, &go_on);
                match std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
                    // It ends when it is told to, or when this server has nothing for it.
                    Ok(()) => return,
                    Err(_) => {
                        let message = format!("the thread {name} panicked and begins again");
                        service.log('F', "INDEX", &message);
                        std::thread::park_timeout(Duration::from_secs(1));
                    }
                }
            }
        })
        .ok()
}
