//! Estimates the memory that an operation on large documents may need, and waits until it is free.
//! Must not know: how the room is counted.

use super::body::database;
use model::{Namespace, Result, Value};
use operation::Operation;
use request::Request;
use request::spec::{LatencyKind, Spec};
use state::room::{OnTimeout, Part};
use state::service::Service;
use std::time::Duration;
use store::LARGE_BYTES;

/// How many copies of a document are in memory while it is written: as read, as changed, in buffers
/// that grow by doubling, with its log entry in the batch, and in the engine's copy of the batch.
const COPIES_WRITTEN: usize = 7;
/// How many copies there are while a document is read: as stored and as found.
const COPIES_READ: usize = 2;
/// Largest document, with its field names.
const DOCUMENT_BYTES_MAX: usize = 17 << 20;
/// Longest reply.
const REPLY_BYTES_MAX: usize = 17 << 20;
/// Messages below this size count as small, whatever they write.
const MESSAGE_BYTES_MIN: usize = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(60);
/// The patience of an operation that may hold locks.
const PATIENCE_OF_HOLDERS: Duration = Duration::from_secs(1);

/// Waits for room for an operation that may need much memory; `None` for all others.
///
/// A statement of a transaction, or an operation that was set aside, `holds` locks that others may
/// wait for. It waits for a second and then begins without room: the operations that have the room
/// may be waiting for its locks.
///
/// # Errors
/// Why the operation was interrupted while it waited; 146 ExceededMemoryLimit when there was no
/// room in time.
///
/// # Cost
/// Two comparisons when no large document is known; otherwise a lookup of the collection.
pub(super) fn take<'s>(
    service: &'s Service,
    request: &Request<'_>,
    command: &Spec,
    operation: &Operation,
    holds: bool,
) -> Result<Option<Part<'s>>> {
    let message = message_bytes(request);
    if message < MESSAGE_BYTES_MIN && !service.store.has_large_documents() {
        return Ok(None);
    }
    let bytes = match command.kind {
        LatencyKind::Write => bytes_written(message, largest(service, request)?),
        LatencyKind::Read => bytes_read(largest(service, request)?),
        LatencyKind::Command => 0,
    };
    if bytes == 0 {
        return Ok(None);
    }
    let check = || operation.check();
    let (patience, late) = match holds {
        true => (PATIENCE_OF_HOLDERS, OnTimeout::Begins),
        false => (PATIENCE, OnTimeout::Refused),
    };
    let part = service.room.take(bytes, patience, late, &check);
    part.map(Some)
}

fn message_bytes(request: &Request<'_>) -> usize {
    let sequences = request.sequences.iter().map(|s| s.documents.len());
    request.body.len_bytes() + sequences.sum::<usize>()
}

/// The largest document of the collection that the request names; 0 when none is large.
fn largest(service: &Service, request: &Request<'_>) -> Result<usize> {
    let db = database(request)?;
    let named = |value: Value<'_>| value.as_str().map(str::to_owned);
    let first = request.body.first().and_then(|(_, value)| named(value));
    let name = first.or_else(|| named(request.body.field("collection")));
    let collection = name
        .and_then(|name| Namespace::new(db, &name).ok())
        .and_then(|ns| service.store.collection(&ns).ok().flatten());
    Ok(collection.map_or(0, |c| c.largest_bytes()))
}

fn bytes_written(message: usize, largest: usize) -> usize {
    // Documents of a message are written one by one or in parts of a megabyte.
    let sent = match message {
        MESSAGE_BYTES_MIN.. => message.min(DOCUMENT_BYTES_MAX),
        _ => 0,
    };
    COPIES_WRITTEN * sent.max(largest.min(DOCUMENT_BYTES_MAX))
}

fn bytes_read(largest: usize) -> usize {
    match largest {
        LARGE_BYTES.. => COPIES_READ * largest.min(DOCUMENT_BYTES_MAX) + REPLY_BYTES_MAX,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_documents_need_no_room() {
        assert_eq!((bytes_written(1000, 0), bytes_read(0)), (0, 0));
        assert_eq!(bytes_written(48 << 20, 0), 7 * (17 << 20));
        assert_eq!(bytes_written(200, 1 << 20), 7 << 20);
        assert_eq!(bytes_read(1 << 20), 19 << 20);
    }
}
