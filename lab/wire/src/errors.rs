//! What can go wrong with a run, each as one line that says what to do about it.

use std::path::PathBuf;

use lab_kit::folder::FolderError;
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
    /// The connection string is not one.
    #[error("--target '{uri}' is not a usable connection string: {reason}")]
    Uri {
        /// As given, password removed.
        uri: String,
        /// What the driver says.
        reason: String,
    },
    /// Nothing answers there.
    #[error("cannot reach {uri}: {reason}")]
    Unreachable {
        /// As given, password removed.
        uri: String,
        /// What the driver says.
        reason: String,
    },
    /// The target refused something the run needs.
    #[error("the target refused {what}: {reason}")]
    Refused {
        /// What was asked.
        what: String,
        /// What it said.
        reason: String,
    },
    /// Data that is not ours is in the way.
    #[error(
        "collection {namespace} already holds {documents} documents; use --drop to delete them, or another --db"
    )]
    InTheWay {
        /// Database and collection.
        namespace: String,
        /// How many.
        documents: u64,
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
    /// The machine lacks something.
    #[error("cannot start: {0}")]
    Machine(#[from] std::io::Error),
}
