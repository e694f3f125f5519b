//! Maps LMDB's errors to `StorageError`. LMDB's own text is kept in `source()`.

use std::sync::Arc;

use heed::{Error, MdbError};
use storage::{Cause, StorageError};

const FILE: &str = "data.mdb";

/// The text of LMDB's error.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct EngineMessage(String);

/// Maps an error; `step` names what was attempted.
pub(crate) fn classify(step: &'static str, error: Error) -> StorageError {
    let cause = |text: String| Some(Arc::new(EngineMessage(text)) as Cause);
    match error {
        Error::Io(e) if is_full(&e) => StorageError::Full {
            context: format!("the device is full during {step}"),
        },
        Error::Mdb(MdbError::MapFull) => StorageError::Full {
            context: format!("the file has reached the size of its map during {step}"),
        },
        Error::Mdb(MdbError::TxnFull) => StorageError::Full {
            context: format!("one transaction cannot change so many pages ({step})"),
        },
        Error::Mdb(MdbError::ReadersFull) => {
            StorageError::Busy("every slot for readers is taken".to_owned())
        }
        Error::Mdb(e @ (MdbError::Corrupted | MdbError::PageNotFound | MdbError::Invalid)) => {
            // LMDB has one file, and does not report the page.
            StorageError::Corrupt {
                context: format!("file {FILE}, found by {step}"),
                source: cause(e.to_string()),
            }
        }
        other => StorageError::Io {
            context: step.to_owned(),
            source: cause(other.to_string()),
        },
    }
}

fn is_full(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded
    )
}

/// The error for an entry that no version of this crate writes.
pub(crate) fn corrupt(context: &str) -> StorageError {
    StorageError::Corrupt {
        context: context.to_owned(),
        source: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_page_names_the_file() {
        let error = classify("a read", Error::Mdb(MdbError::Corrupted));
        assert_eq!(
            error.to_string(),
            "stored data is corrupt: file data.mdb, found by a read"
        );
    }
}
