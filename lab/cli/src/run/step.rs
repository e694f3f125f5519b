//! One step: its clients, its background roles, and the results at its end.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use lab_kit::folder::RunFolder;
use lab_kit::pacing::Schedule;
use lab_kit::recorder::latency_summary;
use lab_kit::result::{CallCounts, GeneratorResult, LatencySummary, Sizes, StepResult};
use lab_kit::seed::{self, SeedMode};
use lab_kit::share::Share;
use lab_kit::target::{Session, Target};
use lab_kit::usage::{CLIENT_THREAD, amplification};
use lab_kit::work::{ClientWork, Quota};
use lab_kit::workload::{Operation, Role, Step, Stop};
use tokio::task::JoinSet;

use super::afterwards::FinalChecks;
use super::context::Run;
use super::role_plan::RolePlan;
use super::state::StepEnd;
use super::watchers::WatcherResults;
use crate::clients::{Client, Control, GRACE};
use crate::counters::{Limits, RoleCounters, Totals};
use crate::errors::LabError;
use crate::interrupt::wait_interrupt;
use crate::progress::{Goal, Progress};
use crate::sampler::{Instruments, SamplerInput, SamplerResult};

/// The time after a call's timeout at which the step is stopped, if the client did not give up the
/// call itself.
const WATCH_SLACK: Duration = Duration::from_millis(500);

/// A client and its role.
struct RoleClient<'a> {
    role: &'a str,
    client: u32,
}

impl<T: Target> Run<'_, T> {
    /// Runs a step with clients.
    pub(crate) async fn run_step(
        &self,
        step: &Step,
        folder: RunFolder,
        instruments: Instruments,
    ) -> Result<(StepEnd, RunFolder, Instruments), LabError> {
        let (limits, quota, goal) = self.limits(step);
        let plans = self.plans(step, quota);
        self.dataset.begin_step(is_paired(step));

        let control = Control::new(plans.iter().map(|plan| plan.clients).sum());
        let (mut measured, mut background) = (JoinSet::new(), JoinSet::new());
        let lab_cpu_us_per_op = match plans.first() {
            Some(plan) => self.measure_own_cost(step, plan).await?,
            None => None,
        };
        let seeds = self
            .spawn_all(
                step,
                &plans,
                &control,
                limits,
                &mut measured,
                &mut background,
            )
            .await?;
        let counters: Vec<_> = plans.iter().map(|plan| plan.counters.clone()).collect();
        let (Some(main), Some(plan)) = (counters.first(), plans.first()) else {
            return Err(no_work_error());
        };
        let watchers = self.begin_watchers(step, &control, main, limits).await?;
        let device = instruments.device().map(str::to_owned);
        let place = folder.path().to_owned();
        let inside = <T::Session as Session>::INSIDE;
        let sampled_roles = plans.iter();
        let sampled_roles =
            sampled_roles.map(|plan| plan.sampled_role(step, device.as_deref(), inside));
        let mut sampling = SamplerInput {
            sampled_roles: sampled_roles.collect(),
            folder,
            instruments,
            progress: Progress::new(&step.name, step.work.operation.unit(), goal),
        };
        let (done, is_done) = mpsc::channel();
        sampling.instruments.restart();
        control.start_together().await;
        announce(step);
        let interventions = self.begin_interventions(step, &control);
        let program = self.begin_program(step, &place);
        let sampler = std::thread::spawn({
            let control = control.clone();
            move || sampling.run(&control, limits.warmup, &is_done)
        });
        wait_for_clients(&mut measured, &control, &counters, limits.call_timeout).await;
        let interventions = interventions.end(limits.call_timeout).await;
        // This comes before the last interval is closed, so that the interval includes calls that
        // were never answered or sent.
        for counters in &counters {
            counters.account_unfinished(&limits);
        }
        // The last interval ends with the measured work, without waiting for background clients.
        control.end_measured_work();
        let _ = done.send(());
        wait_for_clients(&mut background, &control, &counters, limits.call_timeout).await;
        let sampled = join_thread(sampler).into_parts();
        let watched = self.end_watchers(watchers, main, &control, limits).await;
        let afterwards = self.ask_afterwards(step, plan, &control, program);
        let more = StepInputs {
            watched,
            afterwards: afterwards.await,
            plans: &plans,
            totals: plans.iter().map(|plan| plan.counters.totals()).collect(),
            generators: Vec::new(),
            control: &control,
            seeds,
            lab_cpu_us_per_op,
            interventions,
        };
        self.conclude_step(step, sampled, more).await
    }

    /// The measured role of a step, then its background roles.
    pub(super) fn plans<'a>(&self, step: &'a Step, quota: Quota) -> Vec<RolePlan<'a>> {
        let settings = &self.settings;
        let rate = settings.rate.filter(|_| step.measured);
        let beside = step.background.iter();
        let beside =
            beside.map(|role| RolePlan::new(role, settings, None, Quota::Endless, step, true));
        let measured = RolePlan::new(&step.work, settings, rate, quota, step, false);
        std::iter::once(measured).chain(beside).collect()
    }

    /// The time limits and the amount of work of the clients of a step.
    pub(super) fn limits(&self, step: &Step) -> (Limits, Quota, Goal) {
        let settings = &self.settings;
        // Preparing steps have no warm-up and end only by rows; so do loads of a workload that also
        // has timed steps.
        let is_timed =
            step.measured && (step.stop == Stop::Seconds || !self.workload.has_timed_steps());
        let warmup = Duration::from_secs(if is_timed { settings.warmup_seconds } else { 0 });
        let seconds = step.seconds.or(settings.seconds);
        let limit = seconds.filter(|_| is_timed || step.seconds.is_some());
        let end = limit.map(|seconds| warmup + Duration::from_secs(seconds));
        let rows = self.quota(step);
        let (quota, goal) = match (step.stop, end) {
            (Stop::Seconds, Some(end)) => (Quota::Endless, Goal::Seconds(end.as_secs())),
            (Stop::Calls, _) => (Quota::Calls(rows), Goal::Ops(rows)),
            _ => (Quota::Rows(rows), Goal::Ops(rows)),
        };
        let limits = Limits {
            warmup,
            end,
            call_timeout: self.arguments.call_timeout(),
        };
        (limits, quota, goal)
    }

    /// The seed of a client. For inserts the mode is ignored: two clients must not draw the same
    /// rows, which would be duplicates.
    pub(super) fn seed_of(&self, step: &Step, plan: &RolePlan<'_>, role: &str, client: u32) -> u64 {
        let mode = if plan.role.operation == Operation::Insert {
            SeedMode::Fresh
        } else {
            self.settings.seed_mode
        };
        mode.of(self.seed, &step.name, role, client)
    }

    /// Starts the clients of all roles, which wait for one another; returns the seeds of the first
    /// role's clients.
    pub(super) async fn spawn_all(
        &self,
        step: &Step,
        plans: &[RolePlan<'_>],
        control: &Arc<Control>,
        limits: Limits,
        measured: &mut JoinSet<()>,
        background: &mut JoinSet<()>,
    ) -> Result<Vec<u64>, LabError> {
        let mut seeds = Vec::new();
        for (number, plan) in plans.iter().enumerate() {
            let tasks = if plan.is_background {
                &mut *background
            } else {
                &mut *measured
            };
            let role = match number {
                0 => "client".to_owned(),
                number => format!("client{number}"),
            };
            for client in self.share.clients(plan.clients) {
                if number == 0 {
                    seeds.push(self.seed_of(step, plan, &role, client));
                }
                let seat = RoleClient {
                    role: &role,
                    client,
                };
                self.spawn(step, plan, seat, control, limits, tasks).await?;
            }
        }
        Ok(seeds)
    }

    async fn spawn(
        &self,
        step: &Step,
        plan: &RolePlan<'_>,
        RoleClient { role, client }: RoleClient<'_>,
        control: &Arc<Control>,
        limits: Limits,
        tasks: &mut JoinSet<()>,
    ) -> Result<(), LabError> {
        let random = seed::from(self.seed_of(step, plan, role, client));
        let synced = match plan.role.sync_every {
            Some(every) => Some((every, self.target.session(true).await?)),
            None => None,
        };
        let arrivals = plan.role.arrivals.clone().unwrap_or_default();
        let seed = seed::of(self.seed, &step.name, &format!("{role}-arrivals"), client);
        let share = Share::new(client, plan.clients);
        let schedule = plan.rate.map(|rate| {
            let calls = rate / f64::from(plan.batch);
            Schedule::of(&arrivals, calls, share, seed)
        });
        let client = Client {
            control: control.clone(),
            counters: plan.counters.clone(),
            number: client as usize,
            session: self.target.session(plan.role.sync).await?,
            synced,
            work: ClientWork::new(
                plan.role.clone(),
                plan.quota,
                self.dataset.clone(),
                random,
                share,
                plan.misses_allowed,
            ),
            limits,
            schedule,
            window: plan.role.between.and_then(|share| window_of(share, limits)),
        };
        if <T::Session as Session>::BLOCKING {
            let runtime = tokio::runtime::Handle::current();
            tasks.spawn_blocking(move || {
                // This name distinguishes the reads of clients from those of the engine's own
                // threads.
                let _ = std::fs::write("/proc/thread-self/comm", CLIENT_THREAD);
                runtime.block_on(client.run());
            });
        } else {
            tasks.spawn(client.run());
        }
        Ok(())
    }

    /// The stored sizes of the target, and its statistics.
    async fn sizes(&self, step: &Step) -> (Sizes, serde_json::Value) {
        let mut sizes = self.target.sizes().await;
        let statistics = self.target.statistics().await;
        if step.work.operation == Operation::FillRandom {
            // Such a step needs the exact number of distinct keys; the statistics of engines lack
            // or only estimate it.
            sizes.documents = self.target.count().await.ok().or(sizes.documents);
        }
        (sizes, statistics)
    }

    fn group_by_operation(&self, totals: &Totals) -> BTreeMap<String, LatencySummary> {
        let all = totals.by_operation.iter();
        all.map(|(operation, latency)| {
            let name = self.workload.operation_name(*operation);
            (name, latency_summary(latency))
        })
        .collect()
    }

    fn outcomes(&self, totals: &Totals) -> BTreeMap<String, CallCounts> {
        let all = totals.outcomes.iter();
        all.map(|(operation, counts)| (self.workload.operation_name(*operation), *counts))
            .collect()
    }

    pub(super) async fn conclude_step(
        &self,
        step: &Step,
        (sampled_roles, folder, instruments): SamplerResult,
        mut end: StepInputs<'_, '_>,
    ) -> Result<(StepEnd, RunFolder, Instruments), LabError> {
        let stopped_because = end.control.reason();
        // Before the target is asked: some engines read all their data to answer.
        let details = instruments.details();
        let (mut sizes, mut statistics) = match stopped_because {
            None => self.sizes(step).await,
            Some(_) => Default::default(),
        };
        let debt_bytes = self.target.debt_bytes(&statistics);
        if !step.measured {
            statistics = serde_json::Value::Null;
        }
        details.fill_sizes(&mut sizes);
        let plans = end.plans.iter().zip(std::mem::take(&mut end.totals));
        let mut sampled_roles = sampled_roles.into_iter().zip(plans);
        let Some((sampled_role, (_, totals))) = sampled_roles.next() else {
            return Err(no_work_error());
        };
        let mut effect = totals.effect;
        let (rows, stood_still) = (sampled_role.rows, sampled_role.stood_still);
        let mut result = sampled_role.recorder.finish(
            &folder,
            &totals.client_summaries,
            totals.errors.clone(),
            sizes,
        )?;
        let more = &mut result.more;
        more.rows_returned = rows;
        more.rows_per_second = if result.seconds > 0.0 {
            rows as f64 / result.seconds
        } else {
            0.0
        };
        more.service = totals.service.as_ref().map(latency_summary);
        more.lateness = totals.lateness.as_ref().map(latency_summary);
        (more.unsent_calls, more.unsent_by_lab) = (totals.unsent, totals.unsent_by_lab);
        (more.refused_calls, more.given_up) = (totals.refused, totals.given_up);
        more.by_operation = self.group_by_operation(&totals);
        more.outcomes = self.outcomes(&totals);
        more.disturbed_calls = totals.disturbed;
        more.lab_stood_still_seconds = stood_still.as_secs_f64();
        more.seeds = end.seeds;
        more.lab_cpu_us_per_op = end.lab_cpu_us_per_op;
        more.statistics = statistics;
        more.debt_bytes = debt_bytes;
        more.remark = end.interventions;
        more.generators = end.generators;
        for (sampled_role, (plan, totals)) in sampled_roles {
            effect.add(&totals.effect);
            let recorder = sampled_role.recorder;
            let outcomes = self.outcomes(&totals);
            let mut role = recorder.finish_background(totals.errors, plan.rate);
            role.outcomes = outcomes;
            (role.refused_calls, role.given_up) = (totals.refused, totals.given_up);
            more.background.push(role);
        }
        let promised: Vec<bool> = more
            .background
            .iter()
            .filter_map(|role| role.sla_met)
            .collect();
        more.sla_met = (!promised.is_empty()).then(|| promised.iter().all(|met| *met));
        let measured = result.ops as f64 / (result.ops + result.warmup_ops).max(1) as f64;
        amplification(&mut result, (effect.bytes as f64 * measured) as u64);
        details.fill_step(&mut result);
        let checks = end.watched.add_to(end.afterwards, &mut result, &mut effect);
        let stopped_because = stopped_because.or_else(|| warmup_end_reason(&result));
        let end = StepEnd {
            result,
            effect,
            stopped_because,
            checks,
        };
        Ok((end, folder, instruments))
    }
}

/// Joins a thread, which ends shortly after its signal; a panic in it is a bug and must be
/// reported.
fn join_thread<R>(thread: std::thread::JoinHandle<R>) -> R {
    let joined = thread.join();
    joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The reason why a step without measured operations has no result: its work ended in the warm-up.
fn warmup_end_reason(step: &StepResult) -> Option<String> {
    let is_over = step.measured && step.ops == 0 && step.warmup_ops > 0;
    is_over.then(|| {
        format!(
            "step {} had finished its work when the warm-up ended, so nothing was measured; give \
             more --rows or a shorter --warmup-seconds",
            step.name
        )
    })
}

/// The period of a role that works only during a share of the measured time.
pub(super) fn window_of(share: [f64; 2], limits: Limits) -> Option<(Duration, Duration)> {
    let length = limits.end?.saturating_sub(limits.warmup);
    let at = |share: f64| limits.warmup + length.mul_f64(share);
    Some((at(share[0]), at(share[1])))
}

/// The data that the end of a step needs in addition to its samples.
pub(super) struct StepInputs<'a, 'b> {
    pub(super) watched: WatcherResults,
    pub(super) afterwards: FinalChecks,
    pub(super) plans: &'a [RolePlan<'b>],
    /// The totals of each plan.
    pub(super) totals: Vec<Totals>,
    pub(super) generators: Vec<GeneratorResult>,
    pub(super) control: &'a Control,
    pub(super) seeds: Vec<u64>,
    pub(super) lab_cpu_us_per_op: Option<f64>,
    pub(super) interventions: String,
}

/// The error for a step without a role, which is a bug of the lab.
pub(super) fn no_work_error() -> LabError {
    LabError::Machine(std::io::Error::other("a step without work"))
}

/// Prints that a step has begun; a terminal has the progress bar instead.
pub(super) fn announce(step: &Step) {
    if !std::io::stderr().is_terminal() {
        note_line!("{}", step.name);
    }
}

/// Whether deletes without their own rate follow the inserts.
pub(super) fn is_paired(step: &Step) -> bool {
    let deletes = |role: &Role| role.operation == Operation::DeleteOldest && role.rate.is_none();
    step.work.operation == Operation::Insert && step.background.iter().any(deletes)
}

/// Waits for all clients. On an interrupt or an early stop, calls under way get a short time and
/// are then abandoned. A call without a reply for longer than `call_timeout` stops the step, also
/// if it blocks a thread that cannot give up the call itself.
pub(super) async fn wait_for_clients(
    tasks: &mut JoinSet<()>,
    control: &Control,
    counters: &[Arc<RoleCounters>],
    call_timeout: Duration,
) {
    let waited = || {
        counters
            .iter()
            .map(|counters| counters.longest_wait())
            .max()
    };
    let mut poll = tokio::time::interval(Duration::from_millis(100));
    let mut stop_at = None;
    let interrupt = wait_interrupt();
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
                if waited().is_some_and(|waited| waited > call_timeout + WATCH_SLACK) {
                    control.stop(&format!(
                        "the target stopped answering: no reply within {} s",
                        call_timeout.as_secs()
                    ));
                }
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

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::counters::lock;

    #[test]
    fn a_thread_that_hangs_in_a_call_is_abandoned_and_counted() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let control = Control::new(1);
        let counters = RoleCounters::new(1, false, false, Operation::Point, false);
        let begun = Instant::now();
        {
            let mut unfinished = lock(&counters.unfinished[0]);
            unfinished.begun = Some(begun);
            unfinished.sent = Some(begun);
        }
        let call_timeout = Duration::from_millis(200);
        runtime.block_on(async {
            let mut tasks = JoinSet::new();
            tasks.spawn_blocking(|| std::thread::sleep(Duration::from_secs(3_600)));
            let all = [counters.clone()];
            wait_for_clients(&mut tasks, &control, &all, call_timeout).await;
        });
        assert!(begun.elapsed() < GRACE * 3, "{:?}", begun.elapsed());
        let reason = control.reason().unwrap();
        assert!(reason.contains("no reply within"), "{reason}");
        let limits = Limits {
            warmup: Duration::ZERO,
            end: None,
            call_timeout,
        };
        counters.account_unfinished(&limits);
        counters.account_unfinished(&limits);
        let errors = counters.totals().errors;
        assert_eq!(errors.get("no answer"), Some(&1), "{errors:?}");
        let calls: u64 = counters
            .windows
            .iter()
            .map(|window| lock(window).latency.count())
            .sum();
        assert_eq!(calls, 1);
        // The thread never ends; the process does not wait for it.
        runtime.shutdown_background();
    }
}
