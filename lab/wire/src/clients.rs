//! Concurrent clients: they start together, count into windows that the sampler empties, and stop for a reason.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lab_kit::pacing::Schedule;
use lab_kit::recorder::ClientFate;
use metrics::LatencyHistogram;
use tokio::sync::Barrier;

use crate::operations::{Outcome, Work};

/// Failed calls in a row after which a client gives up.
const FAILURES_IN_A_ROW_MAX: u32 = 10;
/// Kinds of errors told apart; more are counted together.
const ERROR_KINDS_MAX: usize = 50;

/// What a client counted since the sampler last looked.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// Operations.
    pub(crate) ops: u64,
    /// Failed calls.
    pub(crate) errors: u64,
    /// Latency of calls that were answered.
    pub(crate) latency: LatencyHistogram,
    /// Never reset: what this client did in the whole step.
    tally: Tally,
}

/// What one client did in a step. It lives in the window, so that an abandoned client loses nothing.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    acknowledged: u64,
    unknown: u64,
    in_flight: u64,
    sum_of_k: i64,
}

/// What clients and the sampler share during a step.
#[derive(Debug)]
pub(crate) struct Shared {
    /// One per client.
    pub(crate) windows: Vec<Mutex<Window>>,
    /// Set by whoever ends the step early.
    stop: AtomicBool,
    reason: Mutex<Option<String>>,
    errors: Mutex<BTreeMap<String, u64>>,
    fates: Mutex<Vec<ClientFate>>,
    barrier: Barrier,
}

/// Counts of the whole step.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    /// Operations acknowledged.
    pub(crate) acknowledged: u64,
    /// Operations whose fate nobody knows.
    pub(crate) unknown: u64,
    /// Sum of `k` over acknowledged documents.
    pub(crate) sum_of_k: i64,
    /// Failed calls by kind.
    pub(crate) errors: BTreeMap<String, u64>,
    /// How each client fared, in the order in which they finished.
    pub(crate) fates: Vec<ClientFate>,
}

/// When a client must stop and how it paces itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Time before measuring.
    pub(crate) warmup: Duration,
    /// End of the step, warm-up included.
    pub(crate) end: Option<Duration>,
    /// Longest wait for a reply.
    pub(crate) call_timeout: Duration,
}

impl Shared {
    /// For `clients` clients.
    pub(crate) fn new(clients: u32) -> Arc<Self> {
        Arc::new(Self {
            windows: (0..clients).map(|_| Mutex::default()).collect(),
            stop: AtomicBool::new(false),
            reason: Mutex::new(None),
            errors: Mutex::default(),
            fates: Mutex::default(),
            // One more: the sampler's clock starts with them.
            barrier: Barrier::new(clients as usize + 1),
        })
    }

    /// Waits until every client is connected and ready.
    pub(crate) async fn start_together(&self) {
        self.barrier.wait().await;
    }

    /// Ends the step early; the first reason stands.
    pub(crate) fn stop(&self, reason: &str) {
        lock(&self.reason).get_or_insert_with(|| reason.to_owned());
        self.stop.store(true, Ordering::Release);
    }

    /// Whether the step ends early.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Why it ended early.
    pub(crate) fn reason(&self) -> Option<String> {
        lock(&self.reason).clone()
    }

    /// The counts so far.
    pub(crate) fn totals(&self) -> Totals {
        let mut out = Totals {
            errors: lock(&self.errors).clone(),
            fates: lock(&self.fates).clone(),
            ..Totals::default()
        };
        for window in &self.windows {
            let tally = lock(window).tally;
            out.acknowledged += tally.acknowledged;
            out.unknown += tally.unknown + tally.in_flight;
            out.sum_of_k += tally.sum_of_k;
        }
        out
    }
}

/// Locks; a client that panicked leaves counts that are still true.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs one client until its share, its time or the step ends.
pub(crate) async fn run_client(
    shared: Arc<Shared>,
    number: usize,
    mut work: Work,
    limits: Limits,
    schedule: Option<Schedule>,
) {
    shared.start_together().await;
    let begun = Instant::now();
    let mut progress = Progress::default();
    let over = |elapsed: Duration| limits.end.is_some_and(|end| elapsed >= end);
    let mut schedule = schedule;
    while !shared.is_stopping() && !over(begun.elapsed()) {
        let Some(call) = work.prepare() else { break };
        // In an open loop latency counts from when the call should have started.
        let start = match &mut schedule {
            None => Instant::now(),
            Some(schedule) => {
                let intended = schedule.next_start();
                if over(intended) {
                    break;
                }
                tokio::time::sleep_until((begun + intended).into()).await;
                progress.fate.behind = progress
                    .fate
                    .behind
                    .max(begun.elapsed().saturating_sub(intended));
                begun + intended
            }
        };
        let size = call.size();
        if let Some(window) = shared.windows.get(number) {
            lock(window).tally.in_flight = size;
        }
        let outcome = match tokio::time::timeout(limits.call_timeout, work.call(call)).await {
            Ok(outcome) => outcome,
            Err(_) => Outcome::Lost {
                unknown: size,
                message: format!("no reply within {} s", limits.call_timeout.as_secs()),
            },
        };
        let is_measured = begun.elapsed() >= limits.warmup;
        progress.take(
            &shared,
            (number, work.sum_of_k),
            outcome,
            start.elapsed(),
            is_measured,
        );
    }
    progress.fate.active = begun.elapsed().saturating_sub(limits.warmup);
    lock(&shared.fates).push(progress.fate);
}

#[derive(Debug, Default)]
struct Progress {
    failures_in_a_row: u32,
    fate: ClientFate,
}

impl Progress {
    fn take(
        &mut self,
        shared: &Shared,
        (number, sum_of_k): (usize, i64),
        outcome: Outcome,
        latency: Duration,
        is_measured: bool,
    ) {
        let Some(window) = shared.windows.get(number) else {
            return;
        };
        let (done, unknown, failure) = match outcome {
            Outcome::Done(done) => (done, 0, None),
            Outcome::Failed {
                done,
                kind,
                message,
            } => (done, 0, Some((kind, message))),
            Outcome::Lost { unknown, message } => {
                shared.stop(&format!("the target stopped answering: {message}"));
                (0, unknown, Some(("no answer".to_owned(), message)))
            }
        };
        {
            let mut window = lock(window);
            window.ops += done;
            let Tally {
                acknowledged,
                unknown: lost,
                ..
            } = window.tally;
            window.tally = Tally {
                acknowledged: acknowledged + done,
                unknown: lost + unknown,
                in_flight: 0,
                sum_of_k,
            };
            match &failure {
                None => window.latency.record(latency),
                Some(_) => window.errors += 1,
            }
        }
        if is_measured {
            self.fate.ops += done;
        }
        let Some((kind, message)) = failure else {
            self.failures_in_a_row = 0;
            return;
        };
        self.failures_in_a_row += 1;
        if self.failures_in_a_row >= FAILURES_IN_A_ROW_MAX {
            shared.stop(&format!(
                "{FAILURES_IN_A_ROW_MAX} calls in a row failed, the last with: {message}"
            ));
        }
        let mut errors = lock(&shared.errors);
        let known = errors.len() < ERROR_KINDS_MAX || errors.contains_key(&kind);
        *errors
            .entry(if known { kind } else { "other".to_owned() })
            .or_insert(0) += 1;
    }
}
