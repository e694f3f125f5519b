//! The errors of a run, each as one line that says what to do.

use std::path::PathBuf;

use lab_kit::folder::FolderError;
use lab_kit::target::TargetError;
use lab_kit::workload::WorkloadError;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LabError {
    /// Wrong workload, preset or setting.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// Results cannot be written or read.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The target cannot be reached, refuses, or contains data that the lab did not make.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The runs are not repeats of one experiment.
    #[error(transparent)]
    Compare(#[from] lab_kit::compare::CompareError),
    /// The runs do not fit on one page.
    #[error(transparent)]
    Runs(#[from] lab_kit::report::RunsError),
    /// The stacks cannot be taken.
    #[error("{0}")]
    Profile(String),
    /// The stacks cannot be read or drawn.
    #[error(transparent)]
    Stacks(#[from] lab_kit::profile::ProfileError),
    /// A page for several runs needs `--out`, because it has no folder.
    #[error("a page of several runs needs --out FILE")]
    NeedsOut,
    /// The target supports none of the workload's measured steps.
    #[error("there is nothing to measure: {lacks} is missing")]
    Nothing {
        /// The capabilities that the target lacks.
        lacks: String,
    },
    /// The run in that folder is complete.
    #[error("the run in {} is complete; there is nothing to resume", folder.display())]
    NothingToResume {
        /// The folder.
        folder: PathBuf,
    },
    /// The data have changed since the interruption.
    #[error(
        "the data have changed since the interruption: expected {expected} documents, found \
            {found}; start the run again"
    )]
    Changed {
        /// Documents at the start of the interrupted step.
        expected: String,
        /// Documents now.
        found: String,
    },
    /// The run ended early; its partial results are written.
    #[error("run ended early: {reason}; partial report in {}", folder.display())]
    Partial {
        /// Why.
        reason: String,
        /// Where the results are.
        folder: PathBuf,
    },
    /// The run ended, but the work was done wrong.
    #[error("check failed: {what}; report in {}", folder.display())]
    Wrong {
        /// The check that failed.
        what: String,
        /// Where the results are.
        folder: PathBuf,
    },
    /// The recording ended early.
    #[error("recording ended early: {0}")]
    Recording(String),
    /// The recording cannot be read or written.
    #[error("{0}")]
    RecordingFile(String),
    /// The options of a replay are invalid.
    #[error("{0}")]
    Replay(String),
    /// Memory cannot be limited.
    #[error("memory cannot be limited: {reason}")]
    NoLimit {
        /// The reason for each way.
        reason: String,
    },
    /// The data that another run loaded no longer exist.
    #[error("the data that {} loaded no longer exists: {reason}", folder.display())]
    Gone {
        /// The folder of that run.
        folder: PathBuf,
        /// The difference that was found.
        reason: String,
    },
    /// Lists of a sweep or names of own servers are invalid.
    #[error("{0}")]
    Words(String),
    /// The sweep cannot be made.
    #[error("{reason}")]
    Sweep {
        /// Why.
        reason: String,
    },
    /// The sweep ended before its last run.
    #[error("sweep ended early: {reason}; quarry-lab resume {} continues it", folder.display())]
    SweepStopped {
        /// Why.
        reason: String,
        /// Its folder.
        folder: PathBuf,
    },
    /// The agent cannot be used, or cannot listen.
    #[error("agent {0}")]
    Agent(String),
    /// The system refuses something that the lab needs.
    #[error("cannot start: {0}")]
    Machine(#[from] std::io::Error),
}

impl LabError {
    /// Whether the command line itself is wrong, independently of the target.
    pub(crate) fn is_of_the_command_line(&self) -> bool {
        match self {
            Self::Workload(error) => !matches!(error, WorkloadError::File(_)),
            Self::Target(error) => matches!(error, TargetError::Address { .. }),
            Self::Words(_) | Self::NeedsOut => true,
            _ => false,
        }
    }
}
