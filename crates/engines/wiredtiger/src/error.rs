//! Maps WiredTiger's error numbers to `StorageError`. Its own text is kept in `source()`.

use std::ffi::c_int;
use std::sync::Arc;

use storage::{Cause, FileLocation, StorageError};

/// The transaction was rolled back and may be tried again.
pub(crate) const AGAIN: c_int = 1_000_001;
const NO_MEMORY: c_int = 1_000_002;
const DAMAGED: c_int = 1_000_003;
const ENOSPC: c_int = 28;
const EDQUOT: c_int = 122;

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct EngineMessage(String);

/// Maps an error number; `step` names what was attempted, `said` is the engine's text: the cause in
/// the first line, its consequences after it.
pub(crate) fn classify(step: &'static str, status: c_int, said: &str) -> StorageError {
    let lines: Vec<_> = said.lines().map(str::trim).collect();
    let words = lines.join("; ");
    let context = match lines
        .iter()
        .find_map(|line| FileLocation::parse_message(line))
    {
        Some(place) => format!("{place}, found by {step}"),
        None => step.to_owned(),
    };
    let cause = (!words.is_empty()).then(|| Arc::new(EngineMessage(words)) as Cause);
    match status {
        AGAIN => StorageError::Busy(format!(
            "the engine gave up {step} because its cache is full"
        )),
        NO_MEMORY => StorageError::Busy(format!("no memory for {step}")),
        ENOSPC | EDQUOT => StorageError::Full {
            context: format!("the device is full during {step}"),
        },
        DAMAGED => StorageError::Corrupt {
            context,
            source: cause,
        },
        _ => StorageError::Io {
            context,
            source: cause,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_page_names_file_and_byte() {
        let words = "file:doc.wt, WT_CURSOR.search: doc.wt: read checksum error for 4096B block \
            at offset 12288: block header checksum";
        assert_eq!(
            classify("a read", DAMAGED, words).to_string(),
            "stored data is corrupt: file doc.wt at byte 12288, found by a read"
        );
    }
}
