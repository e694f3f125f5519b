//! One run from the command line to the report: prepare, steps, checks, result.

use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lab_kit::environment::{self, Environment};
use lab_kit::folder::RunFolder;
use lab_kit::format;
use lab_kit::pacing::Schedule;
use lab_kit::recorder::{StepFacts, StepRecorder};
use lab_kit::result::{Check, RunFacts, RunResult, SCHEMA, StepResult, VERSION};
use lab_kit::seed;
use lab_kit::warnings::{Warning, of_step};
use lab_kit::workload::{Part, Placement, Settings, Step, Stop, Workload};
use tokio::task::JoinSet;

use crate::cli::RunArguments;
use crate::clients::{Limits, Shared, Totals, run_client};
use crate::errors::LabError;
use crate::facts::{self, ServerFacts};
use crate::operations::Work;
use crate::progress::{Goal, Progress};
use crate::sampler::{INTERVAL, Instruments, Sampling};
use crate::target::{Target, one_line, without_password};

const DRIVER: &str = "mongodb 3.9 (Rust)";
/// After an early stop, calls under way get this long to end.
const GRACE: Duration = Duration::from_secs(5);

/// Runs a workload.
pub(crate) fn run(arguments: &RunArguments) -> Result<(), LabError> {
    let workload = Workload::named(&arguments.workload)?;
    let settings = workload.settings(&arguments.preset, arguments.overrides())?;
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(Run::start(arguments, workload, settings))
}

/// What stays the same during a run.
struct Run<'a> {
    arguments: &'a RunArguments,
    workload: Workload,
    settings: Settings,
    seed: u64,
    target: Target,
    collections: Vec<String>,
}

/// A step that ended, well or early.
struct StepEnd {
    result: StepResult,
    totals: Totals,
    stopped_because: Option<String>,
}

impl<'a> Run<'a> {
    async fn start(
        arguments: &'a RunArguments,
        workload: Workload,
        settings: Settings,
    ) -> Result<(), LabError> {
        let seed = arguments.seed.unwrap_or_else(clock_us);
        let started = environment::now();
        // The folder comes first: a run whose results cannot be kept should not begin.
        let id = environment::run_id(&started, &workload.name, &settings.preset);
        let folder = RunFolder::create(&arguments.out, &id)?;
        let opened = Target::open(arguments, settings.clients).await;
        let target = opened.inspect_err(|_| forget(folder.path()))?;
        let collections = collections(&workload, &settings);
        let run = Run {
            arguments,
            workload,
            settings,
            seed,
            target,
            collections,
        };
        let facts = facts::gather(&run.target, arguments.data_dir.as_deref()).await;
        let machine = Environment::capture(facts.data.as_deref().unwrap_or(&arguments.out), DRIVER);
        let indexes = run
            .workload
            .data
            .indexes
            .iter()
            .take(run.settings.indexes as usize)
            .cloned()
            .collect::<Vec<_>>();
        run.target
            .prepare(&run.collections, &indexes)
            .await
            .inspect_err(|_| forget(folder.path()))?;
        run.announce(&facts);
        run.measure(
            folder,
            facts,
            machine,
            RunFacts {
                id,
                started_at: started,
                ..RunFacts::default()
            },
        )
        .await
    }

    fn announce(&self, facts: &ServerFacts) {
        let Settings {
            preset,
            rows,
            clients,
            batch,
            indexes,
            ..
        } = &self.settings;
        eprintln!(
            "{} ({preset}): {} rows, {clients} clients, batch {batch}, {indexes} indexes, seed {}, against {}",
            self.workload.name,
            format::count(*rows),
            self.seed,
            facts.stored.name()
        );
        if let Some(reason) = &facts.stored.not_watched_because {
            eprintln!("server process not watched: {reason}");
        }
    }

    /// Runs the steps, checks the work and writes the result.
    async fn measure(
        &self,
        folder: RunFolder,
        facts: ServerFacts,
        environment: Environment,
        mut about: RunFacts,
    ) -> Result<(), LabError> {
        let mut warnings = environment.warnings();
        let mut instruments = Instruments::open(facts.pid, facts.data.clone())?;
        let mut stored = facts.stored;
        stored.device = instruments.device().map(str::to_owned);
        let (mut folder, mut steps, mut totals) = (folder, Vec::new(), Vec::new());
        let mut stopped_because = None;
        for step in &self.workload.steps {
            let (end, folder_back, instruments_back) =
                self.run_step(step, folder, instruments).await?;
            (folder, instruments) = (folder_back, instruments_back);
            warnings.extend(of_step(&end.result, environment.cpus));
            steps.push(end.result);
            totals.push((step.part, end.totals));
            stopped_because = end.stopped_because;
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
        let checks = self.check(&totals, stopped_because.is_some()).await;
        about = RunFacts {
            workload: self.workload.name.clone(),
            title: self.workload.title.clone(),
            about: self.workload.about.trim().to_owned(),
            source: self.workload.source.clone(),
            command_line: command_line(),
            lab_version: env!("CARGO_PKG_VERSION").to_owned(),
            seed: self.seed,
            finished_at: environment::now(),
            complete: stopped_because.is_none(),
            stopped_because: stopped_because.clone(),
            ..about
        };
        let result = RunResult {
            schema: SCHEMA.to_owned(),
            version: VERSION,
            run: about,
            target: stored,
            settings: self.settings.clone(),
            changed_from_paper: self.workload.changed_from_paper(&self.settings),
            environment,
            warnings,
            steps,
            checks,
        };
        folder.finish(&result)?;
        if self.arguments.clean && result.run.complete {
            self.target.drop(&self.collections).await?;
        }
        self.conclude(&result, folder.path())
    }

    async fn run_step(
        &self,
        step: &Step,
        folder: RunFolder,
        instruments: Instruments,
    ) -> Result<(StepEnd, RunFolder, Instruments), LabError> {
        let (clients, batch) = (
            self.settings.clients,
            step.batch.unwrap_or(self.settings.batch),
        );
        let warmup = Duration::from_secs(if step.measured {
            self.settings.warmup_seconds
        } else {
            0
        });
        // Loads before the measured step are limited by rows alone.
        let limit = if step.measured {
            self.settings.seconds
        } else {
            None
        };
        let end = limit.map(|seconds| warmup + Duration::from_secs(seconds));
        let goal = match (step.stop, end) {
            (Stop::Rows, _) | (Stop::Seconds, None) => Goal::Ops(self.settings.rows),
            (Stop::Seconds, Some(end)) => Goal::Seconds(end.as_secs()),
        };
        let rate = self.settings.rate.filter(|_| step.measured);
        let per_call = if step.part == Part::Insert { batch } else { 1 };
        let recorder = StepRecorder::new(
            StepFacts {
                name: step.name.clone(),
                part: step.part,
                measured: step.measured,
                clients,
                batch: per_call,
                open_loop: rate.is_some(),
                device: instruments.device().map(str::to_owned),
            },
            INTERVAL,
        );
        let progress = Progress::new(&step.name, step.part.unit(), goal);
        let sampling = Sampling {
            recorder,
            folder,
            instruments,
            progress,
            failed: None,
        };
        let limits = Limits {
            warmup,
            end,
            call_timeout: Duration::from_secs(self.arguments.call_timeout_seconds.max(1)),
        };

        let shared = Shared::new(clients);
        let mut tasks = JoinSet::new();
        for client in 0..clients {
            let collection = match self.settings.placement {
                Placement::Shared => self.collections.first(),
                Placement::PerClient => self.collections.get(client as usize),
            };
            let collection = self
                .target
                .collection(collection.map_or("", String::as_str));
            let random = seed::stream(self.seed, &step.name, "client", client);
            let kind = (step.part, self.workload.data.documents);
            let work = Work::new(
                kind,
                collection,
                random,
                (self.settings.rows, batch),
                (client, clients),
            );
            let schedule =
                rate.map(|rate| Schedule::even(rate / f64::from(per_call), client, clients));
            tasks.spawn(run_client(
                shared.clone(),
                client as usize,
                work,
                limits,
                schedule,
            ));
        }
        let (done, is_done) = mpsc::channel();
        shared.start_together().await;
        let sampler = std::thread::spawn({
            let shared = shared.clone();
            move || sampling.run(&shared, warmup, &is_done)
        });
        wait_for_clients(&mut tasks, &shared).await;
        let _ = done.send(());
        // The thread ends within moments of the signal; a panic in it is a bug that must show.
        let sampling = sampler
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        if let Some(error) = sampling.failed {
            return Err(error.into());
        }
        let totals = shared.totals();
        let mut sizes = if shared.is_stopping() {
            Default::default()
        } else {
            self.target.sizes(&self.collections).await
        };
        sizes.directory_bytes = sampling.instruments.directory_bytes();
        let result = sampling.recorder.finish(
            &sampling.folder,
            &totals.fates,
            totals.errors.clone(),
            sizes,
        )?;
        let end = StepEnd {
            result,
            totals,
            stopped_because: shared.reason(),
        };
        Ok((end, sampling.folder, sampling.instruments))
    }

    /// Fast means right: what the server holds must be what it acknowledged.
    async fn check(&self, steps: &[(Part, Totals)], stopped: bool) -> Vec<Check> {
        let sum = |part: fn(Part) -> bool, value: fn(&Totals) -> i128| -> i128 {
            steps
                .iter()
                .filter(|(step, _)| part(*step))
                .map(|(_, totals)| value(totals))
                .sum()
        };
        let is_insert = |part| part == Part::Insert;
        let is_update = |part| matches!(part, Part::UpdateInc | Part::Hot);
        let mut out = Vec::new();
        let inserted = sum(is_insert, |totals| totals.acknowledged.into());
        let unknown = sum(is_insert, |totals| totals.unknown.into());
        // A server that stopped answering gets a moment only; otherwise a count may take as long as it takes.
        let patience = stopped.then_some(GRACE);
        eprintln!("checking: counting documents");
        let counted = ask(patience, self.target.count(&self.collections)).await;
        let name = "documents counted equal documents acknowledged";
        out.push(compare(name, inserted, unknown, counted));
        if steps.iter().any(|(part, _)| is_update(*part)) {
            let before = sum(is_insert, |totals| totals.sum_of_k.into());
            let updates = sum(is_update, |totals| totals.acknowledged.into());
            let unknown = sum(is_update, |totals| totals.unknown.into());
            let collection = self.collections.first().map_or("", String::as_str);
            let found = ask(patience, self.target.sum(collection, "k")).await;
            let name = "sum of k grew by one for each acknowledged $inc";
            out.push(compare(name, before + updates, unknown, found));
        }
        out
    }

    /// Says on the terminal what the report shows, and decides how the program ends.
    fn conclude(&self, result: &RunResult, folder: &Path) -> Result<(), LabError> {
        if let Some(step) = result.main_step() {
            println!("{}", summary_line(step));
        }
        for warning in &result.warnings {
            println!("warning: {}", warning.text);
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

fn summary_line(step: &StepResult) -> String {
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
    )
}

/// Ends when the user or the system asks the program to.
async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
        }
        Err(_) => {
            let _ = tokio::signal::ctrl_c().await;
        }
    }
}

/// Asks the server something for a check, as long as neither patience nor the user ends.
async fn ask<T: Into<i128>>(
    patience: Option<Duration>,
    question: impl Future<Output = Result<T, mongodb::error::Error>>,
) -> Asked {
    let never = std::future::pending();
    tokio::select! {
        answer = question => answer.map(Into::into).map_err(|error| one_line(&error)),
        () = interrupted() => Err("interrupted".to_owned()),
        () = async { match patience { Some(patience) => tokio::time::sleep(patience).await, None => never.await } } => Err("no answer".to_owned()),
    }
}

/// Waits for all clients; on an interrupt or an early stop, calls under way get a moment and are then abandoned.
async fn wait_for_clients(tasks: &mut JoinSet<()>, shared: &Shared) {
    let mut poll = tokio::time::interval(Duration::from_millis(100));
    let mut stop_at = None;
    let interrupt = interrupted();
    tokio::pin!(interrupt);
    loop {
        tokio::select! {
            ended = tasks.join_next() => match ended {
                None => return,
                Some(Err(error)) if error.is_panic() => shared.stop(&format!("a client of the lab failed: {error}")),
                Some(_) => {}
            },
            _ = &mut interrupt, if !shared.is_stopping() => shared.stop("interrupted"),
            _ = poll.tick() => {
                if shared.is_stopping() {
                    let at = *stop_at.get_or_insert_with(|| tokio::time::Instant::now() + GRACE);
                    if tokio::time::Instant::now() >= at {
                        tasks.abort_all();
                    }
                }
            }
        }
    }
}

/// What the server said, or why it could not be asked.
type Asked = Result<i128, String>;

fn compare(name: &str, expected: i128, unknown: i128, found: Asked) -> Check {
    let mut out = Check {
        name: name.to_owned(),
        expected: expected.to_string(),
        ..Check::default()
    };
    if unknown > 0 {
        out.expected = format!("{expected} to {}", expected + unknown);
        out.remark = format!("{unknown} operations were under way without an answer");
    }
    match found {
        Ok(found) => {
            out.found = found.to_string();
            out.passed = Some((expected..=expected + unknown).contains(&found));
        }
        Err(reason) => {
            out.found = "unknown".to_owned();
            out.remark = format!("could not be asked: {reason}");
        }
    }
    out
}

fn collections(workload: &Workload, settings: &Settings) -> Vec<String> {
    match settings.placement {
        Placement::Shared => vec![workload.data.collection.clone()],
        Placement::PerClient => (1..=settings.clients)
            .map(|client| format!("{}{client}", workload.data.collection))
            .collect(),
    }
}

/// Removes the folder of a run that never began.
fn forget(folder: &Path) {
    let _ = std::fs::remove_file(folder.join("intervals.csv"));
    let _ = std::fs::remove_dir(folder);
}

/// The command line as it was given, password removed.
fn command_line() -> String {
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
