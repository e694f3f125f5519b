//! Reads a data directory without changing it: RocksDB changes files as soon as it opens them, so
//! it opens a copy. Files that are never written again are linked into the copy, the others are
//! copied. Promises: the original stays locked against servers, and none of its bytes change.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use storage::{Engine, Result, StorageError};

use crate::config::Config;
use crate::engine::RocksEngine;
use crate::files::link_or_copy;
use crate::mark;
use crate::open;
use crate::salvage;
use crate::space;

/// The readable part of a damaged directory.
pub struct SalvagedEngine {
    /// The engine over the readable tables.
    pub engine: RocksEngine,
    /// Tables that cannot be read in full.
    pub left_out: Vec<String>,
}

/// A copy of a directory for reading.
pub struct DirectoryCopy {
    _lender: File,
    directory: PathBuf,
}

impl DirectoryCopy {
    /// Makes `directory` a copy of `lender`; its former content is removed.
    ///
    /// # Errors
    /// [`StorageError::ForeignDirectory`], [`StorageError::NewerFormat`],
    /// [`StorageError::Locked`], [`StorageError::Io`]
    pub fn make(lender: &Path, directory: &Path) -> Result<DirectoryCopy> {
        open::claim(lender, false)?;
        let lock = lock(lender)?;
        let fail = |error| {
            let (from, to) = (lender.display(), directory.display());
            StorageError::io(format!("cannot copy {from} to {to} for reading"), error)
        };
        match fs::remove_dir_all(directory) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(fail(error)),
            _ => fs::create_dir_all(directory).map_err(fail)?,
        }
        for entry in fs::read_dir(lender).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let name = entry.file_name();
            let is_file = entry.file_type().map_err(fail)?.is_file();
            // The reserve file holds no data; the engine creates its own.
            if is_file && name != space::HELD_BACK_FILE {
                link_or_copy(&entry.path(), &directory.join(&name)).map_err(fail)?;
            }
        }
        Ok(DirectoryCopy {
            _lender: lock,
            directory: directory.to_owned(),
        })
    }

    /// Makes a further copy in `to` and opens it without the unreadable tables; returns their
    /// names. The manifest is written again, so it may be damaged.
    ///
    /// # Errors
    /// Those of [`RocksEngine::open`].
    pub fn open_rest(&self, config: &Config, to: &Path) -> Result<SalvagedEngine> {
        let config = Config {
            path: self.directory.clone(),
            ..config.clone()
        };
        open::claim(&config.path, false)?;
        let data_key = open::unlock(&config)?;
        let config = salvage::make_rest(&config, to, None, data_key.as_ref())?;
        Ok(SalvagedEngine {
            engine: RocksEngine::open(config)?,
            left_out: salvage::list_omitted_tables(to),
        })
    }

    /// Opens the copy with the options in `config`, except for the path.
    ///
    /// # Errors
    /// Those of [`RocksEngine::open`].
    pub fn open(&self, config: Config) -> Result<RocksEngine> {
        RocksEngine::open(Config {
            path: self.directory.clone(),
            create: false,
            // RocksDB would otherwise truncate obsolete files before deleting them, and these
            // belong to the original.
            delete_bytes_per_s: 0,
            ..config
        })
    }
}

impl RocksEngine {
    /// Opens the directory without its unreadable tables; see [`Engine::undamaged`].
    pub(crate) fn open_undamaged(&self, path: &Path) -> Result<Option<Arc<dyn Engine>>> {
        self.flush()?;
        let live = salvage::live_tables(&self.db)?;
        let data_key = self.data_key.as_ref();
        let config = salvage::make_rest(&self.config, path, Some(&live), data_key)?;
        Ok(Some(Arc::new(RocksEngine::open(config)?)))
    }
}

impl Drop for DirectoryCopy {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Takes the lock that a server holds, shared with other readers.
fn lock(lender: &Path) -> Result<File> {
    let path = lender.join(mark::FILE);
    let fail = |error| StorageError::io(format!("cannot open {}", path.display()), error);
    let opened = match File::open(&path) {
        // No server has opened this copy yet. An empty mark file claims as little as none.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => File::create(&path),
        opened => opened,
    };
    let file = opened.map_err(fail)?;
    match file.try_lock_shared() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StorageError::Locked {
            path: lender.display().to_string(),
        }),
        Err(TryLockError::Error(error)) => Err(fail(error)),
    }
}
