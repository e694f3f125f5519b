//! Append-only text files: opening them, and renaming an old one. Must not know: what they contain.

use model::extjson::log_time;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// What happens to the old file when the log is rotated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rotate {
    /// The time is appended to its name.
    #[default]
    Rename,
    /// Somebody else has renamed it already.
    Reopen,
}

impl Rotate {
    /// Makes room for a new file; returns the new name of the old one if it was renamed.
    ///
    /// # Errors
    /// One line.
    pub(crate) fn make_room(self, what: &str, path: &Path) -> Result<Option<PathBuf>, String> {
        match self {
            Rotate::Rename if is_file(path) => move_away(what, path).map(Some),
            _ => Ok(None),
        }
    }
}

pub(crate) fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
}

/// Whether it is a regular file; devices and pipes are not renamed.
pub(crate) fn is_file(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.len() > 0)
}

/// Opens a file at its end; `what` names it in the error.
pub(crate) fn open(what: &str, path: &Path) -> Result<File, String> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .map_err(|e| format!("cannot open the {what} {}: {e}", path.display()))
}

/// Renames a file to `NAME.2026-01-31T12-00-00`, with a number appended if that exists.
pub(crate) fn move_away(what: &str, path: &Path) -> Result<PathBuf, String> {
    let mut time = log_time(now_ms());
    time.truncate(19);
    let suffix = time.replace(':', "-");
    for n in 0..1000 {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{suffix}"));
        if n > 0 {
            name.push(format!(".{n}"));
        }
        let to = PathBuf::from(name);
        if to.symlink_metadata().is_ok() {
            continue;
        }
        return std::fs::rename(path, &to)
            .map(|()| to)
            .map_err(|e| format!("cannot rename the {what} {}: {e}", path.display()));
    }
    Err(format!("no free name to rename {} to", path.display()))
}
