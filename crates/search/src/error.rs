//! Errors of search. The reference's search process refuses a definition or a query with one code,
//! 8 UnknownError, whatever is wrong; the message says what.

use model::{MongoError, code};

/// A definition or a query that cannot be used.
pub(crate) fn invalid(message: impl Into<String>) -> MongoError {
    MongoError::new(code::UNKNOWN_ERROR, message)
}

/// The index could not be read or written.
pub(crate) fn failed(what: &str, error: &dyn std::fmt::Display) -> MongoError {
    MongoError::internal(format!("search index: {what}: {error}"))
}
