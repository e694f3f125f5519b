//! One run from the command line to the report: prepare, steps, checks, result.

use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use lab_kit::environment::{self, Environment, RunClock};
use lab_kit::folder::{RESERVE, RunFolder};
use lab_kit::format;
use lab_kit::report;
use lab_kit::result::{
    RunFacts, RunResult, SCHEMA, SkippedStep, TargetFacts, VERSION, Warning, judge_calls,
};
use lab_kit::share::Share;
use lab_kit::target::{Table, Target, TargetError, TargetInfo};
use lab_kit::usage::{divide_settle_writes, space};
use lab_kit::warnings::{of_environment, of_step};
use lab_kit::work::{Dataset, Quota};
use lab_kit::workload::{
    Capability, DocumentKind, Ids, Operation, SATURATE_MAX, Settings, Step, Workload,
};

use super::arguments::RunArguments;
use super::checkpoint::{Checkpoint, ResumedRun};
use super::context::Run;
use super::ending;
use super::exclusive;
use super::guarded::{LimitedTarget, TimeLimits};
use super::state::{RunState, StepEnd};
use super::summary::{command_line, summary_line};
use super::watchers::compare_expiry;
use crate::agent::AgentProcess;
use crate::credentials::hide_password;
use crate::errors::LabError;
use crate::limit::Limit;
use crate::sampler::Instruments;

/// The inputs of a run.
pub(crate) struct RunPlan<'a> {
    /// The command line.
    pub(crate) arguments: &'a RunArguments,
    /// The workload.
    pub(crate) workload: Workload,
    /// The settings of the run.
    pub(crate) settings: Settings,
    /// The interrupted run that is resumed.
    pub(crate) resumed: Option<ResumedRun>,
    /// Another run whose data this one reads.
    pub(crate) loaded: Option<ResumedRun>,
}

impl RunPlan<'_> {
    /// The tables of the workload; `embeds`: for a target that takes records inside records.
    pub(crate) fn tables(&self, embeds: bool) -> Vec<Table> {
        let data = &self.workload.data;
        if let Some(program) = data.documents.program() {
            let tables = program.tables(embeds).into_iter();
            let tables = tables.map(|records| Table {
                name: records.name.to_owned(),
                kind: DocumentKind::Records(records),
                target_makes_ids: false,
                ids_in_no_order: false,
                payload: 0,
                capped_bytes: None,
            });
            return tables.collect();
        }
        let numbered = self.settings.tables > 1;
        (1..=self.settings.tables)
            .map(|number| Table {
                name: if numbered {
                    format!("{}{number}", data.collection)
                } else {
                    data.collection.clone()
                },
                kind: data.documents,
                target_makes_ids: data.ids == Ids::Target,
                ids_in_no_order: data.ids == Ids::Random,
                payload: self.settings.payload,
                capped_bytes: data.capped_bytes,
            })
            .collect()
    }

    /// The largest number of clients of a step.
    pub(crate) fn clients_max(&self) -> u32 {
        let of = |step: &Step| {
            let roles = step.background.iter().chain([&step.work]);
            roles
                .map(|role| match role.times_saturation {
                    Some(times) => times * SATURATE_MAX,
                    None => role.clients.unwrap_or(self.settings.clients),
                })
                .sum::<u32>()
        };
        self.workload.steps.iter().map(of).max().unwrap_or(1)
    }

    /// The folder of the run, new or of the interrupted run, and what identifies it.
    fn folder(&self) -> Result<(RunFolder, RunFacts, RunClock), LabError> {
        let before = self.resumed.as_ref().map(|one| &one.checkpoint.run);
        let before = before.map(|run| run.resumed_at.last().unwrap_or(&run.started_at));
        let clock = RunClock::start(before.map(String::as_str));
        let started = clock.now();
        if let Some(resumed) = &self.resumed {
            let steps = resumed.checkpoint.steps.iter();
            let done: Vec<&str> = steps.map(|step| step.name.as_str()).collect();
            let folder = RunFolder::reopen(&resumed.folder, &done)?;
            let mut about = resumed.checkpoint.run.clone();
            about.resumed_at.push(started);
            return Ok((folder, about, clock));
        }
        let id = environment::run_id(&started, &self.workload.name, &self.settings.preset);
        let folder = RunFolder::create(&self.arguments.out, &id)?;
        // A workload file may change later, so the run's folder keeps a copy.
        if self.arguments.workload.ends_with(".toml") {
            std::fs::copy(
                &self.arguments.workload,
                folder.path().join("workload.toml"),
            )?;
        }
        let about = RunFacts {
            id,
            started_at: started,
            labels: self.arguments.labels.iter().cloned().collect(),
            load_agents: self.arguments.load_agent.clone(),
            ..RunFacts::default()
        };
        Ok((folder, about, clock))
    }

    /// The tables before the first step.
    fn dataset(&self, seed: u64) -> Arc<Dataset> {
        let data = &self.workload.data;
        let dataset = Dataset::new(data.documents, data.ids, self.settings.clone());
        // The lab cannot follow changes made by statements or by other processes.
        if !self.workload.statements.is_empty() || !self.arguments.load_agent.is_empty() {
            dataset.versions.switch_off();
        }
        Arc::new(dataset.with_program(seed))
    }

    fn seed(&self) -> u64 {
        let new = || self.settings.seed_mode.base(clock_us());
        match &self.resumed {
            Some(resumed) => resumed.checkpoint.seed,
            None => self.arguments.seed.unwrap_or_else(new),
        }
    }

    /// Runs the plan against the target that `open` opens.
    pub(crate) async fn run<T: Target>(
        self,
        driver: &'static str,
        open: impl AsyncFnOnce(&Self) -> Result<T, LabError>,
    ) -> Result<(), LabError> {
        let arguments = self.arguments;
        let seed = self.seed();
        // The folder comes first, because a run whose results cannot be stored should not begin.
        crate::pulse::start();
        let _in_use = exclusive::take(arguments)?;
        let (folder, about, clock) = self.folder()?;
        let is_new = self.resumed.is_none();
        let failed = |_: &LabError| {
            if is_new {
                forget(folder.path());
            }
        };
        let limits = TimeLimits {
            short: arguments.call_timeout(),
            long: arguments.call_timeout().max(arguments.settle_time()),
        };
        let target = tokio::time::timeout(limits.short, open(&self))
            .await
            .unwrap_or_else(|_| Err(unreachable(arguments)))
            .inspect_err(failed)?;
        let target = Arc::new(LimitedTarget::new(target, limits));
        let dataset = self.dataset(seed);
        let (workload, settings) = (self.workload, self.settings);
        let run = Run {
            arguments,
            workload,
            settings,
            seed,
            target,
            dataset,
            driver,
            share: Share::ALL,
            fleet: None.into(),
            clock,
        };
        run.can_begin().inspect_err(failed)?;
        tokio::task::block_in_place(|| run.open_fleet()).inspect_err(failed)?;
        let agent = arguments.agent().inspect_err(failed)?;
        let info = run.target.inspect().await;
        let limit = Limit::apply(
            run.settings.memory_mb,
            arguments.memory_limit_by,
            info.pid,
            info.data.as_deref(),
        )
        .inspect_err(failed)?;
        let progress = match (self.resumed, self.loaded) {
            (Some(resumed), _) => run.take_up(resumed).await?,
            (None, Some(loaded)) => {
                let from = loaded.folder.clone();
                let taken = run.take_up(loaded).await;
                taken
                    .map_err(|error| LabError::Gone {
                        folder: from,
                        reason: error.to_string(),
                    })
                    .inspect_err(failed)?
            }
            (None, None) => {
                run.target
                    .prepare()
                    .await
                    .map_err(LabError::from)
                    .inspect_err(failed)?;
                RunState::default()
            }
        };
        run.announce(&info);
        run.measure(folder, info, limit, agent, about, progress)
            .await
    }
}

/// The measurements of a run so far.
struct RunProgress {
    cpus: usize,
    warnings: Vec<Warning>,
    facts: TargetFacts,
    done: RunState,
    stopped_because: Option<String>,
}

impl<T: Target> Run<'_, T> {
    /// Refuses a run if the target supports none of its measured steps.
    fn can_begin(&self) -> Result<(), LabError> {
        if self.workload.data.capped_bytes.is_some()
            && self.target.unsupported().contains(&Capability::Capped)
        {
            return Err(LabError::Nothing {
                lacks: Capability::Capped.name().to_owned(),
            });
        }
        if self.settings.databases > 1 && !self.target.takes_documents() {
            let lacks = "a second database".to_owned();
            return Err(LabError::Nothing { lacks });
        }
        let named = super::shared::hosts(&self.arguments.target).count();
        if let Some(wanted) = self
            .workload
            .data
            .servers
            .filter(|all| named < *all as usize)
        {
            let lacks = format!("an address of {wanted} servers (--target names {named})");
            return Err(LabError::Nothing { lacks });
        }
        let measured = || self.workload.steps.iter().filter(|step| step.measured);
        match measured().find_map(|step| self.skip_reason(step)) {
            Some(lacks) if measured().all(|step| self.skip_reason(step).is_some()) => {
                Err(LabError::Nothing { lacks })
            }
            _ => Ok(()),
        }
    }

    fn announce(&self, info: &TargetInfo) {
        let Settings {
            preset,
            rows,
            clients,
            batch,
            indexes,
            ..
        } = &self.settings;
        note_line!(
            "{} ({preset}): {} rows, {clients} clients, batch {batch}, {indexes} indexes, seed {}, \
                against {}",
            self.workload.name,
            format::count(*rows),
            self.seed,
            info.facts.name()
        );
        let reason = info.facts.not_watched_because.as_ref();
        if let Some(reason) = reason.filter(|_| self.arguments.agent.is_none()) {
            note_line!("the server process is not observed: {reason}");
        }
    }

    /// Runs the steps, checks the work and writes the result.
    async fn measure(
        &self,
        folder: RunFolder,
        info: TargetInfo,
        limit: Option<Limit>,
        agent: Option<AgentProcess>,
        about: RunFacts,
        done: RunState,
    ) -> Result<(), LabError> {
        let data = info.data.as_deref().unwrap_or(&self.arguments.out);
        let environment = Environment::capture(data, self.driver);
        let mut instruments = Instruments::open(info.pid, info.data.clone())?;
        let mut facts = info.facts;
        if let Some(process) = agent {
            facts.watched = Some(process.name());
            (facts.pid, facts.not_watched_because) = (None, None);
            instruments.watch_by_agent(process)?;
        }
        facts.device = instruments.device().map(str::to_owned);
        let mut progress = RunProgress {
            cpus: environment.cpus,
            warnings: of_environment(&environment),
            facts,
            done,
            stopped_because: None,
        };
        let (folder, instruments) = self
            .run_steps(&about, &mut progress, folder, instruments)
            .await?;
        let RunProgress {
            mut warnings,
            facts,
            done,
            stopped_because,
            ..
        } = progress;
        if let Some(lost) = &instruments.server_lost {
            warnings.push(Warning {
                code: "server-not-watched".to_owned(),
                text: format!("The server was not observed until the end: {lost}."),
            });
        }
        let memory_limit = limit.as_ref().map(Limit::describe);
        let is_killed = limit.as_ref().and_then(Limit::has_killed) == Some(true);
        let killed = is_killed.then(|| self.settings.memory_mb.unwrap_or(0));
        let stopped_because = ending::end_reason(stopped_because, killed);
        // The checks may need more memory than the run's limit.
        drop(limit);
        let mut checks = done
            .expected_state
            .check(self, stopped_because.is_some())
            .await;
        checks.push(judge_calls(&done.steps));
        let result = RunResult {
            schema: SCHEMA.to_owned(),
            version: VERSION,
            run: self.run_facts(about, &stopped_because),
            target: facts,
            settings: self.settings.clone(),
            changed_from_paper: self.workload.list_paper_changes(&self.settings),
            environment,
            warnings,
            steps: done.steps,
            checks,
            skipped: done.skipped,
            memory_limit,
        };
        folder.finish(&result, report::page)?;
        if result.run.complete {
            Checkpoint::remove(folder.path());
            if self.arguments.clean {
                self.target.drop_tables().await?;
            }
        }
        self.conclude(&result, folder.path())
    }

    /// Runs the remaining steps, until the last one or one that ends early.
    async fn run_steps(
        &self,
        about: &RunFacts,
        progress: &mut RunProgress,
        mut folder: RunFolder,
        mut instruments: Instruments,
    ) -> Result<(RunFolder, Instruments), LabError> {
        let before = progress.done.steps.len() + progress.done.skipped.len();
        for step in self.planned_steps().iter().skip(before) {
            let step = &self.with_saturation(step, &progress.done.steps);
            let is_saturated = self.is_saturated(step, &progress.done.steps);
            if let Some(because) = self.skip_reason(step).or(is_saturated) {
                note_line!("{}: left out, {because}", step.name);
                progress.done.skipped.push(SkippedStep {
                    step: step.name.clone(),
                    because,
                });
                continue;
            }
            if let Err(error) = self.write_checkpoint(about, &progress.done, step, folder.path()) {
                progress.stopped_because = Some(error.to_string());
                break;
            }
            progress.done.expected_state.begin(self, step).await;
            let ended = if step.work.operation.is_action() {
                self.run_action(step, folder, instruments).await?
            } else if self.is_elsewhere(step) {
                self.run_step_elsewhere(step, folder, instruments).await?
            } else {
                self.run_step(step, folder, instruments).await?
            };
            let (end, folder_back, instruments_back) = ended;
            (folder, instruments) = (folder_back, instruments_back);
            progress.facts.pid = instruments.server_pid().or(progress.facts.pid);
            self.take_step(step, end, progress);
            if progress.stopped_because.is_some() {
                break;
            }
        }
        Ok((folder, instruments))
    }

    fn write_checkpoint(
        &self,
        about: &RunFacts,
        done: &RunState,
        step: &Step,
        folder: &Path,
    ) -> Result<(), LabError> {
        let checkpoint = Checkpoint::of(self, about, done, Some(&step.name));
        checkpoint.write(folder)?;
        if self.arguments.keep_state
            && step.measured
            && !done.steps.iter().any(|step| step.measured)
        {
            checkpoint.keep(folder)?;
        }
        Ok(())
    }

    /// Stores the result of a step, and updates the tables and the results of earlier steps.
    fn take_step(&self, step: &Step, mut end: StepEnd, progress: &mut RunProgress) {
        let is_whole = end.stopped_because.is_none();
        self.keep(step, &end.effect, is_whole);
        progress.done.expected_state.take(step, &end.effect);
        let (limits, quota, _) = self.limits(step);
        if let (Operation::Insert, true, None, Quota::Rows(rows)) =
            (step.work.operation, is_whole, limits.end, quota)
        {
            let state = &mut progress.done.expected_state;
            state.check_load(step, rows, &end.effect);
        }
        if is_whole {
            let rows = u64::try_from(progress.done.expected_state.rows()).unwrap_or(0);
            let row_bytes = self.workload.row_bytes(self.settings.payload);
            space(&mut end.result.sizes, rows, row_bytes);
        }
        let is_inside = progress.facts.pid == Some(std::process::id());
        self.add_overload(step, &mut end.result, &progress.done.steps);
        compare_expiry(&mut end.result, &progress.done.steps);
        progress.done.expected_state.add_checks(end.checks);
        let warnings = of_step(&end.result, progress.cpus, is_inside);
        progress.warnings.extend(warnings);
        print_line!("{}", summary_line(&end.result));
        if let Some(overload) = &end.result.more.overload {
            print_line!(
                "{}",
                report::overload_line(overload, self.settings.memory_mb)
            );
        }
        for line in report::watch_lines(&end.result) {
            print_line!("{}: {line}", end.result.name);
        }
        progress.stopped_because = end.stopped_because;
        let is_settled = !end.result.more.remark.starts_with("not at rest");
        progress.done.steps.push(end.result);
        if step.work.operation == Operation::Settle {
            divide_settle_writes(&mut progress.done.steps, is_settled && is_whole);
        }
    }

    /// Updates the state of the tables after a step.
    fn keep(&self, step: &Step, effect: &lab_kit::work::Effect, is_whole: bool) {
        let operation = step.work.operation;
        if operation == Operation::Insert && is_whole {
            let quota = self.quota(step);
            self.dataset.record_stored(quota);
            // The step ended by time: row numbers that were not stored are nevertheless used up.
            if effect.inserted < quota {
                self.dataset
                    .sparse
                    .store(true, std::sync::atomic::Ordering::Relaxed);
            }
        } else if operation == Operation::FillRandom {
            self.dataset.stored_at_random();
        }
    }

    fn run_facts(&self, about: RunFacts, stopped_because: &Option<String>) -> RunFacts {
        RunFacts {
            workload: self.workload.name.clone(),
            title: self.workload.title.clone(),
            about: self.workload.about.trim().to_owned(),
            source: self.workload.source.trim().to_owned(),
            command_line: command_line(),
            lab_version: env!("CARGO_PKG_VERSION").to_owned(),
            seed: self.seed,
            finished_at: self.clock.now(),
            complete: stopped_because.is_none(),
            stopped_because: stopped_because.clone(),
            ..about
        }
    }

    /// Prints the results of the report, and decides the exit status.
    fn conclude(&self, result: &RunResult, folder: &Path) -> Result<(), LabError> {
        for (first, more) in report::group_by_code(&result.warnings) {
            print_line!("warning: {}", first.text);
            if !more.is_empty() {
                print_line!("warning: {} more like it", more.len());
            }
        }
        for skipped in &result.skipped {
            print_line!("left out: {} ({})", skipped.step, skipped.because);
        }
        if let Some(reason) = &result.run.stopped_because {
            return Err(LabError::Partial {
                reason: reason.clone(),
                folder: folder.to_owned(),
            });
        }
        if let Some(check) = result
            .checks
            .iter()
            .find(|check| check.passed == Some(false))
        {
            let what = format!(
                "{}: expected {}, found {}",
                check.name, check.expected, check.found
            );
            return Err(LabError::Wrong {
                what,
                folder: folder.to_owned(),
            });
        }
        for check in &result.checks {
            let verdict = if check.passed.is_some() {
                "right"
            } else {
                "not checked"
            };
            print_line!(
                "{verdict}: {} ({}) {}",
                check.name,
                check.found,
                check.remark
            );
        }
        print_line!("{}", folder.join("report.html").display());
        Ok(())
    }
}

fn unreachable(arguments: &RunArguments) -> LabError {
    TargetError::Unreachable {
        address: hide_password(&arguments.target),
        reason: format!("no answer within {} s", arguments.call_timeout().as_secs()),
    }
    .into()
}

/// Removes the folder of a run that never began.
fn forget(folder: &Path) {
    for name in ["intervals.csv", "workload.toml", RESERVE] {
        let _ = std::fs::remove_file(folder.join(name));
    }
    let _ = std::fs::remove_dir(folder);
}

fn clock_us() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(0))
}
