//! The progress of the background workers, for `currentOp` and `serverStatus`. Promises: a round
//! costs two reads of the clock and a few additions. Must not know: which workers exist, which
//! threads they run on.

use model::DocBuf;
use operation::Clock;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The parameters of a worker's turn.
#[derive(Clone, Copy)]
pub struct RoundContext<'t> {
    go_on: &'t dyn Fn() -> bool,
    progress: &'t Progress,
}

impl<'t> RoundContext<'t> {
    /// A turn of the worker with this progress; it ends when `go_on` returns false.
    pub fn new(go_on: &'t dyn Fn() -> bool, progress: &'t Progress) -> RoundContext<'t> {
        RoundContext { go_on, progress }
    }

    /// False when the worker has to end.
    pub fn may_continue(&self) -> bool {
        (self.go_on)()
    }

    /// Runs and counts a round of a worker that schedules itself.
    pub fn round<T>(&self, clock: &dyn Clock, f: impl FnOnce() -> T) -> T {
        self.progress.round(clock, f)
    }
}

/// The progress of one worker.
#[derive(Debug)]
pub struct Progress {
    name: &'static str,
    rounds: AtomicU64,
    errors: AtomicU64,
    busy_us: AtomicU64,
    /// When the running round has begun, monotonic microseconds; 0 between rounds.
    since_us: AtomicU64,
}

impl Progress {
    fn new(name: &'static str) -> Progress {
        Progress {
            name,
            rounds: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            busy_us: AtomicU64::new(0),
            since_us: AtomicU64::new(0),
        }
    }

    /// Runs and counts one round.
    pub fn round<T>(&self, clock: &dyn Clock, f: impl FnOnce() -> T) -> T {
        let since_us = clock.monotonic_us().max(1);
        self.since_us.store(since_us, Relaxed);
        let result = f();
        self.since_us.store(0, Relaxed);
        let us = clock.monotonic_us().saturating_sub(since_us);
        self.busy_us.fetch_add(us, Relaxed);
        self.rounds.fetch_add(1, Relaxed);
        result
    }

    /// Counts a failed round.
    pub fn add_error(&self) {
        self.since_us.store(0, Relaxed);
        self.errors.fetch_add(1, Relaxed);
    }

    /// The worker's name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Its counters, for `serverStatus`.
    pub fn numbers(&self) -> [(&'static str, i64); 3] {
        let of = |n: &AtomicU64| i64::try_from(n.load(Relaxed)).unwrap_or(i64::MAX);
        [
            ("busyMicros", of(&self.busy_us)),
            ("errors", of(&self.errors)),
            ("rounds", of(&self.rounds)),
        ]
    }

    /// The worker in the format in which `currentOp` shows an operation of the system.
    pub(crate) fn describe(&self, host: &str, clock: &dyn Clock) -> DocBuf {
        let since_us = self.since_us.load(Relaxed);
        let now_us = clock.monotonic_us();
        let running_us = i64::try_from(now_us.saturating_sub(since_us)).unwrap_or(0);
        DocBuf::build(|w| {
            w.put("type", "op")
                .put("host", host)
                .put("desc", self.name)
                .put("active", since_us != 0)
                .put("op", "none")
                .put("ns", "")
                .doc("command");
            if since_us != 0 {
                w.put("secs_running", running_us / 1_000_000)
                    .put("microsecs_running", running_us);
            }
            let mut progress = w.doc("progress");
            for (name, n) in self.numbers() {
                progress.put(name, n);
            }
        })
    }
}

/// The workers that were started.
#[derive(Default)]
pub struct Workers(Mutex<Vec<Arc<Progress>>>);

impl Workers {
    /// Registers the start of a worker. A worker that is started again keeps its progress.
    pub fn start(&self, name: &'static str) -> Arc<Progress> {
        let mut all = self.0.lock();
        if let Some(known) = all.iter().find(|p| p.name == name) {
            return Arc::clone(known);
        }
        let progress = Arc::new(Progress::new(name));
        all.push(Arc::clone(&progress));
        progress
    }

    /// The progress of all workers, in the order of their start.
    pub fn list(&self) -> Vec<Arc<Progress>> {
        self.0.lock().clone()
    }
}
