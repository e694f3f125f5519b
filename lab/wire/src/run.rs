//! One run from the command line to the report: prepare, steps, checks, result.

use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use lab_kit::environment::{self, Environment};
use lab_kit::folder::RunFolder;
use lab_kit::format;
use lab_kit::result::{RunFacts, RunResult, SCHEMA, Skipped, StepResult, VERSION};
use lab_kit::target::{Table, Target, Watch};
use lab_kit::use_of::{settled, space};
use lab_kit::warnings::{Warning, of_step};
use lab_kit::work::Shape;
use lab_kit::workload::{Ids, Index, Need, Part, Settings, Step, Workload};

use crate::address::without_password;
use crate::checkpoint::{Checkpoint, Resumed};
use crate::checks::Ledger;
use crate::cli::RunArguments;
use crate::errors::LabError;
use crate::limit::Limit;
use crate::sampler::Instruments;

/// What stays the same during a run.
pub(crate) struct Run<'a, T> {
    pub(crate) arguments: &'a RunArguments,
    pub(crate) workload: Workload,
    pub(crate) settings: Settings,
    pub(crate) seed: u64,
    pub(crate) target: T,
    pub(crate) shape: Arc<Shape>,
    /// What speaks to the target, for the result.
    pub(crate) driver: &'static str,
}

/// What a run starts from.
pub(crate) struct Plan<'a> {
    /// The command line.
    pub(crate) arguments: &'a RunArguments,
    /// The workload.
    pub(crate) workload: Workload,
    /// How large and how many.
    pub(crate) settings: Settings,
    /// An interrupted run that goes on.
    pub(crate) resumed: Option<Resumed>,
    /// Another run whose data this one reads.
    pub(crate) loaded: Option<Resumed>,
}

impl Plan<'_> {
    /// The tables of the workload.
    pub(crate) fn tables(&self) -> Vec<Table> {
        let data = &self.workload.data;
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

    /// Clients of the step that has most.
    pub(crate) fn clients_max(&self) -> u32 {
        let of = |step: &Step| {
            let roles = step.beside.iter().chain([&step.work]);
            roles
                .map(|role| role.clients.unwrap_or(self.settings.clients))
                .sum::<u32>()
        };
        self.workload.steps.iter().map(of).max().unwrap_or(1)
    }

    /// Runs it against the target that `open` opens.
    pub(crate) async fn run<T: Target>(
        self,
        driver: &'static str,
        open: impl AsyncFnOnce(&Self) -> Result<T, LabError>,
    ) -> Result<(), LabError> {
        let arguments = self.arguments;
        let seed = match &self.resumed {
            Some(resumed) => resumed.checkpoint.seed,
            None => arguments
                .seed
                .unwrap_or_else(|| self.settings.seed_mode.base(clock_us())),
        };
        let started = environment::now();
        // The folder comes first: a run whose results cannot be kept should not begin.
        let (folder, about) = match &self.resumed {
            Some(resumed) => {
                let done: Vec<&str> = resumed
                    .checkpoint
                    .steps
                    .iter()
                    .map(|step| step.name.as_str())
                    .collect();
                let folder = RunFolder::reopen(&resumed.folder, &done)?;
                let mut about = resumed.checkpoint.run.clone();
                about.resumed_at.push(started);
                (folder, about)
            }
            None => {
                let id = environment::run_id(&started, &self.workload.name, &self.settings.preset);
                let folder = RunFolder::create(&arguments.out, &id)?;
                (
                    folder,
                    RunFacts {
                        id,
                        started_at: started,
                        labels: arguments.labels.iter().cloned().collect(),
                        ..RunFacts::default()
                    },
                )
            }
        };
        let is_new = self.resumed.is_none();
        let failed = |_: &LabError| {
            if is_new {
                forget(folder.path());
            }
        };
        let target = open(&self).await.inspect_err(failed)?;
        let data = &self.workload.data;
        let shape = Arc::new(Shape::new(data.documents, data.ids, self.settings.clone()));
        let (workload, settings) = (self.workload, self.settings);
        let run = Run {
            arguments,
            workload,
            settings,
            seed,
            target,
            shape,
            driver,
        };
        run.can_begin().inspect_err(failed)?;
        let watch = run.target.watch().await;
        let limit = Limit::apply(
            run.settings.memory_mb,
            arguments.memory_limit_by,
            watch.pid,
            watch.data.as_deref(),
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
                Done::default()
            }
        };
        run.announce(&watch);
        run.measure(folder, (watch, limit), about, progress).await
    }
}

/// What is done so far.
#[derive(Default)]
pub(crate) struct Done {
    pub(crate) steps: Vec<StepResult>,
    pub(crate) skipped: Vec<Skipped>,
    pub(crate) ledger: Ledger,
}

impl<T: Target> Run<'_, T> {
    /// The secondary indexes of the settings.
    pub(crate) fn indexes(&self) -> Vec<Index> {
        let all = &self.workload.data.indexes;
        all.iter()
            .take(self.settings.indexes as usize)
            .cloned()
            .collect()
    }

    /// Refuses a run of which nothing measured would be left.
    fn can_begin(&self) -> Result<(), LabError> {
        if self.workload.data.capped_bytes.is_some() && self.target.lacks().contains(&Need::Capped)
        {
            return Err(LabError::Nothing {
                lacks: Need::Capped.name().to_owned(),
            });
        }
        let measured = || self.workload.steps.iter().filter(|step| step.measured);
        match measured().find_map(|step| self.lacks(step)) {
            Some(lacks) if measured().all(|step| self.lacks(step).is_some()) => {
                Err(LabError::Nothing { lacks })
            }
            _ => Ok(()),
        }
    }

    /// Why a step cannot be done, if so.
    fn lacks(&self, step: &Step) -> Option<String> {
        let roles = || step.beside.iter().chain([&step.work]);
        let missing = roles()
            .flat_map(|role| role.needs())
            .find(|need| self.target.lacks().contains(need));
        if let Some(need) = missing {
            return Some(format!("the target has no {}", need.name()));
        }
        if step.work.part == Part::Restart {
            let because = match (&self.arguments.restart_command, self.target.can_restart()) {
                (_, false) => "the target runs in the lab's process",
                (None, true) => "it needs --restart-command",
                (Some(_), true) => return None,
            };
            return Some(because.to_owned());
        }
        let reads_index = |part: Part| part == Part::IndexRange;
        let wants = roles().any(|role| {
            reads_index(role.part) || role.mix.iter().any(|(part, _)| reads_index(*part))
        });
        (wants && self.settings.indexes == 0).then(|| "it needs --indexes 1 or more".to_owned())
    }

    fn announce(&self, watch: &Watch) {
        let Settings {
            preset,
            rows,
            clients,
            batch,
            indexes,
            ..
        } = &self.settings;
        eprintln!(
            "{} ({preset}): {} rows, {clients} clients, batch {batch}, {indexes} indexes, seed {}, \
                against {}",
            self.workload.name,
            format::count(*rows),
            self.seed,
            watch.stored.name()
        );
        if let Some(reason) = &watch.stored.not_watched_because {
            eprintln!("server process not watched: {reason}");
        }
    }

    /// Runs the steps, checks the work and writes the result.
    async fn measure(
        &self,
        mut folder: RunFolder,
        (watch, limit): (Watch, Option<Limit>),
        about: RunFacts,
        mut done: Done,
    ) -> Result<(), LabError> {
        let data = watch.data.as_deref().unwrap_or(&self.arguments.out);
        let environment = Environment::capture(data, self.driver);
        let mut warnings = environment.warnings();
        let mut instruments = Instruments::open(watch.pid, watch.data.clone())?;
        let mut stored = watch.stored;
        stored.device = instruments.device().map(str::to_owned);
        let mut stopped_because = None;
        let before = done.steps.len() + done.skipped.len();
        for step in self.planned().iter().skip(before) {
            if let Some(because) = self.lacks(step) {
                eprintln!("{}: left out, {because}", step.name);
                done.skipped.push(Skipped {
                    step: step.name.clone(),
                    because,
                });
                continue;
            }
            let checkpoint = Checkpoint::of(self, &about, &done, Some(&step.name));
            checkpoint.write(folder.path())?;
            if self.arguments.keep_state
                && step.measured
                && !done.steps.iter().any(|step| step.measured)
            {
                checkpoint.keep(folder.path())?;
            }
            done.ledger.begin(self, step).await;
            let ended = if step.work.part.is_action() {
                self.run_action(step, folder, instruments).await?
            } else {
                self.run_step(step, folder, instruments).await?
            };
            let (mut end, folder_back, instruments_back) = ended;
            stored.pid = instruments_back.server_pid().or(stored.pid);
            (folder, instruments) = (folder_back, instruments_back);
            self.keep(step, &end.effect, end.stopped_because.is_none());
            done.ledger.take(step, &end.effect);
            if end.stopped_because.is_none() {
                let rows = u64::try_from(done.ledger.rows()).unwrap_or(0);
                let row_bytes = self.workload.row_bytes(self.settings.payload);
                space(&mut end.result.sizes, rows, row_bytes);
            }
            let is_inside = stored.pid == Some(std::process::id());
            warnings.extend(of_step(&end.result, environment.cpus, is_inside));
            print_step(&end.result);
            stopped_because = end.stopped_because;
            let came_to_rest = !end.result.more.remark.starts_with("not at rest");
            done.steps.push(end.result);
            if step.work.part == Part::Settle {
                settled(&mut done.steps, came_to_rest && stopped_because.is_none());
            }
            if stopped_because.is_some() {
                break;
            }
        }
        if let Some(lost) = &instruments.server_lost {
            warnings.push(Warning {
                code: "server-not-watched".to_owned(),
                text: format!("The server was not watched to the end: {lost}."),
            });
        }
        let memory_limit = limit.as_ref().map(Limit::describe);
        // The check may need memory that the run was not to have.
        drop(limit);
        let checks = done.ledger.check(self, stopped_because.is_some()).await;
        let run = self.run_facts(about, &stopped_because);
        let result = RunResult {
            schema: SCHEMA.to_owned(),
            version: VERSION,
            run,
            target: stored,
            settings: self.settings.clone(),
            changed_from_paper: self.workload.changed_from_paper(&self.settings),
            environment,
            warnings,
            steps: done.steps,
            checks,
            skipped: done.skipped,
            memory_limit,
        };
        folder.finish(&result)?;
        if result.run.complete {
            Checkpoint::remove(folder.path());
            if self.arguments.clean {
                self.target.drop_tables().await?;
            }
        }
        self.conclude(&result, folder.path())
    }

    /// The steps in order; making no indexes is no step.
    pub(crate) fn planned(&self) -> Vec<Step> {
        let mut out = self.workload.steps(self.settings.rounds);
        out.retain(|step| step.work.part != Part::CreateIndexes || self.settings.indexes > 0);
        out
    }

    /// After a step the tables' state follows what was done.
    fn keep(&self, step: &Step, effect: &lab_kit::work::Effect, is_whole: bool) {
        let part = step.work.part;
        if part == Part::Insert && is_whole {
            let quota = self.quota(step);
            self.shape.stored(quota);
            // Time ended it: the numbers of rows that were not stored are given away all the same.
            if effect.inserted < quota {
                self.shape
                    .sparse
                    .store(true, std::sync::atomic::Ordering::Relaxed);
            }
        } else if part == Part::FillRandom {
            self.shape.stored_at_random();
        }
    }

    fn quota(&self, step: &Step) -> u64 {
        (self.settings.rows as f64 * step.rows.unwrap_or(1.0)).round() as u64
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
            finished_at: environment::now(),
            complete: stopped_because.is_none(),
            stopped_because: stopped_because.clone(),
            ..about
        }
    }

    /// Says on the terminal what the report shows, and decides how the program ends.
    fn conclude(&self, result: &RunResult, folder: &Path) -> Result<(), LabError> {
        for warning in &result.warnings {
            println!("warning: {}", warning.text);
        }
        for skipped in &result.skipped {
            println!("left out: {} ({})", skipped.step, skipped.because);
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
            println!(
                "{verdict}: {} ({}) {}",
                check.name, check.found, check.remark
            );
        }
        println!("{}", folder.join("report.html").display());
        Ok(())
    }
}

/// The line of a step that ended, with what the lab itself cost.
fn print_step(step: &StepResult) {
    println!("{}", summary_line(step));
}

pub(crate) fn summary_line(step: &StepResult) -> String {
    let one = step.part.unit_one();
    let per = |value: Option<f64>, unit: &str| {
        value.map_or_else(String::new, |value| {
            format!(", {} {unit} per {one}", format::number(value))
        })
    };
    let server = step.server.as_ref();
    let percentile = |wanted: f64| {
        let found = step
            .latency
            .percentiles_us
            .iter()
            .find(|(percentile, _)| *percentile == wanted);
        found.map_or_else(|| "–".to_owned(), |(_, us)| format::latency_us(*us))
    };
    format!(
        "{}: {} {}/s over {}, variation {} %, p50 {}, p99 {}, max {}{}{}",
        step.name,
        format::number(step.rate.average),
        step.unit,
        format::seconds(step.seconds),
        format::number(step.rate.coefficient_of_variation.unwrap_or(0.0) * 100.0),
        percentile(50.0),
        percentile(99.0),
        format::latency_us(step.latency.max_us),
        per(
            server.and_then(|server| server.cpu_us_per_op),
            "µs server CPU"
        ),
        per(step.client.cpu_us_per_op, "µs lab CPU"),
    ) + &notes(step)
}

/// What a line says of a step beyond its rate.
fn notes(step: &StepResult) -> String {
    let more = &step.more;
    let mut out = String::new();
    if let Some(own) = more.lab_cpu_us_per_op {
        out += &format!(" ({} µs without driver and target)", format::number(own));
    }
    if more.rows_returned > step.ops {
        out += &format!(
            ", {} documents/s returned",
            format::number(more.rows_per_second)
        );
    }
    if let Some(times) = more.write_amplification.filter(|times| *times > 0.0) {
        out += &format!(", write amplification {}", format::number(times));
    }
    for role in &more.beside {
        let met = match role.sla_met {
            Some(true) => ", reached",
            Some(false) => ", MISSED",
            None => "",
        };
        let target = role.target_rate.map_or_else(String::new, |rate| {
            format!(" of {}{met}", format::number(rate))
        });
        out += &format!(
            "; beside: {} {} {}/s{target}",
            role.part,
            format::number(role.rate.average),
            role.unit
        );
    }
    if !more.remark.is_empty() {
        out += &format!("; {}", more.remark);
    }
    out
}

/// Removes the folder of a run that never began.
fn forget(folder: &Path) {
    let _ = std::fs::remove_file(folder.join("intervals.csv"));
    let _ = std::fs::remove_dir(folder);
}

/// The command line as it was given, password removed.
pub(crate) fn command_line() -> String {
    let quoted = |word: String| {
        if word.contains([' ', '&', '?', '$', '*']) {
            format!("'{word}'")
        } else {
            word
        }
    };
    let words = std::env::args()
        .skip(1)
        .map(|word| quoted(without_password(&word)));
    std::iter::once("quarry-lab".to_owned())
        .chain(words)
        .collect::<Vec<_>>()
        .join(" ")
}

fn clock_us() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(0))
}
