//! The command `replay`: sends the operations of a recording to a target again and says how long
//! they took and what was answered otherwise.
//!
//! Promises: constant memory however long the recording; a folder like that of any run; what ended
//! early is still reported. Neighbours: `source` reads ahead, `conductor` keeps the time, `player`
//! sends, `tally` counts.

mod command;
mod conductor;
mod player;
mod source;
mod tally;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use lab_kit::environment::{self, Environment};
use lab_kit::folder::RunFolder;
use lab_kit::format;
use lab_kit::recorder::{ClientFate, StepFacts, StepRecorder, latency_summary};
use lab_kit::replay::{RecordingFacts, ReplayResult, WORKLOAD};
use lab_kit::report::runs_page;
use lab_kit::result::{Check, RunFacts, RunResult, SCHEMA, Sizes, StepResult, VERSION};
use lab_kit::target::Target;
use lab_kit::warnings::{Warning, of_step};
use lab_kit::workload::{Part, Settings};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::clients::{Control, Group, lock};
use crate::compare::write_page;
use crate::errors::LabError;
use crate::interrupt::interrupted;
use crate::mongo::MongoTarget;
use crate::progress::{Goal, Progress};
use crate::record::file::{Reader, Record};
use crate::run::command_line;
use crate::sampler::{INTERVAL, Instruments, Lane, Sampling};
use crate::step::GRACE;
use conductor::Conductor;
use player::Player;
use source::Selection;
use tally::Tally;

/// Options of `replay`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  quarry-lab replay load.qrec --target mongodb://127.0.0.1:27017 --out results
  quarry-lab replay load.qrec --target mongodb://a:27017 --target mongodb://b:27017 --style stress \
  --out results
  quarry-lab replay load.qrec --target mongodb://a:27017 --ops query,getMore --speed 4 --out results

The target must hold what the recorded server held when the recording began. Collections are \
written to, dropped and created as
recorded: use a server of its own. Exit status: 0 all answers as recorded; 3 ended early; 4 \
answers differ.")]
pub(crate) struct ReplayArguments {
    /// A recording
    pub(crate) file: PathBuf,
    /// Server to replay against; several are taken in turn and stand on one page
    #[arg(long, value_name = "ADDRESS", required = true)]
    pub(crate) target: Vec<String>,
    /// Folder for results; a folder per target is made in it
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// At the recorded times, or as fast as the workers can
    #[arg(long, value_enum, default_value = "real")]
    pub(crate) style: Style,
    /// With real: times faster than recorded
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    pub(crate) speed: f64,
    /// Operations under way at once, at most
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) workers: u32,
    /// What an operation waits for: those before it on its connection (with stress), or also all
    /// that had been answered when it was sent (with real)
    #[arg(long, value_enum)]
    order: Option<Order>,
    /// Kinds of operation to replay, such as insert,update,remove,query,getMore,count; without it
    /// all
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub(crate) ops: Vec<String>,
    /// Operations to leave out at the begin
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) skip: u64,
    /// Operations to replay at most
    #[arg(long, value_name = "N")]
    pub(crate) max_ops: Option<u64>,
    /// Seconds of the recording to leave out at the begin
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0)]
    pub(crate) start: f64,
    /// Begin again at the end; with --seconds or --max-ops, or until the program is told to end.
    /// Only the first pass is compared
    #[arg(long)]
    pub(crate) cyclic: bool,
    /// End after so many seconds
    #[arg(long, value_name = "N")]
    pub(crate) seconds: Option<u64>,
    /// List operations that took at least so long in slow.csv
    #[arg(long, value_name = "MS")]
    pub(crate) slow_ms: Option<u64>,
    /// Differences listed one by one
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) list: usize,
    /// Share of answers in percent that may differ before the check fails
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    pub(crate) allow_differences: f64,
    /// Seconds after which a call counts as unanswered
    #[arg(long, value_name = "N", default_value_t = 60)]
    pub(crate) call_timeout_seconds: u64,
}

/// When operations are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Style {
    /// At the recorded times
    Real,
    /// As fast as the workers can
    Stress,
}

/// What an operation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Order {
    /// Those before it on its connection
    Connection,
    /// Besides, all that had been answered when it was sent
    Recorded,
}

impl Style {
    fn name(self) -> &'static str {
        match self {
            Self::Real => "real",
            Self::Stress => "stress",
        }
    }
}

impl ReplayArguments {
    fn order(&self) -> Order {
        // A driver's pool lets one client wander over connections: only the recorded order keeps
        // its operations apart.
        self.order.unwrap_or(match self.style {
            Style::Real => Order::Recorded,
            Style::Stress => Order::Connection,
        })
    }

    fn check(&self) -> Result<(), LabError> {
        let wrong = |text: String| Err(LabError::Replay(text));
        if !(self.speed.is_finite() && (0.001..=1e6).contains(&self.speed)) {
            return wrong(format!(
                "--speed is {}; allowed is 0.001 to 1000000",
                self.speed
            ));
        }
        if !(self.start.is_finite() && (0.0..=1e9).contains(&self.start)) {
            return wrong(format!(
                "--start is {}; allowed is 0 or more seconds",
                self.start
            ));
        }
        let is_known = |given: &String| {
            command::KINDS
                .split(", ")
                .any(|kind| command::is_kind(kind, given.trim_start_matches("command.")))
        };
        if let Some(unknown) = self.ops.iter().find(|given| !is_known(given)) {
            return wrong(format!(
                "--ops has '{unknown}'; there are: {}",
                command::KINDS
            ));
        }
        Ok(())
    }
}

/// Replays against each target in turn.
pub(crate) fn run(arguments: &ReplayArguments) -> Result<(), LabError> {
    arguments.check()?;
    let survey = survey(arguments)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let mut results = Vec::new();
    let mut first_error = None;
    for (number, target) in arguments.target.iter().enumerate() {
        let id = if arguments.target.len() > 1 {
            format!("{}-{}", arguments.style.name(), number + 1)
        } else {
            arguments.style.name().to_owned()
        };
        let (result, folder) = runtime.block_on(replay(arguments, target, &id, &survey))?;
        let ended = conclude(&result, &folder);
        let was_interrupted = !result.run.complete;
        results.push(result);
        if let Err(error) = ended {
            if arguments.target.len() > 1 {
                eprintln!("quarry-lab: {error}");
            }
            first_error.get_or_insert(error);
        }
        if was_interrupted {
            break;
        }
    }
    runtime.shutdown_timeout(Duration::from_millis(100));
    if arguments.target.len() > 1 {
        write_page(&arguments.out.join("replays.html"), &runs_page(&results)?)?;
    }
    first_error.map_or(Ok(()), Err)
}

/// What a look through the whole recording shows.
struct Survey {
    facts: RecordingFacts,
    /// Operations that will be replayed, in one pass.
    wanted: u64,
}

fn survey(arguments: &ReplayArguments) -> Result<Survey, LabError> {
    let mut reader = Reader::open(&arguments.file)?;
    let (mut ops, mut last_ns, mut first_ns) = (0, 0, None);
    let mut selection = Selection::of(arguments);
    while let Some(record) = reader.next()? {
        if let Record::Asked(asked) = record {
            ops += 1;
            last_ns = asked.at_ns;
            first_ns.get_or_insert(asked.at_ns);
            let _ = selection.take(&asked);
        }
    }
    if selection.taken == 0 {
        return Err(LabError::Replay(format!(
            "{} holds {ops} operations, and none of them is wanted",
            arguments.file.display()
        )));
    }
    let facts = RecordingFacts {
        file: arguments
            .file
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default(),
        fingerprint: format!("{:08x}", reader.fingerprint),
        started_at: reader.header.started_at.clone(),
        upstream: crate::address::without_password(&reader.header.upstream),
        anonymised: reader.header.anonymised,
        ops,
        seconds: (last_ns - first_ns.unwrap_or(last_ns)) as f64 / 1e9,
        cut: reader.cut,
    };
    Ok(Survey {
        facts,
        wanted: selection.taken,
    })
}

async fn replay(
    arguments: &ReplayArguments,
    target: &str,
    name: &str,
    survey: &Survey,
) -> Result<(RunResult, PathBuf), LabError> {
    let target = MongoTarget::connect(target, "admin", arguments.workers).await?;
    let started = environment::now();
    let id = environment::run_id(&started, WORKLOAD, name);
    let mut folder = RunFolder::create(&arguments.out, &id)?;
    let path = folder.path().to_owned();
    let watch = target.watch().await;
    let environment = Environment::capture(
        watch.data.as_deref().unwrap_or(&arguments.out),
        crate::address::DRIVER_MONGO,
    );
    let mut warnings = environment.warnings();
    warnings.extend(of_recording(&survey.facts));
    let instruments = Instruments::open(watch.pid, watch.data.clone())?;
    let mut stored = watch.stored;
    stored.device = instruments.device().map(str::to_owned);
    stored.write_concern = "as recorded".to_owned();
    eprintln!(
        "replay ({}): {} of {} operations, against {}",
        arguments.style.name(),
        survey.wanted,
        survey.facts.ops,
        stored.name()
    );

    let control = Control::new(0);
    let group = Group::new(
        arguments.workers,
        false,
        arguments.style == Style::Real,
        Part::Mix,
    );
    let slow = arguments
        .slow_ms
        .map(|ms| open_slow(&path, ms))
        .transpose()?;
    let player = Arc::new(Player {
        client: target.client().clone(),
        control: control.clone(),
        group: group.clone(),
        tally: Mutex::new(Tally::new(arguments.list)),
        workers: Semaphore::new(arguments.workers as usize),
        call_timeout: Duration::from_secs(arguments.call_timeout_seconds.max(1)),
        begun: Instant::now(),
        slow,
        slow_failed: AtomicBool::new(false),
    });
    let facts = StepFacts {
        name: arguments.style.name().to_owned(),
        part: Part::Mix,
        measured: true,
        clients: arguments.workers,
        batch: 1,
        open_loop: arguments.style == Style::Real,
        device: stored.device.clone(),
    };
    let goal = if arguments.cyclic {
        Goal::Seconds(arguments.seconds.unwrap_or(0))
    } else {
        Goal::Ops(survey.wanted)
    };
    let sampling = Sampling {
        lanes: vec![Lane {
            recorder: StepRecorder::new(facts, INTERVAL),
            group,
            rows: 0,
        }],
        progress: Progress::new(arguments.style.name(), "operations", goal),
        folder,
        instruments,
        failed: None,
    };
    let (done, is_done) = mpsc::channel();
    let sampler = std::thread::spawn({
        let control = control.clone();
        move || sampling.run(&control, Duration::ZERO, &is_done)
    });
    let played = play(arguments, &player).await;
    let active = player.begun.elapsed();
    let _ = done.send(());
    // The thread ends within moments of the signal; a panic in it is a bug that must show.
    let mut sampling = sampler
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    played?;
    if let Some(error) = sampling.failed.take() {
        return Err(error.into());
    }
    folder = sampling.folder;
    let Some(lane) = sampling.lanes.pop() else {
        return Err(LabError::Replay("a replay without work".to_owned()));
    };
    let sizes = Sizes {
        directory_bytes: watch
            .data
            .as_deref()
            .and_then(|path| metrics::directory_size(path).ok())
            .map(|size| size.allocated_bytes),
        ..Sizes::default()
    };
    let stopped_because = control.reason();
    let step = {
        let tally = lock(&player.tally);
        step(
            arguments,
            lane,
            &folder,
            sizes,
            active,
            (&tally, &survey.facts),
        )?
    };
    if player.slow_failed.load(Ordering::Relaxed) {
        warnings.push(warning(
            "slow-list",
            "The list of slow operations could not be written in full.",
        ));
    }
    if let Some(lost) = &sampling.instruments.server_lost {
        warnings.push(warning(
            "server-not-watched",
            &format!("The server was not watched to the end: {lost}."),
        ));
    }
    warnings.extend(of_step(&step, environment.cpus, false));
    let run = RunFacts {
        id,
        workload: WORKLOAD.to_owned(),
        title: "Replay of recorded traffic".to_owned(),
        about: about(arguments, &survey.facts),
        source: "The study (Flashback, 2015) replayed production traffic that is not public: its \
            figures do not stand beside these."
            .to_owned(),
        command_line: command_line(),
        lab_version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: started,
        finished_at: environment::now(),
        complete: stopped_because.is_none(),
        stopped_because,
        ..RunFacts::default()
    };
    let result = RunResult {
        schema: SCHEMA.to_owned(),
        version: VERSION,
        run,
        target: stored,
        settings: settings(arguments, survey)?,
        changed_from_paper: vec!["another recording".to_owned()],
        environment,
        warnings,
        checks: checks(arguments, &step),
        steps: vec![step],
        skipped: Vec::new(),
        memory_limit: None,
    };
    folder.finish(&result)?;
    Ok((result, path))
}

/// Plays until the recording ends or someone ends it.
async fn play(arguments: &ReplayArguments, player: &Arc<Player>) -> Result<(), LabError> {
    let conducted = Conductor::new(arguments, player.clone()).conduct();
    tokio::pin!(conducted);
    let interrupt = interrupted();
    tokio::pin!(interrupt);
    let mut tasks: JoinSet<()> = loop {
        tokio::select! {
            ended = &mut conducted => break ended?,
            () = &mut interrupt, if !player.control.is_stopping() => player.control.stop("interrupted"),
        }
    };
    let mut poll = tokio::time::interval(Duration::from_millis(100));
    let mut stop_at = None;
    loop {
        tokio::select! {
            ended = tasks.join_next() => match ended {
                None => return Ok(()),
                Some(Err(error)) if error.is_panic() => player.control.stop(&format!("a worker of \
                    the lab failed: {error}")),
                Some(_) => {}
            },
            () = &mut interrupt, if !player.control.is_stopping() => player.control.stop("interrupted"),
            _ = poll.tick(), if player.control.is_stopping() => {
                if Instant::now() >= *stop_at.get_or_insert_with(|| Instant::now() + GRACE) {
                    tasks.abort_all();
                }
            }
        }
    }
}

fn step(
    arguments: &ReplayArguments,
    lane: Lane,
    folder: &RunFolder,
    sizes: Sizes,
    active: Duration,
    (tally, recording): (&Tally, &RecordingFacts),
) -> Result<StepResult, LabError> {
    let (by_part, replay) = tally.result();
    let fate = ClientFate {
        ops: replay.kinds.values().map(|kind| kind.ops).sum(),
        active,
        behind: tally.behind,
    };
    let mut step = lane
        .recorder
        .finish(folder, &[fate], tally.errors.clone(), sizes)?;
    step.more.rows_returned = tally.returned;
    step.more.rows_per_second = if step.seconds > 0.0 {
        tally.returned as f64 / step.seconds
    } else {
        0.0
    };
    step.more.service = (arguments.style == Style::Real).then(|| latency_summary(&tally.service));
    step.more.by_part = by_part;
    step.more.replay = Some(ReplayResult {
        style: arguments.style.name().to_owned(),
        speed: arguments.speed,
        order: match arguments.order() {
            Order::Connection => "connection",
            Order::Recorded => "recorded",
        }
        .to_owned(),
        recording: recording.clone(),
        ..replay
    });
    Ok(step)
}

/// The size of a replay, in the terms of every run; what a replay has no say in is as where nothing
/// is set.
fn settings(arguments: &ReplayArguments, survey: &Survey) -> Result<Settings, LabError> {
    let given = serde_json::json!({
        "preset": arguments.style.name(),
        "rows": survey.wanted,
        "clients": arguments.workers,
        "batch": 1,
        "seconds": arguments.seconds,
        "warmup_seconds": 0,
        "indexes": 0,
        "placement": "shared",
        "rate": null,
    });
    serde_json::from_value(given).map_err(|error| LabError::Replay(format!("settings: {error}")))
}

fn about(arguments: &ReplayArguments, facts: &RecordingFacts) -> String {
    let pace = match arguments.style {
        Style::Real if arguments.speed == 1.0 => "at the recorded times".to_owned(),
        Style::Real => format!("at {} times the recorded pace", arguments.speed),
        Style::Stress => "as fast as the workers can".to_owned(),
    };
    format!(
        "{} operations recorded in {} at {}, sent again {pace} by {} workers, in order within each \
            recorded connection.",
        format::count(facts.ops),
        format::seconds(facts.seconds),
        facts.upstream,
        arguments.workers
    )
}

fn warning(code: &str, text: &str) -> Warning {
    Warning {
        code: code.to_owned(),
        text: text.to_owned(),
    }
}

fn of_recording(facts: &RecordingFacts) -> Vec<Warning> {
    let mut out = Vec::new();
    if let Some(cut) = &facts.cut {
        out.push(warning(
            "recording-cut",
            &format!("The recording ends early ({cut}): what followed was not replayed."),
        ));
    }
    if facts.anonymised {
        out.push(warning(
            "anonymised",
            "Texts of the recording are hashes: their order, and what \
            regular expressions find, differ from the original.",
        ));
    }
    out
}

fn checks(arguments: &ReplayArguments, step: &StepResult) -> Vec<Check> {
    let Some(replay) = &step.more.replay else {
        return Vec::new();
    };
    let found = replay.differences();
    let allowed = (arguments.allow_differences / 100.0 * replay.compared as f64) as u64;
    let mut kinds: Vec<String> = replay
        .differences
        .iter()
        .map(|(what, count)| format!("{what} {}", format::count(*count)))
        .collect();
    if found > 0 && arguments.order() == Order::Connection {
        kinds.push(
            "operations of different connections may have overtaken each other: --order \
            recorded keeps them apart"
                .to_owned(),
        );
    }
    vec![Check {
        name: "answers as recorded".to_owned(),
        expected: if allowed > 0 {
            format!("at most {} differences", format::count(allowed))
        } else {
            "0 differences".to_owned()
        },
        found: format!(
            "{} differences in {} answers",
            format::count(found),
            format::count(replay.compared)
        ),
        passed: (replay.compared > 0).then_some(found <= allowed),
        remark: kinds.join(", "),
    }]
}

/// Opens the list of slow operations.
fn open_slow(folder: &Path, ms: u64) -> Result<(Mutex<std::fs::File>, Duration), LabError> {
    let mut file = std::fs::File::create_new(folder.join("slow.csv"))?;
    std::io::Write::write_all(
        &mut file,
        b"op,kind,namespace,since_begin_s,latency_ms,service_ms,recorded_ms\n",
    )?;
    Ok((Mutex::new(file), Duration::from_millis(ms)))
}

/// Says on the terminal what the report shows, and decides how the program ends.
fn conclude(result: &RunResult, folder: &Path) -> Result<(), LabError> {
    for warning in &result.warnings {
        println!("warning: {}", warning.text);
    }
    if let Some(step) = result.main_step() {
        println!("{}", crate::run::summary_line(step));
        let replay = step.more.replay.iter();
        for (kind, of) in replay.clone().flat_map(|replay| &replay.kinds) {
            let mean =
                |latency: &lab_kit::result::LatencySummary| format::latency_us(latency.mean_us);
            println!(
                "  {kind}: {}, mean {}, max {}; recorded mean {}",
                format::count(of.ops),
                mean(&of.service),
                format::latency_us(of.service.max_us),
                mean(&of.recorded)
            );
        }
        for (because, count) in replay.clone().flat_map(|replay| &replay.not_replayed) {
            println!("not replayed: {} ({because})", format::count(*count));
        }
        for one in replay.flat_map(|replay| &replay.first_differences) {
            println!(
                "operation {} ({} {}): {} was {}, is {}",
                one.op, one.kind, one.namespace, one.what, one.recorded, one.replayed
            );
        }
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
            "{}: expected {}, found {} ({})",
            check.name, check.expected, check.found, check.remark
        );
        return Err(LabError::Wrong {
            what,
            folder: folder.to_owned(),
        });
    }
    for check in &result.checks {
        println!(
            "{}: {} ({})",
            if check.passed.is_some() {
                "right"
            } else {
                "not checked"
            },
            check.name,
            check.found
        );
    }
    println!("{}", folder.join("report.html").display());
    Ok(())
}
