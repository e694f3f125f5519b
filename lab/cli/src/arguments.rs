//! The command line: subcommands and what they have in common.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::run::RunArguments;
use crate::serve::Server;

/// The benchmark lab of Quarry.
#[derive(Debug, Parser)]
#[command(name = "quarry-lab", version, about, after_help = crate::run::EXAMPLES)]
pub(crate) struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a workload and write a report
    Run(Box<RunArguments>),
    /// Continue an interrupted run or sweep
    Resume {
        /// Folder of the run (with checkpoint.json) or of the sweep (with sweep.json)
        folder: PathBuf,
        /// Address of the target, needed if it has a password, because passwords are not stored
        #[arg(long, value_name = "ADDRESS")]
        target: Option<String>,
    },
    /// Start a server to measure, until Ctrl-C stops it
    Target {
        /// Server to start
        #[command(subcommand)]
        server: Server,
    },
    /// Hold memory until standard input ends; for --memory-mb
    #[command(hide = true)]
    Balloon {
        /// Bytes to hold
        bytes: u64,
    },
    /// Report the resources that a process of this machine uses to a lab on another machine (run
    /// --agent)
    Agent(crate::agent::AgentArguments),
    /// List workloads and presets
    List(crate::list::ListArguments),
    /// Draw report.html of a run again, or one page for several runs
    Report(crate::compare::ReportArguments),
    /// Compare two groups of runs and give a verdict for each metric
    Compare(crate::compare::CompareArguments),
    /// Find the runs at which results changed over time, and draw the trends
    History(crate::history::HistoryArguments),
    /// Run the workloads of the studies' claims and judge the claims
    Claims(crate::claims::ClaimsArguments),
    /// Sample the stacks of a running process, and write counts and a flame graph
    Profile(crate::profile::ProfileArguments),
    /// Record real traffic by a proxy between a driver and a server
    Record(crate::record::RecordArguments),
    /// Replay a recording against one target or several in turn
    Replay(Box<crate::replay::ReplayArguments>),
}
