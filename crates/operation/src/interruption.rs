//! Errors that end a whole operation.

use model::{ErrorKind, MongoError, Result, code};

/// True for errors that end a whole command, even if only one of many writes has failed.
pub fn is_interruption(e: &MongoError) -> bool {
    // An operation that is set aside ends as a whole too, and is run again as a whole.
    e.is(ErrorKind::SetAside)
        || matches!(
            e.code(),
            code::MAX_TIME_MS_EXPIRED
                | code::INTERRUPTED
                | code::INTERRUPTED_AT_SHUTDOWN
                | code::INTERRUPTED_DUE_TO_REPL_STATE_CHANGE
                | code::CURSOR_KILLED
                | code::CLIENT_DISCONNECT
                | code::HOST_UNREACHABLE
        )
}

/// 11601, the error of an operation that `killOp` or the end of its session has interrupted.
pub fn interrupted_error() -> MongoError {
    MongoError::new(code::INTERRUPTED, "operation was interrupted")
}

/// The result of a step that has ended.
///
/// # Errors
/// The error by which the operation was set aside: the step has not ended. The caller returns the
/// error to the dispatcher, and the next run of the command continues with this step.
pub fn split_set_aside<T>(result: Result<T>) -> Result<Result<T>> {
    match result {
        Err(again) if again.is(ErrorKind::SetAside) => Err(again),
        ended => Ok(ended),
    }
}
