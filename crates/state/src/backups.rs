//! The copy of the data that a backup cursor holds: a checkpoint of the engine's files, mostly hard
//! links, in a folder inside the data directory.
//!
//! Promises: at most one backup is open; its files do not change; they are removed when the cursor
//! ends, and the files of a killed server at the next start.
//! Must not know: the client that copies the files.

use model::{MongoError, Result, bail, code};
use parking_lot::Mutex;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use store::Store;

/// The folder of the backup in the data directory. Engines ignore hidden names.
const FOLDER: &str = ".backup-cursor";

/// Whether a backup cursor is open, and the directory of its files.
#[derive(Debug, Default)]
pub struct Backups {
    folder: OnceLock<PathBuf>,
    open: Mutex<bool>,
}

/// The files of one backup cursor; they are removed when this is dropped.
#[derive(Debug)]
pub struct OpenBackup {
    backups: Arc<Backups>,
    directory: PathBuf,
}

impl Backups {
    /// Sets the data directory, which no other process has open, and removes the files that an
    /// earlier run has left.
    ///
    /// # Errors
    /// A message in one line.
    pub fn keep_in(&self, data: &Path) -> std::result::Result<(), String> {
        let folder = data.join(FOLDER);
        let removed = remove(&folder);
        removed.map_err(|e| format!("cannot remove {}: {e}", folder.display()))?;
        // The cell is set once, at the start.
        let _ = self.folder.set(folder);
        Ok(())
    }

    /// Whether a backup cursor is open.
    pub fn is_open(&self) -> bool {
        *self.open.lock()
    }

    /// Creates a checkpoint of the current state in a folder called `name`, which no other backup
    /// uses.
    ///
    /// # Errors
    /// 50886 when a backup cursor is open already, 115 CommandNotSupported when the engine has no
    /// files; engine failures.
    pub fn open(self: &Arc<Self>, store: &Store, name: &str) -> Result<OpenBackup> {
        let caps = store.engine().caps();
        let Some(folder) = self.folder.get().filter(|_| caps.checkpoint) else {
            let advice = match caps.persistent {
                true => "its data lie in a cluster, back them up by its own tools",
                false => "its data lie in memory",
            };
            bail!(
                code::COMMAND_NOT_SUPPORTED,
                "storage engine {} has no files to copy: {advice}",
                caps.name
            );
        };
        let mut open = self.open.lock();
        if *open {
            bail!(
                50886,
                "a backup cursor is open, and there can be one at a time; kill it or wait for its \
                 end"
            );
        }
        let directory = folder.join(name);
        fs::create_dir_all(folder).map_err(|e| keep_error(&directory, &e))?;
        // From here on the files are removed when the value is dropped.
        let backup = OpenBackup {
            backups: Arc::clone(self),
            directory,
        };
        *open = true;
        drop(open);
        store.checkpoint(&backup.directory)?;
        Ok(backup)
    }
}

impl OpenBackup {
    /// The directory of the files.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The files with their sizes, sorted by path.
    ///
    /// # Errors
    /// 8 UnknownError with the file system's reason.
    pub fn files(&self) -> Result<Vec<(PathBuf, u64)>> {
        let mut files = Vec::new();
        let mut folders = vec![self.directory.clone()];
        while let Some(folder) = folders.pop() {
            let entries = fs::read_dir(&folder).map_err(|e| keep_error(&folder, &e))?;
            for entry in entries {
                let path = entry.map_err(|e| keep_error(&folder, &e))?.path();
                let found = fs::metadata(&path).map_err(|e| keep_error(&path, &e))?;
                match found.is_dir() {
                    true => folders.push(path),
                    false => files.push((path, found.len())),
                }
            }
        }
        files.sort_unstable();
        Ok(files)
    }
}

impl Drop for OpenBackup {
    fn drop(&mut self) {
        // Files that cannot be removed now are removed at the next start.
        let _ = remove(&self.directory);
        *self.backups.open.lock() = false;
    }
}

fn remove(folder: &Path) -> std::io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

fn keep_error(path: &Path, e: &std::io::Error) -> MongoError {
    let line = format!("cannot keep a state of the data in {}: {e}", path.display());
    MongoError::new(code::UNKNOWN_ERROR, line)
}
