//! Helpers for replies and errors of the driver.

use mongodb::bson::{Bson, Document};
use mongodb::error::{Error, ErrorKind};

/// The error label by which an overloaded server asks its clients to come back later.
pub(super) const OVERLOADED_LABEL: &str = "SystemOverloadedError";

/// A number in a reply, of any numeric type.
pub(crate) fn integer(document: &Document, key: &str) -> Option<i64> {
    match document.get(key)? {
        Bson::Int32(value) => Some(i64::from(*value)),
        Bson::Int64(value) => Some(*value),
        Bson::Double(value) if value.is_finite() => Some(*value as i64),
        _ => None,
    }
}

/// The driver's message without its inner structure, on one line.
pub(crate) fn one_line(error: &Error) -> String {
    let text = match error.kind.as_ref() {
        ErrorKind::ServerSelection { .. } => {
            "no server answered within the time for server selection".to_owned()
        }
        ErrorKind::Io(inner) => inner.to_string(),
        ErrorKind::InvalidArgument { message, .. } => message.clone(),
        ErrorKind::Command(inner) => {
            format!("{} ({} {})", inner.message, inner.code, inner.code_name)
        }
        other => other.to_string(),
    };
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
