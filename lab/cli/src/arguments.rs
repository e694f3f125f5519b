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
    /// Run a workload and write its report
    Run(Box<RunArguments>),
    /// Go on with a run or a sweep that was interrupted
    Resume {
        /// Folder of the run (with checkpoint.json) or of the sweep (with sweep.json)
        folder: PathBuf,
        /// Address of the target, where the run's had a password: that is not stored
        #[arg(long, value_name = "ADDRESS")]
        target: Option<String>,
    },
    /// Start a server of its own to measure, and stop it with Ctrl-C
    Target {
        /// Which
        #[command(subcommand)]
        server: Server,
    },
    /// Hold memory until the input ends: a part of --memory-mb
    #[command(hide = true)]
    Balloon {
        /// How much
        bytes: u64,
    },
    /// Tell a lab on another machine what a process of this one uses: run --agent
    Agent(crate::agent::AgentArguments),
    /// List workloads and presets
    List(crate::list::ListArguments),
    /// Draw report.html of a run again, or one page for several runs
    Report(crate::compare::ReportArguments),
    /// Compare two groups of runs: a verdict for each metric
    Compare(crate::compare::CompareArguments),
    /// Find the points at which the results of many days changed, and draw their trends
    History(crate::history::HistoryArguments),
    /// Run and judge the claims of the studies
    Claims(crate::claims::ClaimsArguments),
    /// Take stacks of a running process: counts and a flame graph
    Profile(crate::profile::ProfileArguments),
    /// Record real traffic: a proxy between any driver and any server
    Record(crate::record::RecordArguments),
    /// Replay a recording against one target or several in turn
    Replay(Box<crate::replay::ReplayArguments>),
}
