//! A lock on a directory: one process at a time, or several that only read.

use std::fs::{File, TryLockError};
use std::path::Path;

use crate::error::{Result, StorageError};

const FILE: &str = "LOCK";

/// The lock is held by an open file and released with it.
#[derive(Debug)]
pub struct DirectoryLock {
    _file: File,
}

impl DirectoryLock {
    /// Takes the lock; `read_only` shares it with other readers and creates no file.
    ///
    /// # Errors
    /// [`StorageError::Locked`], [`StorageError::Io`]
    pub fn take(directory: &Path, read_only: bool) -> Result<Self> {
        let path = directory.join(FILE);
        let fail = |e| StorageError::io(format!("cannot lock {}", path.display()), e);
        let file = File::options()
            .read(true)
            .write(!read_only)
            .create(!read_only)
            .truncate(false)
            .open(&path)
            .map_err(fail)?;
        let locked = if read_only {
            file.try_lock_shared()
        } else {
            file.try_lock()
        };
        match locked {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(StorageError::Locked {
                path: directory.display().to_string(),
            }),
            Err(TryLockError::Error(e)) => Err(fail(e)),
        }
    }
}
