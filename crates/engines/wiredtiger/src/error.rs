//! WiredTiger's numbers sorted into `StorageError`. What it said stays in `source()`.

use std::ffi::c_int;
use std::sync::Arc;

use storage::{Cause, StorageError};

/// The transaction lost; it may be tried again.
pub(crate) const AGAIN: c_int = 1_000_001;
const NO_MEMORY: c_int = 1_000_002;
const DAMAGED: c_int = 1_000_003;
const ENOSPC: c_int = 28;
const EDQUOT: c_int = 122;

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Said(String);

/// Sorts a number; `step` says what was tried, `words` what the engine said.
pub(crate) fn sort(step: &'static str, status: c_int, words: String) -> StorageError {
    let cause = (!words.is_empty()).then(|| Arc::new(Said(words)) as Cause);
    match status {
        AGAIN => StorageError::Busy(format!("the engine gave up {step} for want of cache")),
        NO_MEMORY => StorageError::Busy(format!("no memory for {step}")),
        ENOSPC | EDQUOT => StorageError::Full {
            context: format!("the device is full during {step}"),
        },
        DAMAGED => StorageError::Corrupt {
            context: step.to_owned(),
            source: cause,
        },
        _ => StorageError::Io {
            context: step.to_owned(),
            source: cause,
        },
    }
}
