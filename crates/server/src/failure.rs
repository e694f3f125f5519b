//! Why a command of the binary failed.

use backup::BackupError;
use storage::StorageError;

/// One line and an exit code.
#[derive(Debug)]
pub struct Failure {
    /// One line.
    pub message: String,
    /// Exit code.
    pub code: u8,
}

/// Wrong options, as clap's.
const OPTIONS: u8 = 2;
/// A server does not answer as it should; mongod uses this code when it cannot bind an address.
const NETWORK: u8 = 48;
/// As mongod: the data cannot be read or written.
const DATA: u8 = 100;

impl Failure {
    /// Options that are inconsistent or have no meaning.
    pub fn of_options(message: impl Into<String>) -> Failure {
        let (message, code) = (message.into(), OPTIONS);
        Failure { message, code }
    }

    /// A server that cannot be asked.
    pub fn of_network(message: impl Into<String>) -> Failure {
        let (message, code) = (message.into(), NETWORK);
        Failure { message, code }
    }

    /// Data that cannot be read or written, or are wrong.
    pub fn of_data(message: impl Into<String>) -> Failure {
        let (message, code) = (message.into(), DATA);
        Failure { message, code }
    }
}

impl From<BackupError> for Failure {
    fn from(e: BackupError) -> Failure {
        Failure::of_data(e.to_string())
    }
}

impl From<StorageError> for Failure {
    fn from(e: StorageError) -> Failure {
        let cause = std::error::Error::source(&e).map(|c| format!(" ({c})"));
        Failure::of_data(format!("{e}{}", cause.unwrap_or_default()))
    }
}

/// An error with its cause.
pub(crate) fn with_cause(error: &StorageError) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
