//! Concurrent clients: they start together, make their calls in a closed loop or on a schedule, and
//! stop for a reason.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use lab_kit::pacing::{Schedule, VirtualQueue};
use lab_kit::recorder::ClientSummary;
use lab_kit::result::CallCounts;
use lab_kit::target::{CallOutcome, OVERLOADED, Session};
use lab_kit::work::{ClientAction, ClientWork, Effect};
use lab_kit::workload::Operation;
use tokio::sync::Barrier;

use crate::counters::{Limits, PendingCalls, RoleCounters, Window, lock};
use crate::pulse;

/// After an early stop, calls under way get this long to end.
pub(crate) const GRACE: Duration = Duration::from_secs(5);
/// The number of failed calls in a row after which a client gives up.
const FAILURES_IN_A_ROW_MAX: u32 = 10;
/// The largest number of kinds of errors that are counted separately; further kinds share one
/// counter.
const ERROR_KINDS_MAX: usize = 50;
/// A timer is never this late on a running machine. If it is, an engine in the lab's process was
/// paused or has taken all processors.
const STOOD_STILL_MIN: Duration = Duration::from_millis(100);
/// The number of retries of drivers when a server is overloaded. Each comes after a random fraction
/// of a wait that doubles (specification of client backpressure).
const RETRIES_MAX: u32 = 2;
const RETRY_WAIT: Duration = Duration::from_millis(100);
const RETRY_WAIT_MAX: Duration = Duration::from_secs(10);
/// Attempts for a batch of a load, about a minute in total.
const LOAD_REFUSALS_MAX: u32 = 20;
/// Polling interval of a client that waits for another.
const WAIT: Duration = Duration::from_micros(500);

/// How a step ends for all its clients.
#[derive(Debug)]
pub(crate) struct Control {
    stop: AtomicBool,
    reason: Mutex<Option<String>>,
    /// Set when the measured work has ended; then background work ends, too.
    over: AtomicBool,
    barrier: Barrier,
    begun: OnceLock<Instant>,
}

impl Control {
    /// A control for `clients` clients, all groups together.
    pub(crate) fn new(clients: u32) -> Arc<Self> {
        Arc::new(Self {
            stop: AtomicBool::new(false),
            reason: Mutex::new(None),
            over: AtomicBool::new(false),
            // One more than the clients, because the sampler's clock starts with them.
            barrier: Barrier::new(clients as usize + 1),
            begun: OnceLock::new(),
        })
    }

    /// Waits until every client is connected and ready.
    pub(crate) async fn start_together(&self) {
        self.barrier.wait().await;
        self.begin_time();
    }

    /// When the first client began. On a busy machine the other clients and the sampler begin
    /// later; a rate over their time alone would be too high.
    pub(crate) fn begin_time(&self) -> Instant {
        *self.begun.get_or_init(Instant::now)
    }

    /// Ends the step early; only the first reason is kept.
    pub(crate) fn stop(&self, reason: &str) {
        lock(&self.reason).get_or_insert_with(|| reason.to_owned());
        self.stop.store(true, Ordering::Release);
    }

    /// Whether the step ends early.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Whether the measured work has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Why it ended early.
    pub(crate) fn reason(&self) -> Option<String> {
        lock(&self.reason).clone()
    }

    /// Tells background clients that the measured work has ended.
    pub(crate) fn end_measured_work(&self) {
        self.over.store(true, Ordering::Release);
    }
}

/// One client, ready to start.
pub(crate) struct Client<S: Session> {
    /// Decides when the step ends.
    pub(crate) control: Arc<Control>,
    /// Its role's counts.
    pub(crate) counters: Arc<RoleCounters>,
    /// Its number in the role.
    pub(crate) number: usize,
    /// Its connection.
    pub(crate) session: S,
    /// With (N, session): a second connection whose writes wait for storage, used for every N-th
    /// call.
    pub(crate) synced: Option<(u32, S)>,
    /// Its work.
    pub(crate) work: ClientWork,
    /// Its time limits.
    pub(crate) limits: Limits,
    /// The pace of an open loop; `None` means a closed loop.
    pub(crate) schedule: Option<Schedule>,
    /// When the client works, since the step began; `None` means during the whole step.
    pub(crate) window: Option<(Duration, Duration)>,
}

/// Why a client ends.
#[derive(PartialEq, Eq)]
enum ClientEnd {
    /// Its share is done.
    Done,
    /// The time is over or the step ends early, so there may be due calls that were not sent.
    Stopped,
}

/// When a call was due, in an open loop, and when it was sent.
#[derive(Clone, Copy)]
struct Timing {
    due: Option<Duration>,
    sent: Instant,
    /// By how much the lab was late: the time for which the call was due and the connection free.
    lateness: Duration,
}

impl<S: Session> Client<S> {
    /// Runs until its share, its time or the step ends.
    pub(crate) async fn run(mut self) {
        self.control.start_together().await;
        let begun = self.control.begin_time();
        let mut progress = Progress::default();
        self.share(|unfinished| {
            unfinished.begun = Some(begun);
        });
        let from = self.window.map_or(Duration::ZERO, |(from, _)| from);
        self.wait_until(from, begun).await;
        let end = self.repeat(begun, &mut progress).await;
        if end == ClientEnd::Done {
            self.share(|unfinished| unfinished.begun = None);
        }
        self.counters
            .account_client(self.number, &self.limits, false);
        progress.summary.active = begun.elapsed().saturating_sub(self.limits.warmup);
        lock(&self.counters.client_summaries).push(progress.summary);
    }

    async fn repeat(&mut self, begun: Instant, progress: &mut Progress) -> ClientEnd {
        let mut number: u32 = 0;
        while !self.is_over(begun) {
            let (operation, first, second) = match self.work.draw() {
                ClientAction::Call(operation, call) => (operation, call, None),
                ClientAction::Pair(operation, first, second) => (operation, first, Some(second)),
                ClientAction::Wait => {
                    Self::pause(WAIT).await;
                    continue;
                }
                ClientAction::End => return ClientEnd::Done,
            };
            let size = first.ops();
            number = number.wrapping_add(1);
            let session = self.session_for(number);
            let first = session.encode(first);
            let second = second.map(|call| session.encode(call));
            let Some(timing) = self.wait_for_turn(begun, progress).await else {
                return ClientEnd::Stopped;
            };
            self.begin_call(timing);
            let outcome = self.call(number, first, second, size).await;
            let (outcome, effect) = self.work.account(outcome);
            let done = Instant::now();
            progress.free_since = Some(done);
            let served = self.end_call(timing, done);
            let is_measured = done.duration_since(begun) >= self.limits.warmup;
            let is_whole_failure = matches!(&outcome, CallOutcome::Failed { done: 0, .. });
            // A load must store all its rows, so the same batch is made again.
            let is_load = is_whole_failure && self.work.take_back();
            if matches!(&outcome, CallOutcome::Failed { kind, .. } if kind == OVERLOADED) {
                self.record_refusal(&outcome, is_load, progress);
                self.wait_to_retry(begun, progress).await;
                continue;
            }
            let call = EndedCall {
                outcome,
                effect,
                served,
                ended: done,
            };
            progress.take(self, operation, call, is_measured);
        }
        ClientEnd::Stopped
    }

    /// Counts a refusal; if a load is always refused, the step ends.
    fn record_refusal(&self, outcome: &CallOutcome, is_load: bool, progress: &mut Progress) {
        progress.record_refusal(self.counters.window(self.number), is_load);
        if let (true, CallOutcome::Failed { message, .. }) =
            (is_load && progress.refusals >= LOAD_REFUSALS_MAX, outcome)
        {
            self.control.stop(&format!(
                "the target refused a batch of the load {LOAD_REFUSALS_MAX} times: {message}"
            ));
        }
    }

    /// Waits after a refusal.
    async fn wait_to_retry(&mut self, begun: Instant, progress: &mut Progress) {
        if let Some(time) = progress.to_wait.take() {
            self.wait_until(begun.elapsed() + time, begun).await;
            // The wait belongs to the client and does not count as lateness of the lab.
            progress.free_since = Some(Instant::now());
        }
    }

    /// Waits until the time `until` after the beginning, or until the step is over.
    async fn wait_until(&mut self, until: Duration, begun: Instant) {
        while !self.is_over(begun) {
            let left = until.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return;
            }
            Self::pause(left.min(Duration::from_millis(100))).await;
        }
    }

    /// Changes the shared record of this client's unfinished calls.
    fn share<R: Default>(&self, change: impl FnOnce(&mut PendingCalls) -> R) -> R {
        let unfinished = self.counters.unfinished.get(self.number);
        unfinished.map_or_else(R::default, |unfinished| change(&mut lock(unfinished)))
    }

    fn begin_call(&self, timing: Timing) {
        let (effect, schedule) = (self.work.pending_effect(), self.schedule);
        let sent = self.counters.sent.as_ref();
        if let Some(sent) = sent.and_then(|sent| sent.get(self.number)) {
            lock(sent).push(timing.sent);
        }
        self.share(|unfinished| {
            unfinished.effect = effect;
            unfinished.sent = Some(timing.sent);
            unfinished.due = timing.due;
            if let Some(schedule) = schedule {
                unfinished
                    .pace
                    .get_or_insert((schedule, VirtualQueue::default()))
                    .0 = schedule;
            }
        });
    }

    /// Ends a call: records its duration; `None` if the step was closed before it ended.
    fn end_call(&self, timing: Timing, done: Instant) -> Option<ServedCall> {
        let service = done.duration_since(timing.sent);
        // An engine in the lab's process is paused together with the lab, so the pause counts as
        // the engine's time.
        let still = if S::INSIDE {
            Duration::ZERO
        } else {
            pulse::stood_still(timing.sent, done)
        };
        let service = service.saturating_sub(still);
        self.share(|unfinished| {
            unfinished.effect = Effect::default();
            unfinished.sent = None;
            unfinished.begun?;
            let (latency, waited) = match (&mut unfinished.pace, timing.due) {
                (Some((_, queue)), Some(due)) => {
                    let served = queue.serve(due, service);
                    (served.latency, served.waited)
                }
                _ => (service, Duration::ZERO),
            };
            Some(ServedCall {
                latency,
                waited,
                service,
                lateness: timing.lateness,
                is_disturbed: !still.is_zero(),
            })
        })
    }

    fn is_over(&self, begun: Instant) -> bool {
        if self.control.is_stopping() {
            return true;
        }
        let until = self.window.map(|(_, until)| until);
        let is_late = [self.limits.end, until]
            .into_iter()
            .flatten()
            .any(|end| begun.elapsed() >= end);
        let is_left = self.counters.is_background && self.control.over.load(Ordering::Acquire);
        // A row that was deleted to be inserted again must not stay deleted.
        (is_late || is_left) && !self.work.must_reinsert()
    }

    async fn pause(time: Duration) {
        if S::BLOCKING {
            std::thread::sleep(time);
        } else {
            tokio::time::sleep(time).await;
        }
    }

    /// In an open loop waits until the call is due; `None` if the step ends before.
    async fn wait_for_turn(&mut self, begun: Instant, progress: &mut Progress) -> Option<Timing> {
        let Some(schedule) = &mut self.schedule else {
            return Some(Timing {
                due: None,
                sent: Instant::now(),
                lateness: Duration::ZERO,
            });
        };
        let due = schedule.next_start();
        if self.limits.end.is_some_and(|end| due >= end) && !self.work.must_reinsert() {
            return None;
        }
        let mut left = due.saturating_sub(begun.elapsed());
        // A background role may end while it waits for a call that is due much later.
        while self.counters.is_background && left > Duration::from_millis(100) {
            Self::pause(Duration::from_millis(100)).await;
            if self.control.over.load(Ordering::Acquire) || self.control.is_stopping() {
                return None;
            }
            left = due.saturating_sub(begun.elapsed());
        }
        if !left.is_zero() {
            Self::pause(left).await;
        }
        let sent = Instant::now();
        let could = progress.free_since.unwrap_or(begun).max(begun + due);
        let lateness = sent.saturating_duration_since(could);
        if S::INSIDE && lateness >= STOOD_STILL_MIN {
            return Some(Timing {
                due: Some(due),
                sent: could,
                lateness: Duration::ZERO,
            });
        }
        Some(Timing {
            due: Some(due),
            sent,
            lateness,
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
        first: S::Encoded,
        second: Option<S::Encoded>,
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
        // A thread cannot abandon its own blocking call.
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

/// The times of a call that has ended.
#[derive(Clone, Copy)]
struct ServedCall {
    /// The time from when the call was due or, in a closed loop, sent.
    latency: Duration,
    /// The part of the latency in which earlier calls kept the connection busy.
    waited: Duration,
    /// The time from sending.
    service: Duration,
    /// How late the lab sent the call; no other field includes it.
    lateness: Duration,
    /// Whether the lab was paused during the call, so that the target's time is unknown.
    is_disturbed: bool,
}

/// A call that has ended: its outcome, its times, and its effect on the tables.
struct EndedCall {
    outcome: CallOutcome,
    effect: Effect,
    /// The times of the call; `None` if they are not known.
    served: Option<ServedCall>,
    ended: Instant,
}

#[derive(Debug, Default)]
struct Progress {
    failures_in_a_row: u32,
    /// When the previous call ended.
    free_since: Option<Instant>,
    /// Refusals of the operation under way.
    refusals: u32,
    /// How long the client must wait before its next call.
    to_wait: Option<Duration>,
    summary: ClientSummary,
}

impl Progress {
    /// The target refused the call as overloaded. The next call takes the place of the retry, after
    /// the drivers' wait. After too many refusals the operation is abandoned, unless it is a batch
    /// of a load.
    fn record_refusal(&mut self, window: Option<MutexGuard<'_, Window>>, is_load: bool) {
        self.refusals += 1;
        let is_given_up = self.refusals > RETRIES_MAX && !is_load;
        if let Some(mut window) = window {
            window.refused += 1;
            window.given_up += u64::from(is_given_up);
        }
        if is_given_up {
            self.refusals = 0;
            return;
        }
        let longest = RETRY_WAIT * (1 << (self.refusals - 1).min(10));
        self.to_wait = Some(longest.min(RETRY_WAIT_MAX).mul_f64(rand::random::<f64>()));
    }

    fn take<S: Session>(
        &mut self,
        client: &Client<S>,
        operation: Operation,
        call: EndedCall,
        is_measured: bool,
    ) {
        let EndedCall {
            outcome,
            effect,
            served,
            ended,
        } = call;
        let (counters, control) = (&client.counters, &client.control);
        self.refusals = 0;
        let mut is_lost = false;
        let (done, failure) = match outcome {
            CallOutcome::Done { ops, .. } => (ops, None),
            CallOutcome::Failed {
                done,
                kind,
                message,
            } => (done, Some((kind, message))),
            CallOutcome::Lost { message, .. } => {
                is_lost = true;
                control.stop(&format!("the target stopped answering: {message}"));
                (0, Some(("no answer".to_owned(), message)))
            }
        };
        if let Some(mut window) = counters.window(client.number) {
            window.ops += done;
            window.rows += effect.rows;
            window.acknowledged += done;
            window.effect.add(&effect);
            window.errors += u64::from(failure.is_some());
            window
                .outcomes
                .entry(operation)
                .or_default()
                .add(&CallCounts {
                    answered: u64::from(failure.is_none()),
                    failed: u64::from(failure.is_some()),
                });
            if failure.is_none() {
                window.record_completion(ended);
            }
            // A refused call has no latency; the latency of a call without an answer is the time
            // until its timeout.
            let is_disturbed = served.is_some_and(|served| served.is_disturbed);
            window.disturbed += u64::from(is_disturbed && is_measured);
            let counts = (failure.is_none() || is_lost) && !is_disturbed;
            if let Some(served) = served.filter(|_| counts) {
                window.latency.record(served.latency);
                if is_measured && counters.has_schedule {
                    let service = window.service.get_or_insert_default();
                    service.record(served.service);
                    let lateness = window.lateness.get_or_insert_default();
                    lateness.record(served.lateness);
                }
                if is_measured && counters.is_mix {
                    let by_operation = window.by_operation.entry(operation).or_default();
                    by_operation.record(served.latency);
                }
            }
        }
        let waited = served.map_or(Duration::ZERO, |served| served.waited);
        self.summary.behind = self.summary.behind.max(waited);
        if is_measured {
            self.summary.ops += done;
        }
        let Some((kind, message)) = failure else {
            self.failures_in_a_row = 0;
            return;
        };
        self.record_failure(client, kind, message);
    }

    /// Counts a failure; too many in a row end the step.
    fn record_failure<S: Session>(&mut self, client: &Client<S>, kind: String, message: String) {
        let (counters, control) = (&client.counters, &client.control);
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
