//! Watchers of a step: readers of the changes that its clients make, and a watcher of expiring
//! documents.
//!
//! Promises: each event of a reader is checked against the sent and the acknowledged writes;
//! documents that expire are counted until the last is gone. A reader that fails ends the step.
//! Must not know: drivers.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lab_kit::recorder::latency_summary;
use lab_kit::result::{Check, Expiry, FanOut, StepResult};
use lab_kit::target::{ChangeReader, Target};
use lab_kit::watch::{Deliveries, Event, ExpiryLog, ExpirySample};
use lab_kit::work::Effect;
use lab_kit::workload::{ExpiryRule, Step};
use metrics::LatencyHistogram;
use tokio::task::{JoinHandle, JoinSet};

use super::afterwards::FinalChecks;
use super::context::Run;
use super::expected_state::compare;
use crate::clients::Control;
use crate::counters::{Limits, RoleCounters, lock};
use crate::errors::LabError;

/// The sampling interval of documents that expire.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// When every reader has all events, the time to wait for repeated events.
const AFTER_LAST: Duration = Duration::from_millis(300);
const DRAIN_POLL: Duration = Duration::from_millis(5);

/// The watchers of a step.
#[derive(Default)]
pub(super) struct Watchers {
    readers: Option<Readers>,
    expiry: Option<ExpiryWatcher>,
}

/// The observations of the watchers.
#[derive(Default)]
pub(super) struct WatcherResults {
    fan_out: Option<FanOut>,
    expiry: Option<Expiry>,
    checks: Vec<Check>,
    /// Documents that the target removed.
    expired: u64,
}

struct Readers {
    tasks: JoinSet<()>,
    seen: Arc<Vec<Mutex<ReaderResults>>>,
    writers: u32,
}

/// The observations of one reader.
struct ReaderResults {
    deliveries: Deliveries,
    lag: LatencyHistogram,
    /// Events in the measured time.
    events: u64,
}

struct ExpiryWatcher {
    rule: ExpiryRule,
    lasting: u64,
    log: Arc<Mutex<ExpiryLog>>,
    task: JoinHandle<()>,
}

/// State that readers and clients share.
#[derive(Clone)]
struct Shared {
    control: Arc<Control>,
    counters: Arc<RoleCounters>,
    limits: Limits,
}

impl<T: Target> Run<'_, T> {
    /// Starts the watchers before the clients begin, so that no event is missed.
    pub(super) async fn begin_watchers(
        &self,
        step: &Step,
        control: &Arc<Control>,
        counters: &Arc<RoleCounters>,
        limits: Limits,
    ) -> Result<Watchers, LabError> {
        let shared = Shared {
            control: control.clone(),
            counters: counters.clone(),
            limits,
        };
        let clients = step.work.clients.unwrap_or(self.settings.clients);
        let mut out = Watchers::default();
        if let Some(count) = step.readers {
            let readers = self.target.readers(count).await?;
            out.readers = Some(Readers::begin(readers, clients, &shared));
        }
        if let Some(rule) = &step.expiry {
            out.expiry = Some(self.begin_expiry(rule, clients, shared).await?);
        }
        Ok(out)
    }

    async fn begin_expiry(
        &self,
        rule: &ExpiryRule,
        clients: u32,
        shared: Shared,
    ) -> Result<ExpiryWatcher, LabError> {
        let asked = self.target.oldest(rule.field.clone()).await;
        let (_, lasting) = asked.map_err(|reason| refusal_error(&rule.field, reason))?;
        let log = ExpiryLog::new(rule.after_seconds, lasting, clients.into());
        let log = Arc::new(Mutex::new(log));
        let (target, field, kept) = (self.target.clone(), rule.field.clone(), log.clone());
        let task = tokio::spawn(async move {
            while !(shared.control.is_over() || shared.control.is_stopping()) {
                let (begun_ms, acknowledged) = (now_ms(), shared.counters.inserted_rows());
                match target.oldest(field.clone()).await {
                    Ok((oldest_ms, count)) => lock(&kept).take(ExpirySample {
                        begun_ms,
                        acknowledged,
                        ended_ms: now_ms(),
                        count,
                        oldest_ms,
                    }),
                    Err(reason) => shared.control.stop(&format!("expiry: {reason}")),
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        });
        Ok(ExpiryWatcher {
            rule: rule.clone(),
            lasting,
            log,
            task,
        })
    }

    /// Waits until the readers have all events and the expiring documents are gone; returns the
    /// observations.
    pub(super) async fn end_watchers(
        &self,
        watchers: Watchers,
        counters: &RoleCounters,
        control: &Control,
        limits: Limits,
    ) -> WatcherResults {
        let mut out = WatcherResults::default();
        let ended = Instant::now();
        let seconds = ended.saturating_duration_since(control.begin_time() + limits.warmup);
        let seconds = seconds.as_secs_f64().max(1e-9);
        let effect = counters.totals().effect;
        if let Some(readers) = watchers.readers {
            readers
                .end(&mut out, &effect, seconds, limits, control)
                .await;
        }
        if let Some(expiring) = watchers.expiry {
            self.end_expiry(expiring, &mut out, &effect, control).await;
        }
        out
    }

    async fn end_expiry(
        &self,
        expiring: ExpiryWatcher,
        out: &mut WatcherResults,
        effect: &Effect,
        control: &Control,
    ) {
        let rule = expiring.rule;
        let whole = control.begin_time().elapsed().as_secs_f64().max(1e-9);
        let ended = Instant::now();
        let _ = expiring.task.await;
        let (low, high) = (effect.inserted, effect.inserted + effect.inserts_unknown);
        let lasting = expiring.lasting;
        let limit = self.arguments.settle_time() + Duration::from_secs(rule.after_seconds.into());
        let mut removed_meanwhile = None;
        let mut gone_after_s = None;
        let left = loop {
            let count = match self.target.oldest(rule.field.clone()).await {
                Ok((_, count)) => count,
                Err(reason) => break Err(reason),
            };
            removed_meanwhile.get_or_insert((lasting + low).saturating_sub(count));
            if count <= lasting {
                gone_after_s = Some(ended.elapsed().as_secs_f64());
                break Ok(count);
            }
            if ended.elapsed() > limit || control.is_stopping() {
                break Ok(count);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        };
        let log = lock(&expiring.log);
        let left_over = left
            .as_ref()
            .map_or(0, |count| count.saturating_sub(lasting));
        out.expired = high.saturating_sub(left_over).min(low);
        let left = left.map(i128::from);
        let all = i128::from(lasting);
        out.checks.extend([
            compare(
                "documents left when all that expire are gone",
                all..=all,
                left,
            ),
            compare(
                "documents that were gone before their time",
                0..=0,
                Ok(log.early.into()),
            ),
        ]);
        let removed_meanwhile = removed_meanwhile.unwrap_or(0);
        out.expiry = Some(Expiry {
            after_seconds: rule.after_seconds,
            inserted: low,
            removed_meanwhile,
            removed_per_second: removed_meanwhile as f64 / whole,
            samples: log.samples(),
            lag_p50_s: log.lag_seconds(50.0),
            lag_p99_s: log.lag_seconds(99.0),
            lag_max_s: log.lag_seconds(100.0),
            gone_after_s,
            ..Expiry::default()
        });
    }
}

fn refusal_error(field: &str, reason: String) -> LabError {
    lab_kit::target::TargetError::Refused {
        what: format!("the oldest {field}"),
        reason,
    }
    .into()
}

fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    })
}

impl Readers {
    fn begin(readers: Vec<Box<dyn ChangeReader>>, writers: u32, shared: &Shared) -> Self {
        let seen = readers.iter().map(|_| {
            Mutex::new(ReaderResults {
                deliveries: Deliveries::of(writers),
                lag: LatencyHistogram::default(),
                events: 0,
            })
        });
        let seen: Arc<Vec<Mutex<ReaderResults>>> = Arc::new(seen.collect());
        let mut tasks = JoinSet::new();
        for (number, mut reader) in readers.into_iter().enumerate() {
            let (seen, shared) = (seen.clone(), shared.clone());
            tasks.spawn(async move {
                loop {
                    match reader.next().await {
                        Ok(None) => {}
                        Ok(Some(event)) => {
                            if let Some(seen) = seen.get(number) {
                                lock(seen).take(event, Instant::now(), &shared);
                            }
                        }
                        Err(reason) => {
                            let reason = format!("reader {}: {reason}", number + 1);
                            shared.control.stop(&reason);
                            return;
                        }
                    }
                }
            });
        }
        Self {
            tasks,
            seen,
            writers,
        }
    }

    /// The number of in-order events of the reader with the fewest, and of all readers.
    fn count_in_order(&self) -> (u64, u64) {
        let given = self.seen.iter().map(|seen| lock(seen).deliveries.in_order);
        let given: Vec<u64> = given.collect();
        (given.iter().copied().min().unwrap_or(0), given.iter().sum())
    }

    /// How long readers needed to receive everything acknowledged; `None` if no more events came.
    async fn drain(&self, wanted: u64, timeout: Duration, control: &Control) -> Option<f64> {
        let begun = Instant::now();
        let mut last = (Instant::now(), 0);
        loop {
            let (least, all) = self.count_in_order();
            if least >= wanted {
                let took = begun.elapsed().as_secs_f64();
                tokio::time::sleep(AFTER_LAST).await;
                return Some(took);
            }
            if all > last.1 {
                last = (Instant::now(), all);
            }
            if last.0.elapsed() > timeout || control.is_stopping() {
                return None;
            }
            tokio::time::sleep(DRAIN_POLL).await;
        }
    }

    async fn end(
        mut self,
        out: &mut WatcherResults,
        effect: &Effect,
        seconds: f64,
        limits: Limits,
        control: &Control,
    ) {
        let wanted = effect.inserted;
        let drain_seconds = self.drain(wanted, limits.call_timeout, control).await;
        self.tasks.shutdown().await;
        let mut found = FanOut {
            readers: u32::try_from(self.seen.len()).unwrap_or(u32::MAX),
            writers: self.writers,
            drain_seconds,
            reader_min_per_second: f64::INFINITY,
            ..FanOut::default()
        };
        let mut lag = LatencyHistogram::default();
        let (mut least, mut most, mut wrong) = (u64::MAX, 0, 0);
        for seen in self.seen.iter() {
            let seen = lock(seen);
            let rate = seen.events as f64 / seconds;
            found.events += seen.events;
            found.reader_min_per_second = found.reader_min_per_second.min(rate);
            found.reader_max_per_second = found.reader_max_per_second.max(rate);
            lag.merge(&seen.lag);
            let given = &seen.deliveries;
            least = least.min(given.in_order);
            most = most.max(given.in_order);
            wrong += given.repeated + given.foreign;
        }
        found.events_per_second = found.events as f64 / seconds;
        found.lag = latency_summary(&lag);
        let expected = i128::from(wanted)..=i128::from(wanted + effect.inserts_unknown);
        for (name, given) in [
            (
                "events in order of the reader that was given the fewest",
                least,
            ),
            (
                "events in order of the reader that was given the most",
                most,
            ),
        ] {
            out.checks
                .push(compare(name, expected.clone(), Ok(given.into())));
        }
        let name = "events given twice, out of order or of nothing written";
        out.checks.push(compare(name, 0..=0, Ok(wrong.into())));
        out.fan_out = Some(found);
    }
}

impl ReaderResults {
    fn take(&mut self, event: Event, now: Instant, shared: &Shared) {
        let sent = shared.sent_time(event);
        self.deliveries.take(event, sent.is_some());
        let from = shared.control.begin_time() + shared.limits.warmup;
        let is_measured = now >= from && !shared.control.is_over();
        self.events += u64::from(is_measured);
        if let Some(sent) = sent.filter(|sent| *sent >= from) {
            self.lag.record(now.saturating_duration_since(sent));
        }
    }
}

impl Shared {
    /// When the document of an event was sent; `None` if it never was.
    fn sent_time(&self, event: Event) -> Option<Instant> {
        let Event::Inserted { client, sequence } = event else {
            return None;
        };
        let clients = self.counters.sent.as_ref()?;
        let sent = lock(clients.get(usize::try_from(client).ok()?)?);
        let at = usize::try_from(sequence.checked_sub(1)?).ok()?;
        sent.get(at).copied()
    }
}

impl WatcherResults {
    /// Adds the observations to the step's result, and returns their checks.
    pub(super) fn add_to(
        self,
        afterwards: FinalChecks,
        result: &mut StepResult,
        effect: &mut Effect,
    ) -> Vec<Check> {
        effect.deleted += self.expired;
        result.more.fan_out = self.fan_out.map(|mut found| {
            let cores = result.server.as_ref().map(|server| server.cpu_cores);
            let events = found.events_per_second;
            let cost = cores.filter(|_| events > 0.0);
            found.server_cpu_us_per_event = cost.map(|cores| cores * 1e6 / events);
            found
        });
        result.more.expiry = self.expiry;
        let mut checks = self.checks;
        checks.extend(afterwards.add_to(result));
        checks
    }
}

/// Compares the rate of a step in which documents expired with that of the previous measured step.
pub(super) fn compare_expiry(result: &mut StepResult, done: &[StepResult]) {
    let rate = result.rate.average;
    let Some(expiry) = &mut result.more.expiry else {
        return;
    };
    let before = done.iter().rev().find(|step| step.measured);
    expiry.rate_without = before.map(|step| step.rate.average);
    let without = expiry.rate_without.filter(|without| *without > 0.0);
    expiry.rate_percent = without.map(|without| rate / without * 100.0);
}
