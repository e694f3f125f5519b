//! From storage errors to MongoDB's. The only place where engine failures get a number.

use model::{ErrorKind, MongoError, code};
use storage::StorageError;

/// Translates an engine failure.
pub fn storage(e: StorageError) -> MongoError {
    let code = match &e {
        StorageError::Conflict => code::WRITE_CONFLICT,
        StorageError::Full { .. } => code::OUT_OF_DISK_SPACE,
        StorageError::KeyTooLong { .. } | StorageError::TooLarge { .. } => {
            code::BSON_OBJECT_TOO_LARGE
        }
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
        | StorageError::Contract(_)
        | StorageError::Undetermined => code::INTERNAL_ERROR,
    };
    MongoError::new(code, e.to_string())
}

/// An index entry longer than the engine takes. MongoDB has no such limit; this one is at
/// megabytes.
pub fn key_too_long(index: &str, bytes: usize, bytes_max: usize) -> MongoError {
    MongoError::new(
        17_280,
        format!("the entry of index {index} has {bytes} bytes, at most {bytes_max} are allowed"),
    )
}

/// The operation ends here and is run again.
pub(crate) fn set_aside() -> MongoError {
    let waits = MongoError::new(code::INTERRUPTED, "the operation waits to be run again");
    waits.kind(ErrorKind::SetAside)
}

/// Whether a commit has met a change by another process: nothing was written, and what decided it
/// has to be read again. Not for the commit of a transaction, which is a conflict of its client.
pub(crate) fn is_conflict(e: &MongoError) -> bool {
    e.code() == code::WRITE_CONFLICT
}

/// A stored row that cannot be read.
pub fn corrupt(what: &str) -> MongoError {
    let what = format!("stored data is corrupt: {what}");
    MongoError::new(code::DATA_CORRUPTION_DETECTED, what)
}
