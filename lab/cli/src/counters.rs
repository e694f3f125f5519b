//! Counters of the clients of a role: windows that the sampler empties, totals of the step, and the
//! state of calls that are under way or were never sent.
//!
//! Promises: each scheduled call is counted once, whether it was answered, timed out or never sent;
//! calls that a client had begun are counted even if the client never returns. Must not know:
//! sessions, targets.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use lab_kit::pacing::{Schedule, VirtualQueue};
use lab_kit::recorder::ClientSummary;
use lab_kit::result::CallCounts;
use lab_kit::stalls::GAP_MIN;
use lab_kit::work::Effect;
use lab_kit::workload::Operation;
use metrics::LatencyHistogram;

/// The largest number of windows; more clients share them, because histograms are large.
const WINDOWS_MAX: u32 = 64;
/// A call under way when the step ends is counted as unanswered if it has waited this long.
const UNANSWERED_MIN: Duration = Duration::from_millis(100);

/// Counts of the clients since the last sample.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// Operations.
    pub(crate) ops: u64,
    /// Failed calls.
    pub(crate) errors: u64,
    /// Rows that reads returned.
    pub(crate) rows: u64,
    /// Latency of answered calls, and of calls that timed out, up to their timeout. In an open loop
    /// it counts from the time at which the call was due.
    pub(crate) latency: LatencyHistogram,
    /// Calls answered since the sampler last checked for gaps, with the times of the first and the
    /// last.
    pub(crate) completions: Option<Completions>,
    /// Gaps between those calls. They occur only if the sampler itself was late, for example
    /// because the whole process was paused.
    pub(crate) gaps: Vec<(Instant, Instant)>,
    /// Never reset, warm-up left out: in an open loop, latency from sending.
    pub(crate) service: Option<LatencyHistogram>,
    /// Never reset, warm-up left out: in an open loop, how late the lab itself was.
    pub(crate) lateness: Option<LatencyHistogram>,
    /// Never reset, warm-up left out: calls that were due and never sent.
    pub(crate) unsent: u64,
    /// The unsent calls whose connection was free: the lab itself was late.
    pub(crate) unsent_by_lab: u64,
    /// Never reset: calls that the target refused and asked the client to repeat later.
    pub(crate) refused: u64,
    /// Never reset: operations that were abandoned after too many refusals.
    pub(crate) given_up: u64,
    /// Never reset, warm-up left out: for mixes, latency of each operation.
    pub(crate) by_operation: BTreeMap<Operation, LatencyHistogram>,
    /// Never reset: how calls ended.
    pub(crate) outcomes: BTreeMap<Operation, CallCounts>,
    /// Never reset, warm-up left out: calls under way while the lab itself was paused.
    pub(crate) disturbed: u64,
    /// Never reset: the effect of the whole step on the tables.
    pub(crate) effect: Effect,
    pub(crate) acknowledged: u64,
}

impl Window {
    /// Notes that a call was answered.
    pub(crate) fn record_completion(&mut self, at: Instant) {
        if let Some(before) = &self.completions
            && at.saturating_duration_since(before.last).as_secs_f64() >= GAP_MIN
        {
            self.gaps.push((before.last, at));
        }
        let completion = Completions {
            count: 1,
            first: at,
            last: at,
        };
        self.completions = Some(completion.merge(self.completions));
    }
}

/// Calls answered within a period of time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completions {
    /// The number of calls.
    pub(crate) count: u64,
    /// The time of the first.
    pub(crate) first: Instant,
    /// The time of the last.
    pub(crate) last: Instant,
}

impl Completions {
    /// The calls of this and another period.
    pub(crate) fn merge(self, other: Option<Self>) -> Self {
        other.map_or(self, |other| Self {
            count: self.count + other.count,
            first: self.first.min(other.first),
            last: self.last.max(other.last),
        })
    }
}

/// The calls that a client has begun or must still make. They are shared so that they are counted
/// even if the client never returns.
#[derive(Debug, Default)]
pub(crate) struct PendingCalls {
    /// The effect of the call under way if its reply never comes.
    pub(crate) effect: Effect,
    /// When the client began; `None` before the start and after its end.
    pub(crate) begun: Option<Instant>,
    /// When the call under way was sent.
    pub(crate) sent: Option<Instant>,
    /// In an open loop: when the call was due, since the client began.
    pub(crate) due: Option<Duration>,
    /// In an open loop: the following calls, and the queue that earlier calls left.
    pub(crate) pace: Option<(Schedule, VirtualQueue)>,
}

/// The counters that the clients of a role share with the sampler.
#[derive(Debug)]
pub(crate) struct RoleCounters {
    /// The windows, which the sampler empties.
    pub(crate) windows: Vec<Mutex<Window>>,
    pub(crate) is_background: bool,
    pub(crate) has_schedule: bool,
    pub(crate) is_mix: bool,
    pub(crate) unfinished: Vec<Mutex<PendingCalls>>,
    pub(crate) errors: Mutex<BTreeMap<String, u64>>,
    /// The message of the first failed call.
    pub(crate) first_failure: OnceLock<String>,
    pub(crate) client_summaries: Mutex<Vec<ClientSummary>>,
    /// When each client sent its statements, for the readers of change streams.
    pub(crate) sent: Option<Vec<Mutex<Vec<Instant>>>>,
}

/// Counts of the whole step.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    /// Operations acknowledged.
    pub(crate) acknowledged: u64,
    /// The effect of the operations on the tables.
    pub(crate) effect: Effect,
    /// Failed calls by kind.
    pub(crate) errors: BTreeMap<String, u64>,
    /// A summary of each client, in the order in which clients finished.
    pub(crate) client_summaries: Vec<ClientSummary>,
    /// In an open loop, latency from sending.
    pub(crate) service: Option<LatencyHistogram>,
    /// In an open loop, how late the lab itself sent.
    pub(crate) lateness: Option<LatencyHistogram>,
    /// In an open loop, calls that were due and never sent.
    pub(crate) unsent: u64,
    /// The unsent calls whose connection was free.
    pub(crate) unsent_by_lab: u64,
    /// Calls that the target refused and asked the client to repeat later.
    pub(crate) refused: u64,
    /// Operations that were abandoned after too many refusals.
    pub(crate) given_up: u64,
    /// For mixes, latency of each operation.
    pub(crate) by_operation: BTreeMap<Operation, LatencyHistogram>,
    /// How calls ended.
    pub(crate) outcomes: BTreeMap<Operation, CallCounts>,
    /// Calls under way while the lab itself was paused.
    pub(crate) disturbed: u64,
}

/// The time limits of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Length of the warm-up.
    pub(crate) warmup: Duration,
    /// End of the step, warm-up included.
    pub(crate) end: Option<Duration>,
    /// Longest wait for a reply.
    pub(crate) call_timeout: Duration,
}

impl RoleCounters {
    /// Counters for `clients` clients.
    pub(crate) fn new(
        clients: u32,
        is_background: bool,
        has_schedule: bool,
        operation: Operation,
        keeps_sent: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            windows: (0..clients.min(WINDOWS_MAX))
                .map(|_| Mutex::default())
                .collect(),
            is_background,
            has_schedule,
            is_mix: operation == Operation::Mix,
            unfinished: (0..clients).map(|_| Mutex::default()).collect(),
            errors: Mutex::default(),
            first_failure: OnceLock::new(),
            client_summaries: Mutex::default(),
            sent: keeps_sent.then(|| (0..clients).map(|_| Mutex::default()).collect()),
        })
    }

    /// The counts so far.
    pub(crate) fn totals(&self) -> Totals {
        let mut out = Totals {
            errors: lock(&self.errors).clone(),
            client_summaries: lock(&self.client_summaries).clone(),
            ..Totals::default()
        };
        for window in &self.windows {
            let window = lock(window);
            out.acknowledged += window.acknowledged;
            out.effect.add(&window.effect);
            if let Some(service) = &window.service {
                out.service.get_or_insert_default().merge(service);
            }
            if let Some(lateness) = &window.lateness {
                out.lateness.get_or_insert_default().merge(lateness);
            }
            out.unsent += window.unsent;
            out.unsent_by_lab += window.unsent_by_lab;
            out.disturbed += window.disturbed;
            out.refused += window.refused;
            out.given_up += window.given_up;
            for (operation, counts) in &window.outcomes {
                out.outcomes.entry(*operation).or_default().add(counts);
            }
            for (operation, latency) in &window.by_operation {
                out.by_operation
                    .entry(*operation)
                    .or_default()
                    .merge(latency);
            }
        }
        for unfinished in &self.unfinished {
            out.effect.add(&lock(unfinished).effect);
        }
        out
    }

    /// Rows whose insertion has been acknowledged so far.
    pub(crate) fn inserted_rows(&self) -> u64 {
        let windows = self.windows.iter();
        windows.map(|window| lock(window).effect.inserted).sum()
    }

    /// The time for which the oldest call under way has waited for its reply.
    pub(crate) fn longest_wait(&self) -> Duration {
        let sent = self.unfinished.iter().filter_map(|one| lock(one).sent);
        let now = Instant::now();
        let waited = |sent: Instant| {
            let still = crate::pulse::stood_still(sent, now);
            now.saturating_duration_since(sent).saturating_sub(still)
        };
        sent.map(waited).max().unwrap_or_default()
    }

    /// Counts the open calls of clients that have not returned: calls without a reply and calls
    /// that were due and never sent. Later replies are no longer counted.
    pub(crate) fn account_unfinished(&self, limits: &Limits) {
        for client in 0..self.unfinished.len() {
            self.account_client(client, limits, true);
        }
    }

    /// Counts the unfinished calls of one client.
    pub(crate) fn account_client(&self, client: usize, limits: &Limits, is_lost: bool) {
        let Some(unfinished) = self.unfinished.get(client) else {
            return;
        };
        let mut unfinished = lock(unfinished);
        let Some(begun) = unfinished.begun.take() else {
            return;
        };
        let now = begun.elapsed();
        let is_measured = now >= limits.warmup;
        let Some(mut window) = self.window(client) else {
            return;
        };
        let mut pace = unfinished.pace.take();
        if let Some(sent) = unfinished.sent.take().filter(|_| is_lost) {
            let service = sent.elapsed();
            let latency = match (&mut pace, unfinished.due) {
                (Some((_, queue)), Some(due)) => queue.serve(due, service).latency,
                _ => service,
            };
            if service >= UNANSWERED_MIN {
                window.latency.record(latency);
            }
            if service >= limits.call_timeout {
                window.errors += 1;
                *lock(&self.errors)
                    .entry("no answer".to_owned())
                    .or_insert(0) += 1;
            }
        }
        let Some((mut schedule, queue)) = pace else {
            return;
        };
        let until = limits.end.map_or(now, |end| end.min(now));
        loop {
            let due = schedule.next_start();
            if due >= until {
                return;
            }
            let counts = u64::from(is_measured && due >= limits.warmup);
            window.unsent += counts;
            match queue.unsent_wait(due, now) {
                Some(latency) => window.latency.record(latency),
                None => window.unsent_by_lab += counts,
            }
        }
    }

    pub(crate) fn window(&self, client: usize) -> Option<MutexGuard<'_, Window>> {
        let window = self.windows.get(client % self.windows.len().max(1))?;
        Some(lock(window))
    }
}

/// Locks a mutex, even a poisoned one: the counts of a client that panicked are still valid.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
