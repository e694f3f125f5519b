//! What happens before RocksDB sees a directory: whose it is, which format it has. Every refusal is a typed error.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use storage::{Result, StorageError};

use crate::config::TABLE_FORMAT;

/// Version of the layout this room is responsible for: tables, their numbers and options that must not change.
/// History: 1 six column families, `Meta` as the default one, counter merge operator on `Meta`.
pub const DISK_FORMAT: u32 = 1;

const MARKER: &str = "QUARRY-ENGINE";

/// Makes sure that `path` is ours: an empty directory becomes ours, a foreign or newer one is refused.
///
/// # Errors
/// [`StorageError::ForeignDirectory`], [`StorageError::NewerFormat`], [`StorageError::Io`]
pub(crate) fn claim(path: &Path, create: bool) -> Result<()> {
    let fail = |step: &str, error: std::io::Error| StorageError::io(format!("cannot {step} {}", path.display()), error);
    if create {
        fs::create_dir_all(path).map_err(|error| fail("create", error))?;
    }
    match fs::read_to_string(path.join(MARKER)) {
        Ok(text) => return check_marker(path, &text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(fail("read", error)),
    }
    for entry in fs::read_dir(path).map_err(|error| fail("read", error))? {
        let name = entry.map_err(|error| fail("read", error))?.file_name();
        let name = name.to_string_lossy();
        // A fresh file system has this one, and hidden files harm nobody.
        if name != "lost+found" && !name.starts_with('.') {
            return Err(foreign(path, &format!("it holds {name:?} but no {MARKER} file")));
        }
    }
    if !create {
        return Err(foreign(path, "it is empty"));
    }
    mark(path)
}

/// Writes the marker into a directory that is ours, e.g. a checkpoint.
pub(crate) fn mark(path: &Path) -> Result<()> {
    let text = format!("engine rocksdb\nformat {DISK_FORMAT}\ntable_format {TABLE_FORMAT}\n");
    let target = path.join(MARKER);
    let write = || -> std::io::Result<()> {
        let fresh = path.join(".QUARRY-ENGINE.new");
        let mut file = File::create(&fresh)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&fresh, &target)?;
        File::open(path)?.sync_all()
    };
    write().map_err(|error| StorageError::io(format!("cannot write {}", target.display()), error))
}

fn check_marker(path: &Path, text: &str) -> Result<()> {
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    match field("engine ") {
        Some("rocksdb") => {}
        other => {
            return Err(foreign(
                path,
                &format!("it belongs to engine {}", other.unwrap_or("(none)")),
            ));
        }
    }
    match field("format ").and_then(|number| number.parse::<u32>().ok()) {
        Some(found) if found > DISK_FORMAT => Err(StorageError::NewerFormat {
            found,
            supported: DISK_FORMAT,
        }),
        Some(_) => Ok(()),
        None => Err(foreign(path, &format!("its {MARKER} file names no format"))),
    }
}

fn foreign(path: &Path, found: &str) -> StorageError {
    StorageError::ForeignDirectory {
        path: path.display().to_string(),
        found: found.to_owned(),
    }
}
