//! The binary `quarry-lab`: runs workloads against any MongoDB URI with the official driver and reports what it saw.
//!
//! Promises: judges from outside (imports nothing of the server), leaves a folder with every number behind a chart, and ends with a
//! status that scripts can trust. Neighbours: `lab_kit` records and draws, `metrics` samples.

mod cli;
mod clients;
mod errors;
mod facts;
mod operations;
mod progress;
mod run;
mod sampler;
mod target;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Arguments, Command};
use crate::errors::LabError;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.command {
        Command::Run(run) => run::run(&run),
        Command::List => cli::list(),
        Command::Report { folder } => cli::report(&folder),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quarry-lab: {error}");
            ExitCode::from(match error {
                LabError::Partial { .. } => 3,
                LabError::Wrong { .. } => 4,
                _ => 1,
            })
        }
    }
}
