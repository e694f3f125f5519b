//! Reading a data directory without touching it: RocksDB changes files as soon as it opens them, so
//! it is given a directory of its own. Files that are never written again are linked into it, the
//! others copied. Promises: the lender stays locked against servers, and no byte of it changes.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use storage::{Engine, Result, StorageError};

use crate::config::Config;
use crate::engine::RocksEngine;
use crate::files::lend;
use crate::mark;
use crate::open;
use crate::salvage;
use crate::space;

/// What is left of a damaged directory.
pub struct Rest {
    /// The engine over it.
    pub engine: RocksEngine,
    /// Tables that cannot be read to their end.
    pub left_out: Vec<String>,
}

/// A directory that is read.
pub struct Borrowed {
    _lender: File,
    directory: PathBuf,
}

impl Borrowed {
    /// Makes `directory` a copy of `lender`; what was there is removed.
    ///
    /// # Errors
    /// [`StorageError::ForeignDirectory`], [`StorageError::NewerFormat`],
    /// [`StorageError::Locked`], [`StorageError::Io`]
    pub fn make(lender: &Path, directory: &Path) -> Result<Borrowed> {
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
            // The reserve holds no data; the engine makes its own.
            if is_file && name != space::HELD_BACK_FILE {
                lend(&entry.path(), &directory.join(&name)).map_err(fail)?;
            }
        }
        Ok(Borrowed {
            _lender: lock,
            directory: directory.to_owned(),
        })
    }

    /// Makes the copy in `to` and opens it without the tables that cannot be read; returns their
    /// names. The catalog of files is made anew, so it may be damaged.
    ///
    /// # Errors
    /// Those of [`RocksEngine::open`].
    pub fn open_rest(&self, config: &Config, to: &Path) -> Result<Rest> {
        let config = Config {
            path: self.directory.clone(),
            ..config.clone()
        };
        open::claim(&config.path, false)?;
        let data_key = open::unlock(&config)?;
        let config = salvage::make_rest(&config, to, None, data_key.as_ref())?;
        Ok(Rest {
            engine: RocksEngine::open(config)?,
            left_out: salvage::left_out(to),
        })
    }

    /// Opens the copy; `config` says how, its path aside.
    ///
    /// # Errors
    /// Those of [`RocksEngine::open`].
    pub fn open(&self, config: Config) -> Result<RocksEngine> {
        RocksEngine::open(Config {
            path: self.directory.clone(),
            create: false,
            // Obsolete files are otherwise shortened before they go, and these are somebody else's.
            delete_bytes_per_s: 0,
            ..config
        })
    }
}

impl RocksEngine {
    /// Opens what is left without the tables that cannot be read; see [`Engine::undamaged`].
    pub(crate) fn open_undamaged(&self, path: &Path) -> Result<Option<Arc<dyn Engine>>> {
        self.flush()?;
        let live = salvage::live_tables(&self.db)?;
        let data_key = self.data_key.as_ref();
        let config = salvage::make_rest(&self.config, path, Some(&live), data_key)?;
        Ok(Some(Arc::new(RocksEngine::open(config)?)))
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// The lock a server holds, shared among readers.
fn lock(lender: &Path) -> Result<File> {
    let path = lender.join(mark::FILE);
    let fail = |error| StorageError::io(format!("cannot open {}", path.display()), error);
    let opened = match File::open(&path) {
        // A copy that no server has opened yet. An empty mark claims as little as none.
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
