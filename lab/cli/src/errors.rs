//! The errors of a run, each as one line that says what to do.

use std::path::PathBuf;

use lab_kit::folder::FolderError;
use lab_kit::target::TargetError;
use lab_kit::workload::WorkloadError;

/// Why a command did not succeed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LabError {
    /// Wrong workload, preset or setting.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// Results cannot be written or read.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The target cannot be reached, refuses, or holds data of others.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// Runs that are not repeats of one experiment.
    #[error(transparent)]
    Compare(#[from] lab_kit::compare::CompareError),
    /// Runs that do not fit on one page.
    #[error(transparent)]
    Runs(#[from] lab_kit::report::RunsError),
    /// Stacks that cannot be taken.
    #[error("{0}")]
    Profile(String),
    /// Stacks that cannot be read or drawn.
    #[error(transparent)]
    Stacks(#[from] lab_kit::profile::ProfileError),
    /// A page for several runs needs `--out`, because it has no folder.
    #[error("a page of several runs needs a place: give --out FILE")]
    NeedsOut,
    /// Nothing of the workload would be left.
    #[error("nothing to measure: {lacks} is missing")]
    Nothing {
        /// What the target lacks.
        lacks: String,
    },
    /// The run in that folder is complete.
    #[error("the run in {} is complete; there is nothing to resume", folder.display())]
    NothingToResume {
        /// The folder.
        folder: PathBuf,
    },
    /// The data were changed between the interruption and now.
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
    /// The run ended early; what it saw is written.
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
        /// Which check.
        what: String,
        /// Where the results are.
        folder: PathBuf,
    },
    /// A recording that cannot be made.
    #[error("recording ended early: {0}")]
    Recording(String),
    /// A recording that cannot be read or written.
    #[error("{0}")]
    RecordingFile(String),
    /// Options of a replay that do not fit.
    #[error("{0}")]
    Replay(String),
    /// The limit on memory cannot be had.
    #[error("memory cannot be limited: {reason}")]
    NoLimit {
        /// What each way lacks.
        reason: String,
    },
    /// What another run loaded is not there any more.
    #[error("the data that {} loaded are not there any more: {reason}", folder.display())]
    Gone {
        /// That run.
        folder: PathBuf,
        /// What was found.
        reason: String,
    },
    /// Lists of a sweep or names of own servers that make no sense.
    #[error("{0}")]
    Words(String),
    /// A sweep that cannot be made.
    #[error("{reason}")]
    Sweep {
        /// Why.
        reason: String,
    },
    /// A sweep that ended before its last run.
    #[error("sweep ended early: {reason}; quarry-lab resume {} goes on", folder.display())]
    SweepStopped {
        /// Why.
        reason: String,
        /// Its folder.
        folder: PathBuf,
    },
    /// An agent that cannot be used, or cannot listen.
    #[error("agent {0}")]
    Agent(String),
    /// The machine lacks something.
    #[error("cannot start: {0}")]
    Machine(#[from] std::io::Error),
}

impl LabError {
    /// Whether the words of the command line are wrong, whatever the target is.
    pub(crate) fn is_of_the_command_line(&self) -> bool {
        match self {
            Self::Workload(error) => !matches!(error, WorkloadError::File(_)),
            Self::Target(error) => matches!(error, TargetError::Address { .. }),
            Self::Words(_) | Self::NeedsOut => true,
            _ => false,
        }
    }
}
