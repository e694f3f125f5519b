//! The reason of a failure, as one line.

use std::path::Path;

/// One line for people: which file, the defect, what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupError(String);

/// A result of this crate.
pub type Result<T> = std::result::Result<T, BackupError>;

impl BackupError {
    /// An error with this line.
    pub fn new(line: impl Into<String>) -> BackupError {
        BackupError(line.into())
    }

    /// `cannot STEP PATH: CAUSE`.
    pub(crate) fn io(step: &str, path: &Path, cause: &std::io::Error) -> BackupError {
        BackupError(format!("cannot {step} {}: {cause}", path.display()))
    }
}

impl std::fmt::Display for BackupError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BackupError {}
