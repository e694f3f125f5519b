//! Concurrent clients: they start together, count into windows that the sampler empties, and stop
//! for a reason.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use lab_kit::pacing::Schedule;
use lab_kit::recorder::ClientSummary;
use lab_kit::target::{CallOutcome, Session};
use lab_kit::work::{Effect, Next, Work};
use lab_kit::workload::Operation;
use metrics::LatencyHistogram;
use tokio::sync::Barrier;

/// After an early stop, calls under way get this long to end.
pub(crate) const GRACE: Duration = Duration::from_secs(5);
/// Failed calls in a row after which a client gives up.
const FAILURES_IN_A_ROW_MAX: u32 = 10;
/// Kinds of errors told apart; more are counted together.
const ERROR_KINDS_MAX: usize = 50;
/// Histograms are large: more clients than this share windows.
const WINDOWS_MAX: u32 = 64;
/// Polling interval of a client that waits for another.
const WAIT: Duration = Duration::from_micros(500);

/// What clients counted since the sampler last looked.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// Operations.
    pub(crate) ops: u64,
    /// Failed calls.
    pub(crate) errors: u64,
    /// Rows that reads returned.
    pub(crate) rows: u64,
    /// Latency of calls that were answered; in an open loop from the intended start.
    pub(crate) latency: LatencyHistogram,
    /// Never reset, warm-up left out: in an open loop, latency from sending.
    service: Option<LatencyHistogram>,
    /// Never reset, warm-up left out: for mixes.
    by_operation: BTreeMap<Operation, LatencyHistogram>,
    /// Never reset: what was done in the whole step.
    effect: Effect,
    acknowledged: u64,
}

/// How a step ends for all its clients.
#[derive(Debug)]
pub(crate) struct Control {
    stop: AtomicBool,
    reason: Mutex<Option<String>>,
    /// Set when the measured work has ended: what goes on beside it ends too.
    over: AtomicBool,
    barrier: Barrier,
}

impl Control {
    /// For `clients` clients of all groups together.
    pub(crate) fn new(clients: u32) -> Arc<Self> {
        Arc::new(Self {
            stop: AtomicBool::new(false),
            reason: Mutex::new(None),
            over: AtomicBool::new(false),
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

    /// Tells those beside the measured work that it has ended.
    pub(crate) fn measured_work_is_over(&self) {
        self.over.store(true, Ordering::Release);
    }
}

/// Clients of one role, and the sampler, share this.
#[derive(Debug)]
pub(crate) struct RoleCounters {
    /// Emptied by the sampler.
    pub(crate) windows: Vec<Mutex<Window>>,
    is_background: bool,
    has_schedule: bool,
    is_mix: bool,
    /// The effect of each call in flight, should its reply never come. One per client, so that
    /// an abandoned call is accounted for.
    in_flight: Vec<Mutex<Effect>>,
    errors: Mutex<BTreeMap<String, u64>>,
    /// What the first call that failed was answered.
    first_failure: OnceLock<String>,
    client_summaries: Mutex<Vec<ClientSummary>>,
}

/// Counts of the whole step.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    /// Operations acknowledged.
    pub(crate) acknowledged: u64,
    /// What they mean for the tables.
    pub(crate) effect: Effect,
    /// Failed calls by kind.
    pub(crate) errors: BTreeMap<String, u64>,
    /// What each client did, in the order in which they finished.
    pub(crate) client_summaries: Vec<ClientSummary>,
    /// In an open loop, latency from sending.
    pub(crate) service: Option<LatencyHistogram>,
    /// For mixes.
    pub(crate) by_operation: BTreeMap<Operation, LatencyHistogram>,
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

impl RoleCounters {
    /// For `clients` clients.
    pub(crate) fn new(
        clients: u32,
        is_background: bool,
        has_schedule: bool,
        operation: Operation,
    ) -> Arc<Self> {
        Arc::new(Self {
            windows: (0..clients.min(WINDOWS_MAX))
                .map(|_| Mutex::default())
                .collect(),
            is_background,
            has_schedule,
            is_mix: operation == Operation::Mix,
            in_flight: (0..clients).map(|_| Mutex::default()).collect(),
            errors: Mutex::default(),
            first_failure: OnceLock::new(),
            client_summaries: Mutex::default(),
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
            for (operation, latency) in &window.by_operation {
                out.by_operation
                    .entry(*operation)
                    .or_default()
                    .merge(latency);
            }
        }
        for in_flight in &self.in_flight {
            out.effect.add(&lock(in_flight));
        }
        out
    }

    fn window(&self, client: usize) -> Option<MutexGuard<'_, Window>> {
        let window = self.windows.get(client % self.windows.len().max(1))?;
        Some(lock(window))
    }
}

/// Locks; a client that panicked leaves counts that are still true.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One client, ready to start.
pub(crate) struct Client<S: Session> {
    /// What ends the step.
    pub(crate) control: Arc<Control>,
    /// Its role's counts.
    pub(crate) counters: Arc<RoleCounters>,
    /// Its number in the role.
    pub(crate) number: usize,
    /// Its connection.
    pub(crate) session: S,
    /// A second one whose writes wait for storage, and which call of how many goes there.
    pub(crate) synced: Option<(u32, S)>,
    /// What it does.
    pub(crate) work: Work,
    /// Until when.
    pub(crate) limits: Limits,
    /// Its pace; none is a closed loop.
    pub(crate) schedule: Option<Schedule>,
}

/// When a call was due and when it was sent.
struct Timing {
    intended: Instant,
    sent: Instant,
}

impl<S: Session> Client<S> {
    /// Runs until its share, its time or the step ends.
    pub(crate) async fn run(mut self) {
        self.control.start_together().await;
        let begun = Instant::now();
        let mut progress = Progress::default();
        let mut number: u32 = 0;
        while !self.is_over(begun) {
            let (operation, first, second) = match self.work.draw() {
                Next::Call(operation, call) => (operation, call, None),
                Next::Pair(operation, first, second) => (operation, first, Some(second)),
                Next::Wait => {
                    Self::pause(WAIT).await;
                    continue;
                }
                Next::End => break,
            };
            let size = first.ops();
            number = number.wrapping_add(1);
            let session = self.session_for(number);
            let calls = (
                session.encode(first),
                second.map(|call| session.encode(call)),
            );
            let Some(timing) = self.wait_for_turn(begun, &mut progress).await else {
                break;
            };
            if let Some(in_flight) = self.counters.in_flight.get(self.number) {
                *lock(in_flight) = self.work.in_flight();
            }
            let outcome = self.call(number, calls, size).await;
            let (outcome, effect) = self.work.account(outcome);
            let done = Instant::now();
            let is_measured = done.duration_since(begun) >= self.limits.warmup;
            progress.take(
                &self,
                operation,
                (outcome, effect),
                (&timing, done),
                is_measured,
            );
            if let Some(in_flight) = self.counters.in_flight.get(self.number) {
                *lock(in_flight) = Effect::default();
            }
        }
        progress.summary.active = begun.elapsed().saturating_sub(self.limits.warmup);
        lock(&self.counters.client_summaries).push(progress.summary);
    }

    fn is_over(&self, begun: Instant) -> bool {
        if self.control.is_stopping() {
            return true;
        }
        let is_late = self.limits.end.is_some_and(|end| begun.elapsed() >= end);
        let is_left = self.counters.is_background && self.control.over.load(Ordering::Acquire);
        // A row that was deleted to be put back must not stay away.
        (is_late || is_left) && !self.work.must_reinsert()
    }

    async fn pause(time: Duration) {
        if S::BLOCKING {
            std::thread::sleep(time);
        } else {
            tokio::time::sleep(time).await;
        }
    }

    /// In an open loop waits for the call's turn. A call whose turn came while the one before was
    /// under way counts from its turn; one that the lab merely woke up late for counts from when it
    /// was sent, or the lab's timer would be taken for the target's time.
    async fn wait_for_turn(&mut self, begun: Instant, progress: &mut Progress) -> Option<Timing> {
        let Some(schedule) = &mut self.schedule else {
            let now = Instant::now();
            return Some(Timing {
                intended: now,
                sent: now,
            });
        };
        let intended = schedule.next_start();
        if self.limits.end.is_some_and(|end| intended >= end) && !self.work.must_reinsert() {
            return None;
        }
        let now = begun.elapsed();
        if now < intended {
            let mut left = intended - now;
            // Work beside the measured one may end while this waits for a turn far away.
            while self.counters.is_background && left > Duration::from_millis(100) {
                Self::pause(Duration::from_millis(100)).await;
                if self.control.over.load(Ordering::Acquire) || self.control.is_stopping() {
                    return None;
                }
                left = intended.saturating_sub(begun.elapsed());
            }
            Self::pause(left).await;
            let sent = Instant::now();
            return Some(Timing {
                intended: sent,
                sent,
            });
        }
        progress.summary.behind = progress.summary.behind.max(now - intended);
        Some(Timing {
            intended: begun + intended,
            sent: Instant::now(),
        })
    }

    /// The connection for call number `number`.
    fn session_for(&mut self, number: u32) -> &mut S {
        match &mut self.synced {
            Some((every, session)) if number.is_multiple_of(*every) => session,
            _ => &mut self.session,
        }
    }

    async fn call(
        &mut self,
        number: u32,
        (first, second): (S::Encoded, Option<S::Encoded>),
        size: u64,
    ) -> CallOutcome {
        let timeout = self.limits.call_timeout;
        let session = self.session_for(number);
        let both = async move {
            match (session.run(first).await, second) {
                (CallOutcome::Done { rows: 1.., .. }, Some(second)) => session.run(second).await,
                (outcome, _) => outcome,
            }
        };
        // A blocking call cannot be abandoned by its own thread.
        if S::BLOCKING {
            return both.await;
        }
        match tokio::time::timeout(timeout, both).await {
            Ok(outcome) => outcome,
            Err(_) => CallOutcome::Lost {
                unknown: size,
                message: format!("no reply within {} s", timeout.as_secs()),
            },
        }
    }
}

#[derive(Debug, Default)]
struct Progress {
    failures_in_a_row: u32,
    summary: ClientSummary,
}

impl Progress {
    fn take<S: Session>(
        &mut self,
        client: &Client<S>,
        operation: Operation,
        (outcome, effect): (CallOutcome, Effect),
        (timing, ended): (&Timing, Instant),
        is_measured: bool,
    ) {
        let (counters, control) = (&client.counters, &client.control);
        let (done, failure) = match outcome {
            CallOutcome::Done { ops, .. } => (ops, None),
            CallOutcome::Failed {
                done,
                kind,
                message,
            } => (done, Some((kind, message))),
            CallOutcome::Lost { message, .. } => {
                control.stop(&format!("the target stopped answering: {message}"));
                (0, Some(("no answer".to_owned(), message)))
            }
        };
        if let Some(mut window) = counters.window(client.number) {
            window.ops += done;
            window.rows += effect.rows;
            window.acknowledged += done;
            window.effect.add(&effect);
            if failure.is_some() {
                window.errors += 1;
            } else {
                let latency = ended.duration_since(timing.intended);
                window.latency.record(latency);
                if is_measured && counters.has_schedule {
                    let service = ended.duration_since(timing.sent);
                    window.service.get_or_insert_default().record(service);
                }
                if is_measured && counters.is_mix {
                    window
                        .by_operation
                        .entry(operation)
                        .or_default()
                        .record(latency);
                }
            }
        }
        if is_measured {
            self.summary.ops += done;
        }
        let Some((kind, message)) = failure else {
            self.failures_in_a_row = 0;
            return;
        };
        // The first error explains more than those that follow it.
        counters.first_failure.get_or_init(|| message.clone());
        self.failures_in_a_row += 1;
        if self.failures_in_a_row >= FAILURES_IN_A_ROW_MAX {
            let first = counters.first_failure.get().unwrap_or(&message);
            let last = if *first == message {
                String::new()
            } else {
                format!(", the last with: {message}")
            };
            control.stop(&format!(
                "{FAILURES_IN_A_ROW_MAX} calls in a row failed, the first with: {first}{last}"
            ));
        }
        let mut errors = lock(&counters.errors);
        let known = errors.len() < ERROR_KINDS_MAX || errors.contains_key(&kind);
        *errors
            .entry(if known { kind } else { "other".to_owned() })
            .or_insert(0) += 1;
    }
}
