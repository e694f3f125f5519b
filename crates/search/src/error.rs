//! Errors of search. The reference's search process refuses every definition or query with one
//! code, 8 UnknownError; the message names the cause.

use model::{MongoError, code};

/// An invalid definition or query.
pub(crate) fn invalid(message: impl Into<String>) -> MongoError {
    MongoError::new(code::UNKNOWN_ERROR, message)
}

/// The index could not be read or written.
pub(crate) fn index_error(what: &str, error: &dyn std::fmt::Display) -> MongoError {
    MongoError::internal(format!("search index: {what}: {error}"))
}
