//! Replays a recording against each target in turn.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use lab_kit::environment::{self, Environment, RunClock};
use lab_kit::folder::RunFolder;
use lab_kit::recorder::{StepFacts, StepRecorder};
use lab_kit::report::{page, runs_page};
use lab_kit::result::{REPLAY_WORKLOAD, RunFacts, RunResult, SCHEMA, Sizes, VERSION, Warning};
use lab_kit::stalls::GapTracker;
use lab_kit::target::Target;
use lab_kit::warnings::{of_environment, of_step};
use lab_kit::workload::Operation;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::arguments::{ReplayArguments, ReplayMode};
use super::counts::ReplayCounts;
use super::outcome::{checks, conclude, describe_pace, of_recording, settings, step, warning};
use super::scheduler::Scheduler;
use super::sender::ReplaySender;
use super::summary::{RecordingSummary, summary};
use crate::address::DRIVER_MONGO;
use crate::clients::{Control, GRACE};
use crate::counters::{RoleCounters, lock};
use crate::errors::LabError;
use crate::interrupt::wait_interrupt;
use crate::mongo::MongoTarget;
use crate::output::write_page;
use crate::progress::{Goal, Progress};
use crate::run::command_line;
use crate::sampler::{INTERVAL, Instruments, SampledRole, SamplerInput};

/// Replays against each target in turn.
pub(crate) fn run(arguments: &ReplayArguments) -> Result<(), LabError> {
    arguments.check()?;
    let summary = summary(arguments)?;
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
        let (result, folder) = runtime.block_on(replay(arguments, target, &id, &summary))?;
        let ended = conclude(&result, &folder);
        let was_interrupted = !result.run.complete;
        results.push(result);
        if let Err(error) = ended {
            if arguments.target.len() > 1 {
                note_line!("quarry-lab: {error}");
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

async fn replay(
    arguments: &ReplayArguments,
    target: &str,
    name: &str,
    summary: &RecordingSummary,
) -> Result<(RunResult, PathBuf), LabError> {
    let target = MongoTarget::connect(target, "admin", arguments.workers).await?;
    let clock = RunClock::start(None);
    let started = clock.now();
    let id = environment::run_id(&started, REPLAY_WORKLOAD, name);
    let folder = RunFolder::create(&arguments.out, &id)?;
    let path = folder.path().to_owned();
    let info = target.inspect().await;
    let data = info.data.as_deref().unwrap_or(&arguments.out);
    let environment = Environment::capture(data, DRIVER_MONGO);
    let instruments = Instruments::open(info.pid, info.data.clone())?;
    let mut facts = info.facts;
    facts.device = instruments.device().map(str::to_owned);
    facts.write_concern = "as recorded".to_owned();
    note_line!(
        "replay ({}): {} of {} operations, against {}",
        arguments.style.name(),
        summary.wanted,
        summary.facts.ops,
        facts.name()
    );
    let sender = new_sender(arguments, &target, &path)?;
    let device = facts.device.clone();
    let sampling = new_sampling(arguments, summary, folder, instruments, &sender, device);
    let (sampling, active) = sample_while_playing(arguments, &sender, sampling).await?;
    let sizes = sizes_of(info.data.as_deref());
    let SamplerInput {
        mut sampled_roles,
        folder,
        instruments,
        ..
    } = sampling;
    let Some(sampled_role) = sampled_roles.pop() else {
        return Err(LabError::Replay("a replay without work".to_owned()));
    };
    let step = {
        let counts = lock(&sender.counts);
        let (role, recording) = (sampled_role, &summary.facts);
        step(arguments, role, &folder, sizes, active, &counts, recording)?
    };
    let mut warnings = of_environment(&environment);
    warnings.extend(of_recording(&summary.facts));
    warnings.extend(of_sender(&sender, &instruments));
    warnings.extend(of_step(&step, environment.cpus, false));
    let result = RunResult {
        schema: SCHEMA.to_owned(),
        version: VERSION,
        run: run_facts(
            arguments,
            summary,
            id,
            started,
            &clock,
            sender.control.reason(),
        ),
        target: facts,
        settings: settings(arguments, summary)?,
        changed_from_paper: vec!["another recording".to_owned()],
        environment,
        warnings,
        checks: checks(arguments, &step),
        steps: vec![step],
        skipped: Vec::new(),
        memory_limit: None,
    };
    folder.finish(&result, page)?;
    Ok((result, path))
}

fn new_sender(
    arguments: &ReplayArguments,
    target: &MongoTarget,
    path: &Path,
) -> Result<Arc<ReplaySender>, LabError> {
    let slow = arguments
        .slow_ms
        .map(|ms| open_slow(path, ms))
        .transpose()?;
    let has_schedule = arguments.style == ReplayMode::Real;
    Ok(Arc::new(ReplaySender {
        client: target.client().clone(),
        control: Control::new(0),
        counters: RoleCounters::new(
            arguments.workers,
            false,
            has_schedule,
            Operation::Mix,
            false,
        ),
        counts: Mutex::new(ReplayCounts::new(arguments.list)),
        workers: Semaphore::new(arguments.workers as usize),
        call_timeout: Duration::from_secs(arguments.call_timeout_seconds.max(1)),
        begun: Instant::now(),
        slow,
        slow_failed: AtomicBool::new(false),
    }))
}

fn sizes_of(directory: Option<&Path>) -> Sizes {
    let size = directory.and_then(|path| metrics::directory_size(path).ok());
    Sizes {
        directory_bytes: size.map(|size| size.allocated_bytes),
        ..Sizes::default()
    }
}

fn new_sampling(
    arguments: &ReplayArguments,
    summary: &RecordingSummary,
    folder: RunFolder,
    instruments: Instruments,
    sender: &ReplaySender,
    device: Option<String>,
) -> SamplerInput {
    let facts = StepFacts {
        name: arguments.style.name().to_owned(),
        operation: Operation::Mix,
        measured: true,
        clients: arguments.workers,
        batch: 1,
        open_loop: arguments.style == ReplayMode::Real,
        device,
    };
    let goal = if arguments.cyclic {
        Goal::Seconds(arguments.seconds.unwrap_or(0))
    } else {
        Goal::Ops(summary.wanted)
    };
    SamplerInput {
        sampled_roles: vec![SampledRole {
            recorder: StepRecorder::new(facts, INTERVAL),
            counters: sender.counters.clone(),
            rows: 0,
            gaps: GapTracker::default(),
            is_inside: false,
            stood_still: Duration::ZERO,
        }],
        progress: Progress::new(arguments.style.name(), "operations", goal),
        folder,
        instruments,
    }
}

/// Plays the recording while the sampler closes intervals; returns the time that it took.
async fn sample_while_playing(
    arguments: &ReplayArguments,
    sender: &Arc<ReplaySender>,
    mut sampling: SamplerInput,
) -> Result<(SamplerInput, Duration), LabError> {
    sampling.instruments.restart();
    let (done, is_done) = mpsc::channel();
    let sampler = std::thread::spawn({
        let control = sender.control.clone();
        move || sampling.run(&control, Duration::ZERO, &is_done)
    });
    let played = play(arguments, sender).await;
    let active = sender.begun.elapsed();
    let _ = done.send(());
    // The thread ends shortly after the signal; a panic in it is a bug and must be reported.
    let sampling = sampler
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    played?;
    Ok((sampling, active))
}

/// Warnings about data that could not be listed or observed.
fn of_sender(sender: &ReplaySender, instruments: &Instruments) -> Vec<Warning> {
    let mut out = Vec::new();
    if sender.slow_failed.load(Ordering::Relaxed) {
        out.push(warning(
            "slow-list",
            "The list of slow operations could not be written in full.",
        ));
    }
    if let Some(lost) = &instruments.server_lost {
        out.push(warning(
            "server-not-watched",
            &format!("The server was not observed until the end: {lost}."),
        ));
    }
    out
}

fn run_facts(
    arguments: &ReplayArguments,
    summary: &RecordingSummary,
    id: String,
    started_at: String,
    clock: &RunClock,
    stopped_because: Option<String>,
) -> RunFacts {
    RunFacts {
        id,
        workload: REPLAY_WORKLOAD.to_owned(),
        title: "Replay of recorded traffic".to_owned(),
        about: describe_pace(arguments, &summary.facts),
        source: "The study (Flashback, 2015) replayed production traffic that is not public: its \
            results do not stand beside these."
            .to_owned(),
        command_line: command_line(),
        lab_version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at,
        finished_at: clock.now(),
        complete: stopped_because.is_none(),
        stopped_because,
        ..RunFacts::default()
    }
}

/// Plays until the recording ends or someone ends it.
async fn play(arguments: &ReplayArguments, sender: &Arc<ReplaySender>) -> Result<(), LabError> {
    let scheduled = Scheduler::new(arguments, sender.clone()).schedule();
    tokio::pin!(scheduled);
    let interrupt = wait_interrupt();
    tokio::pin!(interrupt);
    let mut tasks: JoinSet<()> = loop {
        tokio::select! {
            ended = &mut scheduled => break ended?,
            () = &mut interrupt, if !sender.control.is_stopping() => {
                sender.control.stop("interrupted");
            }
        }
    };
    let mut poll = tokio::time::interval(Duration::from_millis(100));
    let mut stop_at = None;
    loop {
        tokio::select! {
            ended = tasks.join_next() => match ended {
                None => return Ok(()),
                Some(Err(error)) if error.is_panic() => sender.control.stop(&format!("a worker of \
                    the lab failed: {error}")),
                Some(_) => {}
            },
            () = &mut interrupt, if !sender.control.is_stopping() => {
                sender.control.stop("interrupted");
            }
            _ = poll.tick(), if sender.control.is_stopping() => {
                if Instant::now() >= *stop_at.get_or_insert_with(|| Instant::now() + GRACE) {
                    tasks.abort_all();
                }
            }
        }
    }
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
