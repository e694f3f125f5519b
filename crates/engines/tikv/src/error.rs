//! Maps the cluster's errors to those of the contract. Must not know: what was requested.

use storage::StorageError;
use tikv_client::Error;

/// The error for a request that failed in all attempts.
pub(crate) fn unreachable_error(step: &'static str, error: Error) -> StorageError {
    let why = with_causes(&error);
    let told = format!("{step} did not succeed on the cluster within 25 seconds: {why}");
    StorageError::Unreachable(told)
}

/// An error and its causes: what failed in TLS is known only by the last one.
fn with_causes(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        let line = next.to_string();
        if !text.contains(&line) {
            text = format!("{text}: {line}");
        }
        cause = next.source();
    }
    text
}

/// The error for stored bytes that differ from those written.
pub(crate) fn corrupt(what: &str) -> StorageError {
    StorageError::Corrupt {
        context: what.to_owned(),
        source: None,
    }
}

/// Whether a commit was refused because a key has changed since its transaction began: no commit
/// was requested for its locks.
pub(crate) fn is_conflict(error: &Error) -> bool {
    match error {
        Error::KeyError(e) => e.conflict.is_some() || e.already_exist.is_some(),
        Error::MultipleKeyErrors(all) | Error::ExtractedErrors(all) => {
            !all.is_empty() && all.iter().all(is_conflict)
        }
        _ => false,
    }
}

/// Whether a commit was given up before one was requested for its locks: because others kept theirs
/// or because the oracle did not answer.
pub(crate) fn is_given_up(error: &Error) -> bool {
    match error {
        Error::ResolveLockError(_) | Error::NoCommitTimestamp(_) => true,
        Error::MultipleKeyErrors(all) | Error::ExtractedErrors(all) => {
            !all.is_empty() && all.iter().all(|e| is_given_up(e) || is_conflict(e))
        }
        _ => false,
    }
}

/// Whether another attempt cannot succeed: all other errors may come from a region that moves, a
/// store that restarts or a network failure.
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
