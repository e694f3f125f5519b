//! The binary `quarry-lab`: runs workloads against servers and engines and reports the results.
//!
//! Promises: it measures from outside (it imports nothing of Quarry's server), leaves a folder with
//! all numbers of its charts, and ends with a status that scripts can trust. Neighbours: `lab_kit`
//! records and draws, `metrics` samples.

#[macro_use]
mod terminal;

mod address;
mod agent;
mod arguments;
mod claims;
mod clients;
mod compare;
mod counters;
mod credentials;
mod errors;
mod history;
mod interrupt;
mod limit;
mod list;
mod load;
mod mongo;
mod output;
mod profile;
mod progress;
mod pulse;
mod record;
mod replay;
mod run;
mod sampler;
mod serve;
mod slow_sampler;
mod sweep;
mod wire;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use lab_kit::workload::Workload;

use crate::arguments::{Arguments, Command};
use crate::errors::LabError;
use crate::run::{ResumedRun, RunArguments, RunPlan};

/// The largest number of blocking threads; each client of an engine has one.
const THREADS_MAX: usize = 8_192;
/// The longest wait for clients that are stuck in an engine, when a run has ended early.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let done = match sweep::run_requested() {
        Some(done) => done,
        None => execute(Arguments::parse().command),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            note_line!("quarry-lab: {error}");
            ExitCode::from(match error {
                LabError::Partial { .. }
                | LabError::SweepStopped { .. }
                | LabError::Recording(_) => 3,
                LabError::Wrong { .. } => 4,
                LabError::Gone { .. } => sweep::CODE_CHANGED,
                ref error if error.is_of_the_command_line() => 2,
                _ => 1,
            })
        }
    }
}

fn execute(command: Command) -> Result<(), LabError> {
    match command {
        Command::Run(arguments) => begin(&arguments),
        Command::Resume { folder, target } => resume(&folder, target),
        Command::Target { server } => serve::serve(&server),
        Command::Balloon { bytes } => limit::balloon(bytes),
        Command::Agent(arguments) => agent::run(&arguments, |job, link| {
            Box::pin(address::make_load(job, link))
        }),
        Command::List(arguments) => list::run(&arguments),
        Command::Report(arguments) => compare::report(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::History(arguments) => history::run(&arguments),
        Command::Claims(arguments) => claims::run(&arguments),
        Command::Profile(arguments) => profile::run(&arguments),
        Command::Record(arguments) => record::run(&arguments),
        Command::Replay(arguments) => replay::run(&arguments),
    }
}

/// Starts a run.
fn begin(arguments: &RunArguments) -> Result<(), LabError> {
    let workload = Workload::load(&arguments.workload)?;
    let settings = workload.settings(&arguments.preset, arguments.overrides())?;
    let workload = workload.adapt(&settings);
    if arguments.find_change.is_some() {
        let reason = "--find-change needs --repeats, the most runs that it may make";
        return Err(LabError::Words(reason.to_owned()));
    }
    if arguments.plan {
        let words: Vec<String> = std::env::args().skip(1).collect();
        print_line!("{}", sweep::hide_passwords(&words));
        return Ok(());
    }
    run_plan(RunPlan {
        arguments,
        workload,
        settings,
        resumed: None,
        loaded: arguments
            .loaded_by
            .as_deref()
            .map(ResumedRun::read_loaded)
            .transpose()?,
    })
}

/// Resumes an interrupted run.
fn resume(folder: &Path, target: Option<String>) -> Result<(), LabError> {
    if let Some(done) = sweep::resume(folder, target.as_deref()) {
        return done;
    }
    let resumed = ResumedRun::read(folder)?;
    let mut arguments = resumed.checkpoint.arguments.clone();
    arguments.target = target.unwrap_or(arguments.target);
    let workload = Workload::load(&arguments.workload)?;
    let settings = resumed.checkpoint.settings.clone();
    let workload = workload.adapt(&settings);
    run_plan(RunPlan {
        arguments: &arguments,
        workload,
        settings,
        resumed: Some(resumed),
        loaded: None,
    })
}

fn run_plan(plan: RunPlan<'_>) -> Result<(), LabError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(THREADS_MAX)
        .build()?;
    let done = runtime.block_on(address::run(plan));
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    done
}
