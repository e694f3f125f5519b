//! Maps RocksDB's error texts to `StorageError`. The text itself is kept in `source()`.

use std::path::Path;
use std::sync::Arc;

use storage::{FileLocation, StorageError};

/// The text of RocksDB's error.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct EngineMessage(pub(crate) String);

/// Maps an error of a running engine; `step` names what was attempted.
pub(crate) fn sort(step: &'static str, text: String) -> StorageError {
    sort_of_thread(step, text, None)
}

/// As [`sort`], for a call of this thread, which last read a blob file at `last`: RocksDB does not
/// report where a value in a blob file is damaged.
pub(crate) fn sort_of_thread(
    step: &'static str,
    text: String,
    last: Option<FileLocation>,
) -> StorageError {
    if is_full(&text) {
        return StorageError::Full {
            context: format!("the device is full during {step}"),
        };
    }
    let source = Some(Arc::new(EngineMessage(text.clone())) as storage::Cause);
    let kind = text.split(':').next().unwrap_or_default();
    match kind {
        "Corruption" => StorageError::Corrupt {
            context: format_step(step, &text, last),
            source,
        },
        "Shutdown in progress" => StorageError::Closed,
        "Not implemented" => StorageError::Unsupported(step),
        "Resource busy"
        | "Operation failed. Try again."
        | "Operation timed out"
        | "Result incomplete" => StorageError::Busy(step.to_owned()),
        _ => StorageError::Io {
            context: format_step(step, &text, last),
            source,
        },
    }
}

/// The step, with the file and the place where it failed.
fn format_step(step: &str, text: &str, last: Option<FileLocation>) -> String {
    let is_of_blob = text.contains("blob") || text.contains("Blob");
    match FileLocation::parse_message(text).or(last.filter(|_| is_of_blob)) {
        Some(place) => format!("{place}, found by {step}"),
        None => step.to_owned(),
    }
}

/// The reason why writes are refused until an error of background work is resolved.
pub(crate) fn format_standing(text: &str) -> String {
    let place =
        FileLocation::parse_message(text).map_or_else(String::new, |place| format!(" on {place}"));
    format!("background work failed{place}, see the engine's log")
}

/// Whether the text reports damage in files other than the journal, or a failure to read or write
/// them.
pub(crate) fn is_beside_journal(text: &str) -> bool {
    FileLocation::parse_message(text).is_some_and(|place| !place.file.ends_with(".log"))
}

/// Maps an error of opening `path`.
pub(crate) fn sort_open(path: &Path, text: String) -> StorageError {
    let shown = path.display().to_string();
    if text.contains("/LOCK")
        && (text.contains("lock") || text.contains("Lock"))
        && !text.contains("Permission denied")
    {
        return StorageError::Locked { path: shown };
    }
    match sort("opening", text) {
        StorageError::Io { source, .. } => StorageError::Io {
            context: format!("cannot open {}", format_location(&shown, &source)),
            source,
        },
        StorageError::Corrupt { source, .. } => StorageError::Corrupt {
            context: format_location(&shown, &source),
            source,
        },
        StorageError::Full { .. } => StorageError::Full {
            context: format!("the device of {shown} is full"),
        },
        other => other,
    }
}

/// A directory, with the place in one of its files that the cause names.
fn format_location(shown: &str, cause: &Option<storage::Cause>) -> String {
    let text = cause.as_ref().map(ToString::to_string).unwrap_or_default();
    match FileLocation::parse_message(&text) {
        Some(place) => format!("{shown}, {place}"),
        None => shown.to_owned(),
    }
}

/// Whether the text reports a full device or an exhausted quota.
pub(crate) fn is_full(text: &str) -> bool {
    text.contains("No space left")
        || text.contains("Disk quota exceeded")
        || text.contains("NoSpace")
        || text.contains("SpaceLimit")
}

/// Whether the text reports an earlier failure.
pub(crate) fn is_earlier(text: &str) -> bool {
    text.contains("previous error")
}

/// Whether the journal's bytes are intact: true for an append that found no space, false for a
/// failed fdatasync (after which the system may have dropped written data).
pub(crate) fn leaves_journal(text: &str) -> bool {
    is_full(text) && !text.contains("fdatasync") && !text.contains("fsync")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_sorted() {
        let full = "IO error: No space left on device: While appending to file: x.sst: No space \
            left on device";
        assert!(matches!(
            sort("a write", full.into()),
            StorageError::Full { .. }
        ));
        assert!(matches!(
            sort("a read", "Corruption: bad block".into()),
            StorageError::Corrupt { .. }
        ));
        let lock = "IO error: lock hold by current process, acquire time 1 acquiring thread 2: \
            /d/LOCK: No locks available";
        assert!(matches!(
            sort_open(Path::new("/d"), lock.into()),
            StorageError::Locked { .. }
        ));
        let other = sort_open(
            Path::new("/d"),
            "IO error: Permission denied: /d/LOCK".into(),
        );
        assert_eq!(other.to_string(), "input/output error: cannot open /d");
    }
}
