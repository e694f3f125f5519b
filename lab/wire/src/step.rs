//! One step: its clients, those beside them, and what is known at its end.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use lab_kit::folder::RunFolder;
use lab_kit::pacing::Schedule;
use lab_kit::recorder::{ClientFate, StepFacts, StepRecorder, amplification, latency_summary};
use lab_kit::result::{Sizes, StepResult};
use lab_kit::seed::{self, SeedMode};
use lab_kit::target::{Outcome, Session, Target};
use lab_kit::use_of::CLIENT_THREAD;
use lab_kit::work::{Effect, Next, Quota, Shape, Work};
use lab_kit::workload::{Part, Role, Settings, Step, Stop};
use metrics::{Interval, LatencyHistogram};
use tokio::task::JoinSet;

use crate::clients::{Client, Control, Group, Limits, Totals};
use crate::errors::LabError;
use crate::interrupt::interrupted;
use crate::progress::{Goal, Progress};
use crate::run::Run;
use crate::sampler::{INTERVAL, Instruments, Lane, Sampling};

/// After an early stop, calls under way get this long to end.
pub(crate) const GRACE: Duration = Duration::from_secs(5);
/// The lab's own cost is measured over so many calls, or this long.
const REHEARSAL_CALLS: u32 = 2_000;
const REHEARSAL_TIME: Duration = Duration::from_millis(50);

/// A step that ended, well or early.
pub(crate) struct StepEnd {
    /// What it showed.
    pub(crate) result: StepResult,
    /// What all its clients together did to the tables.
    pub(crate) effect: Effect,
    /// Why it ended early.
    pub(crate) stopped_because: Option<String>,
}

/// A role with everything that its clients need.
struct Crew<'a> {
    role: &'a Role,
    clients: u32,
    batch: u32,
    /// Operations per second of all together.
    rate: Option<f64>,
    quota: Quota,
    group: Arc<Group>,
    misses_allowed: bool,
    is_beside: bool,
}

impl<'a> Crew<'a> {
    fn new(
        role: &'a Role,
        settings: &Settings,
        rate: Option<f64>,
        quota: Quota,
        step: &Step,
        is_beside: bool,
    ) -> Self {
        let clients = role.clients.unwrap_or(settings.clients);
        let takes_batches = matches!(role.part, Part::Insert | Part::DeleteOldest);
        let rate = role.rate.map(|rate| rate * f64::from(clients)).or(rate);
        let removes = |role: &Role| {
            let mixed = role.mix.iter().map(|(part, _)| *part);
            mixed
                .chain([role.part])
                .any(|part| matches!(part, Part::DeleteOldest | Part::DeleteInsert))
        };
        Self {
            role,
            clients,
            batch: if takes_batches {
                role.batch.unwrap_or(settings.batch)
            } else {
                1
            },
            rate,
            quota,
            group: Group::new(clients, is_beside, rate.is_some(), role.part),
            misses_allowed: removes(&step.work) || step.beside.iter().any(removes),
            is_beside,
        }
    }

    fn name(&self, step: &Step) -> String {
        let part = serde_json::to_value(self.role.part).unwrap_or_default();
        let part = part.as_str().unwrap_or_default().to_owned();
        if self.is_beside {
            format!("{}:{part}", step.name)
        } else {
            step.name.clone()
        }
    }

    fn lane(&self, step: &Step, device: Option<&str>) -> Lane {
        let facts = StepFacts {
            name: self.name(step),
            part: self.role.part,
            measured: step.measured,
            clients: self.clients,
            batch: self.batch,
            open_loop: self.rate.is_some(),
            device: device.map(str::to_owned),
        };
        Lane {
            recorder: StepRecorder::new(facts, INTERVAL),
            group: self.group.clone(),
            rows: 0,
        }
    }
}

impl<T: Target> Run<'_, T> {
    /// Runs a step whose work clients do.
    pub(crate) async fn run_step(
        &self,
        step: &Step,
        folder: RunFolder,
        instruments: Instruments,
    ) -> Result<(StepEnd, RunFolder, Instruments), LabError> {
        let settings = &self.settings;
        // Preparing steps have no warm-up and are limited by rows alone; so are loads of a workload
        // that has timed steps besides.
        let is_timed =
            step.measured && (step.stop == Stop::Seconds || !self.workload.has_timed_steps());
        let warmup = Duration::from_secs(if is_timed { settings.warmup_seconds } else { 0 });
        let limit = settings.seconds.filter(|_| is_timed);
        let end = limit.map(|seconds| warmup + Duration::from_secs(seconds));
        let rows = (settings.rows as f64 * step.rows.unwrap_or(1.0)).round() as u64;
        let (quota, goal) = match (step.stop, end) {
            (Stop::Seconds, Some(end)) => (Quota::Endless, Goal::Seconds(end.as_secs())),
            (Stop::Calls, _) => (Quota::Calls(rows), Goal::Ops(rows)),
            _ => (Quota::Rows(rows), Goal::Ops(rows)),
        };
        let rate = settings.rate.filter(|_| step.measured);
        let mut crews = vec![Crew::new(&step.work, settings, rate, quota, step, false)];
        crews.extend(
            step.beside
                .iter()
                .map(|role| Crew::new(role, settings, None, Quota::Endless, step, true)),
        );
        let limits = Limits {
            warmup,
            end,
            call_timeout: Duration::from_secs(self.arguments.call_timeout_seconds.max(1)),
        };
        self.shape.begin_step(is_paired(step));

        let control = Control::new(crews.iter().map(|crew| crew.clients).sum());
        let (mut measured, mut beside) = (JoinSet::new(), JoinSet::new());
        let mut seeds = Vec::new();
        let lab_cpu_us_per_op = match crews.first() {
            Some(crew) => self.rehearse(step, crew).await?,
            None => None,
        };
        for (number, crew) in crews.iter().enumerate() {
            let tasks = if crew.is_beside {
                &mut beside
            } else {
                &mut measured
            };
            let role = format!(
                "client{}",
                if number == 0 {
                    String::new()
                } else {
                    number.to_string()
                }
            );
            for client in 0..crew.clients {
                if number == 0 {
                    seeds.push(self.seed_of(step, crew, &role, client));
                }
                self.spawn(step, crew, (&role, client), &control, limits, tasks)
                    .await?;
            }
        }
        let device = instruments.device().map(str::to_owned);
        let sampling = Sampling {
            lanes: crews
                .iter()
                .map(|crew| crew.lane(step, device.as_deref()))
                .collect(),
            folder,
            instruments,
            progress: Progress::new(&step.name, step.work.part.unit(), goal),
            failed: None,
        };
        let (done, is_done) = mpsc::channel();
        control.start_together().await;
        let sampler = std::thread::spawn({
            let control = control.clone();
            move || sampling.run(&control, warmup, &is_done)
        });
        wait_for_clients(&mut measured, &control).await;
        // The last interval ends with the measured work; stragglers beside it are not waited for
        // first.
        control.measured_work_is_over();
        let _ = done.send(());
        wait_for_clients(&mut beside, &control).await;
        // The thread ends within moments of the signal; a panic in it is a bug that must show.
        let sampling = sampler
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        if let Some(error) = sampling.failed {
            return Err(error.into());
        }
        let more = End {
            crews: &crews,
            control: &control,
            seeds,
            lab_cpu_us_per_op,
        };
        self.conclude_step(step, sampling, more).await
    }

    /// The seed of a client. Rows are never drawn twice by two clients, whatever the mode: they
    /// would be duplicates.
    fn seed_of(&self, step: &Step, crew: &Crew<'_>, role: &str, client: u32) -> u64 {
        let mode = if crew.role.part == Part::Insert {
            SeedMode::Fresh
        } else {
            self.settings.seed_mode
        };
        mode.of(self.seed, &step.name, role, client)
    }

    async fn spawn(
        &self,
        step: &Step,
        crew: &Crew<'_>,
        (role, client): (&str, u32),
        control: &Arc<Control>,
        limits: Limits,
        tasks: &mut JoinSet<()>,
    ) -> Result<(), LabError> {
        let random = seed::from(self.seed_of(step, crew, role, client));
        let synced = match crew.role.sync_every {
            Some(every) => Some((every, self.target.session(true).await?)),
            None => None,
        };
        let schedule = crew
            .rate
            .map(|rate| Schedule::even(rate / f64::from(crew.batch), client, crew.clients));
        let client = Client {
            control: control.clone(),
            group: crew.group.clone(),
            number: client as usize,
            session: self.target.session(crew.role.sync).await?,
            synced,
            work: Work::new(
                (crew.role.clone(), crew.quota),
                self.shape.clone(),
                random,
                (client, crew.clients),
                crew.misses_allowed,
            ),
            limits,
            schedule,
        };
        if <T::Session as Session>::BLOCKING {
            let runtime = tokio::runtime::Handle::current();
            tasks.spawn_blocking(move || {
                // So that reads of clients can be told from those of the engine's own threads. It
                // is for the eye of the sampler only.
                let _ = std::fs::write("/proc/thread-self/comm", CLIENT_THREAD);
                runtime.block_on(client.run());
            });
        } else {
            tasks.spawn(client.run());
        }
        Ok(())
    }

    /// What the lab itself costs for each operation: drawing, encoding and recording calls that are
    /// never made, on copies of everything.
    async fn rehearse(&self, step: &Step, crew: &Crew<'_>) -> Result<Option<f64>, LabError> {
        let shape = Shape::new(self.shape.kind, self.shape.ids, self.settings.clone());
        shape.restore(&self.shape.marks());
        shape
            .indexes
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .extend(self.indexes());
        let random = seed::stream(self.seed, &step.name, "rehearsal", 0);
        let mut work = Work::new(
            (crew.role.clone(), crew.quota),
            Arc::new(shape),
            random,
            (0, crew.clients),
            true,
        );
        let mut session = self.target.session(false).await?;
        let mut latency = LatencyHistogram::default();
        let (begun, mut ops) = (Instant::now(), 0);
        for _ in 0..REHEARSAL_CALLS {
            let sent = Instant::now();
            let call = match work.draw() {
                Next::Call(_, call) | Next::Pair(_, call, _) => call,
                Next::Wait | Next::End => break,
            };
            let size = call.ops();
            std::hint::black_box(session.ready(call));
            work.settle(Outcome::done(size, size));
            latency.record(sent.elapsed());
            ops += size;
            if begun.elapsed() > REHEARSAL_TIME {
                break;
            }
        }
        Ok((ops > 0).then(|| begun.elapsed().as_secs_f64() * 1e6 / ops as f64))
    }

    async fn conclude_step(
        &self,
        step: &Step,
        sampling: Sampling,
        end: End<'_, '_>,
    ) -> Result<(StepEnd, RunFolder, Instruments), LabError> {
        let Sampling {
            lanes,
            folder,
            instruments,
            ..
        } = sampling;
        let stopped_because = end.control.reason();
        // Before the target is asked: some engines read all their data to answer.
        let details = instruments.details();
        let mut sizes = Sizes::default();
        let mut statistics = serde_json::Value::Null;
        if stopped_because.is_none() {
            sizes = self.target.sizes().await;
            statistics = self.target.statistics().await;
        }
        let debt_bytes = self.target.debt_bytes(&statistics);
        if !step.measured {
            statistics = serde_json::Value::Null;
        }
        details.fill_sizes(&mut sizes);
        let mut lanes = lanes.into_iter().zip(end.crews);
        let Some((lane, crew)) = lanes.next() else {
            return Err(LabError::Machine(std::io::Error::other(
                "a step without work",
            )));
        };
        let totals = crew.group.totals();
        let mut effect = totals.effect;
        let rows = lane.rows;
        let mut result =
            lane.recorder
                .finish(&folder, &totals.fates, totals.errors.clone(), sizes)?;
        let more = &mut result.more;
        more.rows_returned = rows;
        more.rows_per_second = if result.seconds > 0.0 {
            rows as f64 / result.seconds
        } else {
            0.0
        };
        more.service = totals.service.as_ref().map(latency_summary);
        more.by_part = by_part(&totals);
        more.seeds = end.seeds;
        more.lab_cpu_us_per_op = end.lab_cpu_us_per_op;
        more.statistics = statistics;
        more.debt_bytes = debt_bytes;
        for (lane, crew) in lanes {
            let totals = crew.group.totals();
            effect.add(&totals.effect);
            let role = lane.recorder.finish_beside(totals.errors, crew.rate);
            more.beside.push(role);
        }
        let promised: Vec<bool> = more.beside.iter().filter_map(|role| role.sla_met).collect();
        more.sla_met = (!promised.is_empty()).then(|| promised.iter().all(|met| *met));
        let measured = result.ops as f64 / (result.ops + result.warmup_ops).max(1) as f64;
        amplification(&mut result, (effect.bytes as f64 * measured) as u64);
        details.fill_step(&mut result);
        let end = StepEnd {
            result,
            effect,
            stopped_because,
        };
        Ok((end, folder, instruments))
    }

    /// A step that is done once: no clients, one operation.
    pub(crate) async fn run_action(
        &self,
        step: &Step,
        mut folder: RunFolder,
        mut instruments: Instruments,
    ) -> Result<(StepEnd, RunFolder, Instruments), LabError> {
        let facts = StepFacts {
            name: step.name.clone(),
            part: step.work.part,
            measured: step.measured,
            clients: 1,
            batch: 1,
            open_loop: false,
            device: instruments.device().map(str::to_owned),
        };
        let mut recorder = StepRecorder::new(facts, INTERVAL);
        eprintln!("{}", step.name);
        instruments.restart();
        let begun = Instant::now();
        let mut interval = Interval::default();
        let mut start_seconds = None;
        let act = self.act(
            step,
            (&mut interval.latency, &mut start_seconds),
            instruments.server_pid(),
        );
        let acted = tokio::select! {
            acted = act => acted,
            () = interrupted() => Err("interrupted".to_owned()),
        };
        interval.length = begun.elapsed();
        let (remark, stopped_because) = match acted {
            Ok((ops, remark)) => {
                interval.ops = ops;
                (remark, None)
            }
            Err(reason) => (reason.clone(), Some(format!("{}: {reason}", step.name))),
        };
        if step.work.part == Part::Restart {
            instruments.watch_process(self.target.watch().await.pid);
        }
        instruments.fill(&mut interval);
        let details = instruments.details();
        recorder.push(&interval, &mut folder)?;
        let mut sizes = if stopped_because.is_none() {
            self.target.sizes().await
        } else {
            Sizes::default()
        };
        details.fill_sizes(&mut sizes);
        let fate = ClientFate {
            ops: interval.ops,
            active: interval.length,
            ..ClientFate::default()
        };
        let mut result = recorder.finish(&folder, &[fate], Default::default(), sizes)?;
        result.more.remark = remark;
        result.more.start_seconds = start_seconds;
        if step.work.part == Part::Settle && stopped_because.is_none() {
            let statistics = self.target.statistics().await;
            result.more.debt_bytes = self.target.debt_bytes(&statistics);
        }
        details.fill_step(&mut result);
        let end = StepEnd {
            result,
            effect: Effect::default(),
            stopped_because,
        };
        Ok((end, folder, instruments))
    }

    async fn act(
        &self,
        step: &Step,
        (latency, start_seconds): (&mut LatencyHistogram, &mut Option<f64>),
        pid: Option<u32>,
    ) -> Result<(u64, String), String> {
        let begun = Instant::now();
        let done = match step.work.part {
            Part::CreateIndexes => {
                let indexes = self.indexes();
                self.target
                    .create_indexes(&indexes)
                    .await
                    .map_err(|error| error.to_string())?;
                let rows: u64 = self
                    .shape
                    .marks()
                    .iter()
                    .map(|mark| mark.visible - mark.deleted)
                    .sum();
                self.shape
                    .indexes
                    .lock()
                    .unwrap_or_else(std::sync::PoisonError::into_inner)
                    .extend(indexes);
                (rows, String::new())
            }
            Part::CreateTables => {
                for number in 1..=self.settings.extra_tables {
                    let begun = Instant::now();
                    self.target
                        .create_extra_table(number)
                        .await
                        .map_err(|error| error.to_string())?;
                    latency.record(begun.elapsed());
                }
                return Ok((u64::from(self.settings.extra_tables), String::new()));
            }
            Part::Restart => {
                let seconds = self.restart(pid).await?;
                *start_seconds = Some(seconds);
                (
                    1,
                    format!("answered after {}", lab_kit::format::seconds(seconds)),
                )
            }
            Part::Empty => {
                self.target
                    .drop_tables()
                    .await
                    .map_err(|error| error.to_string())?;
                self.target
                    .prepare()
                    .await
                    .map_err(|error| error.to_string())?;
                self.shape.emptied();
                (1, String::new())
            }
            _ => {
                let patience = Duration::from_secs(self.arguments.settle_seconds);
                let rest = self.target.settle(patience).await;
                let remark = if rest.quiet {
                    rest.remark
                } else {
                    format!("not at rest: {}", rest.remark)
                };
                (1, remark)
            }
        };
        latency.record(begun.elapsed());
        Ok(done)
    }
}

/// What the end of a step needs beside its samples.
struct End<'a, 'b> {
    crews: &'a [Crew<'b>],
    control: &'a Control,
    seeds: Vec<u64>,
    lab_cpu_us_per_op: Option<f64>,
}

fn by_part(totals: &Totals) -> std::collections::BTreeMap<String, lab_kit::result::LatencySummary> {
    let name = |part: &Part| serde_json::to_value(part).ok()?.as_str().map(str::to_owned);
    totals
        .by_part
        .iter()
        .filter_map(|(part, latency)| Some((name(part)?, latency_summary(latency))))
        .collect()
}

/// Whether deletes without a rate of their own follow the inserts.
fn is_paired(step: &Step) -> bool {
    let deletes = |role: &Role| role.part == Part::DeleteOldest && role.rate.is_none();
    step.work.part == Part::Insert && step.beside.iter().any(deletes)
}

/// Waits for all clients; on an interrupt or an early stop, calls under way get a moment and are
/// then abandoned.
async fn wait_for_clients(tasks: &mut JoinSet<()>, control: &Control) {
    let mut poll = tokio::time::interval(Duration::from_millis(100));
    let mut stop_at = None;
    let interrupt = interrupted();
    tokio::pin!(interrupt);
    loop {
        tokio::select! {
            ended = tasks.join_next() => match ended {
                None => return,
                Some(Err(error)) if error.is_panic() => control.stop(&format!("a client of the lab \
                    failed: {error}")),
                Some(_) => {}
            },
            () = &mut interrupt, if !control.is_stopping() => control.stop("interrupted"),
            _ = poll.tick() => {
                if control.is_stopping() {
                    let at = *stop_at.get_or_insert_with(|| tokio::time::Instant::now() + GRACE);
                    if tokio::time::Instant::now() >= at {
                        tasks.abort_all();
                        // A thread inside an engine cannot be aborted; the run ends without it.
                        return;
                    }
                }
            }
        }
    }
}
