//! Translates storage errors into MongoDB errors. The only place where an engine failure gets a
//! number.

use model::{ErrorKind, MongoError, Namespace, code};
use storage::StorageError;

/// Translates an engine failure.
pub fn storage(e: StorageError) -> MongoError {
    let code = match &e {
        StorageError::Conflict => code::WRITE_CONFLICT,
        StorageError::Full { .. } => code::OUT_OF_DISK_SPACE,
        StorageError::KeyTooLong { .. } | StorageError::TooLarge { .. } => {
            code::BSON_OBJECT_TOO_LARGE
        }
        StorageError::Outdated => code::QUERY_PLAN_KILLED,
        StorageError::ReadOnly { .. } => code::NOT_WRITABLE_PRIMARY,
        StorageError::Closed => code::INTERRUPTED_AT_SHUTDOWN,
        StorageError::Unsupported(_) => code::COMMAND_NOT_SUPPORTED,
        StorageError::SnapshotTooOld { .. } => code::SNAPSHOT_TOO_OLD,
        StorageError::Busy(_) => code::LOCK_TIMEOUT,
        StorageError::Unreachable(_) => code::HOST_UNREACHABLE,
        StorageError::Locked { .. } => code::DB_PATH_IN_USE,
        StorageError::ForeignDirectory { .. } | StorageError::NewerFormat { .. } => {
            code::UNSUPPORTED_FORMAT
        }
        StorageError::Corrupt { .. } => code::DATA_CORRUPTION_DETECTED,
        StorageError::Io { .. }
        | StorageError::JournalDamaged { .. }
        | StorageError::NotUnlocked { .. }
        | StorageError::Untrusted { .. }
        | StorageError::Contract(_)
        | StorageError::Undetermined => code::INTERNAL_ERROR,
    };
    let kind = match &e {
        StorageError::Outdated => ErrorKind::Outdated,
        _ => ErrorKind::Plain,
    };
    MongoError::new(code, e.to_string()).kind(kind)
}

/// An index entry is longer than the engine takes. MongoDB has no such limit; this one is several
/// megabytes.
pub fn key_too_long(index: &str, bytes: usize, bytes_max: usize) -> MongoError {
    MongoError::new(
        17_280,
        format!("the entry of index {index} has {bytes} bytes, at most {bytes_max} are allowed"),
    )
}

/// The error 175 QueryPlanKilled for a collection that was dropped, renamed or replaced.
pub(crate) fn collection_gone(ns: &Namespace) -> MongoError {
    let gone = format!("collection dropped or renamed: {ns}");
    MongoError::new(code::QUERY_PLAN_KILLED, gone).kind(ErrorKind::CollectionGone)
}

/// The operation is set aside and will be run again.
pub(crate) fn set_aside() -> MongoError {
    let waits = MongoError::new(code::INTERRUPTED, "the operation waits to be run again");
    waits.kind(ErrorKind::SetAside)
}

/// Whether a commit failed because another process changed data that the write depends on: nothing
/// was written, and that data has to be read again. Not for the commit of a transaction, where the
/// client gets the conflict.
pub(crate) fn is_conflict(e: &MongoError) -> bool {
    e.code() == code::WRITE_CONFLICT
}

/// A stored row that cannot be read.
pub fn corrupt(what: &str) -> MongoError {
    let what = format!("stored data is corrupt: {what}");
    MongoError::new(code::DATA_CORRUPTION_DETECTED, what)
}
