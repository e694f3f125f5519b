//! Options of `replay`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::command;
use crate::errors::LabError;

/// Options of `replay`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  quarry-lab replay load.qrec --target mongodb://127.0.0.1:27017 --out results
  quarry-lab replay load.qrec --target mongodb://a:27017 --target mongodb://b:27017 --style stress \
  --out results
  quarry-lab replay load.qrec --target mongodb://a:27017 --ops query,getMore --speed 4 --out results

The target must hold the data that the recorded server held when the recording began. The replay \
writes, drops and creates collections as recorded: use a server that holds nothing else.
Exit status: 0 all answers as recorded; 3 ended early; 4 answers differ.")]
pub(crate) struct ReplayArguments {
    /// Recording of `quarry-lab record`
    pub(crate) file: PathBuf,
    /// Server to replay against; repeat the option to replay against several in turn, on one page
    #[arg(long, value_name = "ADDRESS", required = true)]
    pub(crate) target: Vec<String>,
    /// Folder for results; each target gets a folder in it
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// When operations are sent
    #[arg(long, value_enum, default_value = "real")]
    pub(crate) style: ReplayMode,
    /// Factor of the speed with --style real: 2 sends twice as fast as recorded
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    pub(crate) speed: f64,
    /// Most operations in progress at once, 1 to 4096
    #[arg(long, value_name = "N", default_value_t = 50,
        value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) workers: u32,
    /// What an operation waits for [default: connection with --style stress, recorded with --style
    /// real]
    #[arg(long, value_enum)]
    pub(super) order: Option<Order>,
    /// Kinds of operation to replay, separated by commas, such as
    /// insert,update,remove,query,getMore,count [default: all]
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub(crate) ops: Vec<String>,
    /// Number of operations to leave out at the start
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) skip: u64,
    /// Most operations to replay
    #[arg(long, value_name = "N")]
    pub(crate) max_ops: Option<u64>,
    /// Seconds of the recording to leave out at the start
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0)]
    pub(crate) start: f64,
    /// Start again at the end of the recording, until --seconds, --max-ops or Ctrl-C ends the
    /// replay. Only the answers of the first pass are compared
    #[arg(long)]
    pub(crate) cyclic: bool,
    /// Seconds after which the replay ends
    #[arg(long, value_name = "N")]
    pub(crate) seconds: Option<u64>,
    /// List operations that took at least this many milliseconds in slow.csv
    #[arg(long, value_name = "MS")]
    pub(crate) slow_ms: Option<u64>,
    /// Number of differences that are listed one by one
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) list: usize,
    /// Percentage of the answers that may differ before the check fails
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    pub(crate) allow_differences: f64,
    /// Seconds after which a call counts as unanswered
    #[arg(long, value_name = "N", default_value_t = 60)]
    pub(crate) call_timeout_seconds: u64,
}

/// When operations are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReplayMode {
    /// At the recorded times, divided by --speed
    Real,
    /// As fast as --workers allow
    Stress,
}

/// What an operation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Order {
    /// The earlier operations of its connection
    Connection,
    /// Also all operations that had been answered when it was sent
    Recorded,
}

impl ReplayMode {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Real => "real",
            Self::Stress => "stress",
        }
    }
}

impl ReplayArguments {
    pub(super) fn order(&self) -> Order {
        // A driver's pool lets one client wander over connections: only the recorded order keeps
        // its operations apart.
        self.order.unwrap_or(match self.style {
            ReplayMode::Real => Order::Recorded,
            ReplayMode::Stress => Order::Connection,
        })
    }

    pub(super) fn check(&self) -> Result<(), LabError> {
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
