//! The agent's part of a run: the clients of one generator, and their reports to the lab.
//!
//! Promises: no message of the lab makes the agent read a file, and the agent neither prepares nor
//! drops anything in the target; each operation is reported in one tick and once more in the
//! totals. Neighbours: `load` has opened the connection, `distributed` is the lab's side.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use lab_kit::environment::RunClock;
use lab_kit::pacing::Arrivals;
use lab_kit::share::Share;
use lab_kit::target::Target;
use lab_kit::work::Dataset;
use lab_kit::workload::{Settings, Step, Workload};
use metrics::{HostCpu, LatencyHistogram, ProcessSampler};
use tokio::task::JoinSet;

use super::arguments::RunArguments;
use super::context::Run;
use super::execute::RunPlan;
use super::guarded::{LimitedTarget, TimeLimits};
use super::role_plan::RolePlan;
use super::shared::operations;
use super::step::{is_paired, wait_for_clients};
use crate::clients::Control;
use crate::counters::{RoleCounters, lock};
use crate::errors::LabError;
use crate::load::{
    AgentMessage, Buckets, ClientReport, Job, LabMessage, Link, RoleEnd, RoleTick, StepOrder,
    StepTotals, TICK, TICKS_PER_INTERVAL, Tick, ToLab,
};
use crate::sampler::Gaps;
use crate::wire;

/// The last part of the wait for the start, which is a busy wait because timers are late.
const AWAKE: Duration = Duration::from_millis(2);
/// A part of the names of address options by which drivers read files.
const FILE_OPTIONS: &str = "file";

/// The options of a run that concern its target; no other options are used here.
///
/// # Errors
/// The target's address contains names of files.
pub(crate) fn arguments_of(job: &Job) -> Result<RunArguments, LabError> {
    let refused = |reason: &str| LabError::Agent(reason.to_owned());
    let options = job
        .target
        .split_once('?')
        .map_or("", |(_, options)| options);
    // A key with other characters than letters could be an escaped form of one of these names.
    let names = options
        .split('&')
        .filter_map(|option| option.split('=').next());
    let is_file =
        |name: &str| name.to_ascii_lowercase().contains(FILE_OPTIONS) || name.contains('%');
    if names.into_iter().any(is_file) {
        return Err(refused(
            "the target's address names files, which an agent must not read: leave them out",
        ));
    }
    let mut words = vec![job.name.clone(), "--out=.".to_owned()];
    words.push(format!("--target={}", job.target));
    words.push(format!("--db={}", job.db));
    words.push(format!(
        "--call-timeout-seconds={}",
        job.call_timeout_seconds
    ));
    let databases = job.databases.map(|count| format!("--databases={count}"));
    let concern = job.write_concern.as_ref();
    let concern = concern.map(|concern| format!("--write-concern={concern}"));
    let journal = job.journal.map(|journal| format!("--journal={journal}"));
    words.extend([databases, concern, journal].into_iter().flatten());
    RunArguments::parse_words(&words).map_err(|_| refused("the run's options cannot be parsed"))
}

impl<'a> RunPlan<'a> {
    /// The plan of a run that a lab sent.
    ///
    /// # Errors
    /// The workload cannot be parsed.
    pub(crate) fn of_job(arguments: &'a RunArguments, job: &Job) -> Result<Self, LabError> {
        Ok(Self {
            arguments,
            workload: Workload::parse_sent(&job.workload, &job.name, &job.settings)?,
            settings: job.settings.clone(),
            resumed: None,
            loaded: None,
        })
    }

    /// Generates load against an open target, step by step as the lab orders.
    pub(crate) async fn make_load<T: Target>(
        self,
        target: T,
        job: &Job,
        link: &mut Link,
    ) -> Result<(), LabError> {
        crate::pulse::start();
        let time = self.arguments.call_timeout();
        let limits = TimeLimits {
            short: time,
            long: time,
        };
        let data = &self.workload.data;
        let (kind, ids) = (data.documents, data.ids);
        let mut run = Run {
            arguments: self.arguments,
            workload: self.workload,
            settings: self.settings,
            seed: job.seed,
            target: Arc::new(LimitedTarget::new(target, limits)),
            dataset: Arc::new(Dataset::new(kind, ids, Settings::clone(&job.settings))),
            driver: "",
            share: Share::new(job.generator, job.generators.max(1)),
            fleet: None.into(),
            clock: RunClock::start(None),
        };
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let cpus = u32::try_from(cpus).unwrap_or(u32::MAX);
        send(link, &AgentMessage::Ready { cpus })?;
        loop {
            match link.next().await.map_err(LabError::Agent)? {
                LabMessage::Step(order) => {
                    run.dataset = Arc::new(run.dataset_of(&order));
                    run.make_step(*order, link).await?;
                }
                LabMessage::End => return Ok(()),
                // Messages about a step that has already ended are ignored.
                _ => {}
            }
        }
    }
}

fn send(link: &Link, what: &AgentMessage) -> Result<(), LabError> {
    link.to_lab().send(what).map_err(LabError::Agent)
}

impl<T: Target> Run<'_, T> {
    /// The tables in the state that the lab sent.
    fn dataset_of(&self, order: &StepOrder) -> Dataset {
        let data = &self.workload.data;
        let out = Dataset::new(data.documents, data.ids, self.settings.clone())
            .with_program(self.seed)
            .for_generator(self.share, &order.marks);
        let relaxed = std::sync::atomic::Ordering::Relaxed;
        out.sparse.store(order.is_sparse, relaxed);
        if order.has_indexes {
            let mut known = out.indexes.lock().unwrap_or_else(PoisonError::into_inner);
            known.extend(self.indexes());
        }
        out
    }

    /// The step of an order, with the clients and arrivals that the lab determined.
    fn find_ordered(&self, order: &StepOrder) -> Result<Step, LabError> {
        let wrong = |reason: &str| LabError::Agent(format!("step {}: {reason}", order.step));
        let planned = self.planned_steps();
        let step = planned.into_iter().find(|step| step.name == order.step);
        let mut step = step.ok_or_else(|| wrong("there is no such step"))?;
        let Step {
            work, background, ..
        } = &mut step;
        let mut roles: Vec<_> = std::iter::once(work).chain(background).collect();
        if roles.len() != order.clients.len() || roles.len() != order.arrivals.len() {
            return Err(wrong("it has a different number of roles"));
        }
        let all: u64 = order.clients.iter().map(|count| u64::from(*count)).sum();
        if all > CLIENTS_MAX {
            return Err(wrong("it has too many clients"));
        }
        let given = order.clients.iter().zip(&order.arrivals);
        for (role, (clients, arrivals)) in roles.iter_mut().zip(given) {
            role.clients = Some(*clients);
            if let Some(times) = arrivals {
                role.arrivals = Some(Arrivals::of_times(times).map_err(|error| wrong(&error))?);
            }
        }
        Ok(step)
    }

    async fn make_step(&self, order: StepOrder, link: &mut Link) -> Result<(), LabError> {
        let step = self.find_ordered(&order)?;
        if order.has_indexes {
            self.target.attach(&self.indexes());
        }
        let (limits, quota, _) = self.limits(&step);
        let plans = self.plans(&step, quota);
        self.dataset.begin_step(is_paired(&step));
        let own = plans
            .iter()
            .map(|plan| self.share.count(plan.clients))
            .sum();
        let control = Control::new(own);
        let (mut measured, mut background) = (JoinSet::new(), JoinSet::new());
        self.spawn_all(
            &step,
            &plans,
            &control,
            limits,
            &mut measured,
            &mut background,
        )
        .await?;
        send(link, &AgentMessage::Prepared)?;
        let Some(at) = begin(link, &control).await else {
            return Ok(());
        };
        let late = control.begin_time().saturating_duration_since(at);
        let late_us = u64::try_from(late.as_micros()).unwrap_or(u64::MAX);
        let begun = send(link, &AgentMessage::Begun { late_us });
        if let Err(error) = begun {
            control.stop(&error.to_string());
        }
        let counters: Vec<_> = plans.iter().map(|plan| plan.counters.clone()).collect();
        let ticker = Ticker {
            counters: counters.clone(),
            control: control.clone(),
            to_lab: link.to_lab(),
            at,
            warmup: limits.warmup,
            number: 0,
        };
        let (done, is_done) = channel();
        let ticker = std::thread::spawn(move || ticker.run(&is_done));
        let mut heard = StepSignals::default();
        let waiting = wait_for_clients(&mut measured, &control, &counters, limits.call_timeout);
        heard.handle_messages(link, &control, waiting).await;
        let at_us = us(at.elapsed());
        let _ = send(link, &AgentMessage::Done { at_us });
        heard.wait_measured_work(link, &control).await;
        for counters in &counters {
            counters.account_unfinished(&limits);
        }
        control.end_measured_work();
        wait_for_clients(&mut background, &control, &counters, limits.call_timeout).await;
        let _ = done.send(());
        let host_busy_percent = ticker
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let program = self.dataset.program.as_ref();
        let ended = StepTotals {
            reason: control.reason(),
            roles: plans.iter().map(role_end).collect(),
            marks: self.dataset.table_checkpoints(),
            program: program.map(|state| state.counts()).unwrap_or_default(),
            host_busy_percent,
        };
        send(link, &AgentMessage::Ended(Box::new(ended)))
    }
}

/// The most clients of a run, all generators together.
const CLIENTS_MAX: u64 = 65_536;

fn us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Waits for the common start and lets the clients begin; `None` if there will be no start.
async fn begin(link: &mut Link, control: &Control) -> Option<Instant> {
    let at = match link.next().await {
        Ok(LabMessage::Start { at_us }) => Some(link.moment(at_us)),
        Ok(_) | Err(_) => None,
    };
    match at {
        Some(at) => {
            tokio::time::sleep_until((at - AWAKE).into()).await;
            while Instant::now() < at {
                std::hint::spin_loop();
            }
        }
        // Releases the clients that wait for the start.
        None => control.stop("the lab did not start the step"),
    }
    control.start_together().await;
    at
}

/// Messages of the lab during a step.
#[derive(Default)]
struct StepSignals {
    is_over: bool,
    is_gone: bool,
}

impl StepSignals {
    fn take(&mut self, order: Result<LabMessage, String>, control: &Control) {
        match order {
            Ok(LabMessage::Over) => self.is_over = true,
            Ok(LabMessage::Stop { reason }) => control.stop(&reason),
            Ok(_) => {}
            Err(reason) => {
                control.stop(&reason);
                self.is_gone = true;
            }
        }
    }

    /// Handles messages of the lab until `waiting` has ended.
    async fn handle_messages(
        &mut self,
        link: &mut Link,
        control: &Control,
        waiting: impl Future<Output = ()>,
    ) {
        tokio::pin!(waiting);
        loop {
            tokio::select! {
                () = &mut waiting => return,
                order = link.next(), if !self.is_gone => self.take(order, control),
            }
        }
    }

    /// Waits until the measured work of all generators has ended.
    async fn wait_measured_work(&mut self, link: &mut Link, control: &Control) {
        while !(self.is_over || self.is_gone) {
            let order = link.next().await;
            self.take(order, control);
        }
    }
}

/// Reports the work of the clients to the lab every [`TICK`].
struct Ticker {
    counters: Vec<Arc<RoleCounters>>,
    control: Arc<Control>,
    to_lab: ToLab,
    at: Instant,
    warmup: Duration,
    /// The last tick that was sent.
    number: u64,
}

impl Ticker {
    /// Sends ticks until the work is done, and reports the end; returns how busy the machine was in
    /// percent.
    fn run(mut self, done: &Receiver<()>) -> f64 {
        let mut own = ProcessSampler::of_self();
        let mut host: Option<HostCpu> = None;
        loop {
            let next = TICK * u32::try_from(self.number + 1).unwrap_or(u32::MAX);
            let left = next.saturating_sub(self.at.elapsed());
            let is_last = !matches!(done.recv_timeout(left), Err(RecvTimeoutError::Timeout));
            let since = self.at.elapsed();
            if host.is_none() && (since >= self.warmup || is_last) {
                host = HostCpu::sample().ok();
            }
            let used = own.as_mut().ok().and_then(|own| own.sample().ok());
            let used = used.map(|sample| wire::of_sample(&sample));
            let tick = self.tick(since, is_last, used.unwrap_or_default());
            if let Err(reason) = self.to_lab.send(&AgentMessage::Tick(Box::new(tick))) {
                self.control.stop(&reason);
            }
            if is_last {
                let now = HostCpu::sample().ok();
                return now
                    .zip(host)
                    .map_or(0.0, |(now, first)| now.delta_since(&first).busy_percent);
            }
        }
    }

    /// The work since the previous tick.
    fn tick(&mut self, since: Duration, is_last: bool, used: String) -> Tick {
        let whole = u64::try_from(since.as_millis() / TICK.as_millis()).unwrap_or(u64::MAX);
        let before = self.number;
        // The last tick is separate, however short.
        self.number = if is_last {
            whole.max(before) + 1
        } else {
            whole.max(before + 1)
        };
        let is_whole = self.number / TICKS_PER_INTERVAL > before / TICKS_PER_INTERVAL;
        let roles = self.counters.iter();
        Tick {
            number: self.number,
            at_us: us(since),
            roles: roles
                .map(|counters| role_tick(counters, self.at, is_whole || is_last))
                .collect(),
            used,
            stopping: self.control.reason(),
        }
    }
}

fn role_tick(counters: &RoleCounters, at: Instant, with_latency: bool) -> RoleTick {
    let mut out = RoleTick::default();
    let mut latency = LatencyHistogram::default();
    let mut gaps = Gaps::default();
    for window in &counters.windows {
        let mut window = lock(window);
        out.ops += std::mem::take(&mut window.ops);
        out.errors += std::mem::take(&mut window.errors);
        out.rows += std::mem::take(&mut window.rows);
        out.effect.add(&window.effect);
        gaps.take(&mut window, at);
        if with_latency && window.latency.count() > 0 {
            latency.merge(&window.latency);
            window.latency.clear();
        }
    }
    out.latency = (latency.count() > 0).then(|| Buckets::of(&latency));
    if let Some(all) = gaps.all {
        let since = |moment: Instant| us(moment.saturating_duration_since(at));
        out.completions = Some((all.count, since(all.first), since(all.last)));
        let inside = gaps.free.iter();
        let inside = inside.filter(|(from, to)| from.is_finite() && to.is_finite());
        let to_us = |seconds: f64| (seconds * 1e6) as u64;
        out.free = inside
            .map(|(from, to)| (to_us(*from), to_us(*to)))
            .collect();
    }
    out
}

fn role_end(plan: &RolePlan<'_>) -> RoleEnd {
    let totals = plan.counters.totals();
    let clients = totals.client_summaries.iter().map(|client| ClientReport {
        ops: client.ops,
        active_us: us(client.active),
        behind_us: us(client.behind),
    });
    let operations = operations(plan.role);
    let part = |operation| operations.iter().position(|known| *known == operation);
    let outcomes = totals.outcomes.iter();
    let outcomes = outcomes.filter_map(|(operation, counts)| Some((part(*operation)?, *counts)));
    let by_part = totals.by_operation.iter();
    let by_part =
        by_part.filter_map(|(operation, latency)| Some((part(*operation)?, Buckets::of(latency))));
    RoleEnd {
        acknowledged: totals.acknowledged,
        effect: totals.effect,
        clients: clients.collect(),
        by_part: by_part.collect(),
        outcomes: outcomes.collect(),
        disturbed: totals.disturbed,
        service: totals.service.as_ref().map(Buckets::of),
        lateness: totals.lateness.as_ref().map(Buckets::of),
        errors: totals.errors,
        unsent: totals.unsent,
        unsent_by_lab: totals.unsent_by_lab,
        refused: totals.refused,
        given_up: totals.given_up,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(target: &str) -> Job {
        let workload = Workload::load("hot").unwrap();
        Job {
            workload: Workload::text("hot").unwrap(),
            name: "hot".to_owned(),
            settings: workload.settings("smoke", Default::default()).unwrap(),
            seed: 1,
            target: target.to_owned(),
            db: "quarry_lab".to_owned(),
            databases: None,
            write_concern: None,
            journal: Some(true),
            call_timeout_seconds: 7,
            generator: 0,
            generators: 1,
        }
    }

    #[test]
    fn an_address_that_names_files_is_refused() {
        for target in [
            "mongodb://h:1/?tls=true&tlsCAFile=/etc/passwd",
            "mongodb://h:1/?tlscertificatekeyfile=/etc/key",
            "mongodb://h:1/?tls%43AFile=/etc/passwd",
        ] {
            let refused = arguments_of(&job(target)).unwrap_err().to_string();
            assert!(refused.contains("names files"), "{target}: {refused}");
        }
    }

    #[test]
    fn run_options_arrive_and_injected_options_do_not() {
        let good = arguments_of(&job("mongodb://h:1/?w=1&appName=file")).unwrap();
        assert_eq!((good.journal, good.call_timeout_seconds), (Some(true), 7));
        assert_eq!(good.target, "mongodb://h:1/?w=1&appName=file");
        let mut hostile = job("mongodb://h:1");
        hostile.db = "x --data-dir=/etc".to_owned();
        hostile.write_concern = Some("1 --drop".to_owned());
        let taken = arguments_of(&hostile).unwrap();
        assert!(!taken.drop && taken.data_dir.is_none());
        hostile.name = "--drop".to_owned();
        assert!(arguments_of(&hostile).is_err());
    }
}
