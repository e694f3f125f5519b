//! Words of the cluster in terms of the contract. Must not know: what was asked for.

use storage::StorageError;
use tikv_client::Error;

/// A request that did not succeed however often it was tried.
pub(crate) fn unanswered(step: &'static str, error: Error) -> StorageError {
    let told = format!("{step} did not succeed on the cluster within 25 seconds: {error}");
    StorageError::Unreachable(told)
}

/// Bytes that are not what was written.
pub(crate) fn corrupt(what: &str) -> StorageError {
    StorageError::Corrupt {
        context: what.to_owned(),
        source: None,
    }
}

/// What is never better the next time: everything else may be a region that moves, a store that
/// restarts or a network that drops.
pub(crate) fn is_final(error: &Error) -> bool {
    matches!(
        error,
        Error::Unimplemented
            | Error::InvalidTransactionType
            | Error::OperationAfterCommitError
            | Error::NoPrimaryKey
            | Error::UnsupportedMode
            | Error::Url(_)
            | Error::KeyspaceNotFound(_)
    )
}
