//! Files that are written completely or not at all, and survive a loss of power once they exist.

use crate::error::{BackupError, Result};
use crate::manners;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::Path;

/// Creates a folder and its parents.
pub(crate) fn make(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|e| BackupError::io("make", path, &e))
}

/// Makes additions to a folder and removals from it durable.
pub(crate) fn sync(folder: &Path) -> Result<()> {
    File::open(folder)
        .and_then(|f| f.sync_all())
        .map_err(|e| BackupError::io("flush", folder, &e))
}

/// Renames a finished and flushed file to its name, durably.
pub(crate) fn publish(unfinished: &Path, name: &Path) -> Result<()> {
    fs::rename(unfinished, name).map_err(|e| BackupError::io("name", name, &e))?;
    name.parent().map_or(Ok(()), sync)
}

/// Writes a small file through `unfinished`.
pub(crate) fn write(unfinished: &Path, name: &Path, bytes: &[u8]) -> Result<()> {
    let write = || {
        let mut file = File::create(unfinished)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        manners::let_go(&file, 0, bytes.len() as u64);
        Ok(())
    };
    write().map_err(|e| BackupError::io("write", unfinished, &e))?;
    publish(unfinished, name)
}

/// Removes a file if it exists.
pub(crate) fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(BackupError::io("remove", path, &e)),
        _ => Ok(()),
    }
}

/// The names in a folder, sorted; none when the folder does not exist.
pub(crate) fn names(folder: &Path) -> Result<Vec<String>> {
    let fail = |e: std::io::Error| BackupError::io("read", folder, &e);
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(fail(e)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(fail)?.file_name();
        let name = name.into_string().map_err(|name| {
            let folder = folder.display();
            BackupError::new(format!("{folder} holds {name:?}, whose name is not UTF-8"))
        })?;
        names.push(name);
    }
    names.sort_unstable();
    Ok(names)
}
