//! Checks before RocksDB opens a directory: its engine and its format. Every refusal is a typed
//! error.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cipher::{DataKey, KEYS_FILE};
use storage::{Marker, Result, StorageError};

use crate::config::{Config, TABLE_FORMAT};
use crate::mark::Claim;
use crate::wal;

/// Version of the layout that this crate defines: tables, their numbers and options that must not
/// change. History: 1 six column families, `Meta` as the default one, counter merge operator on
/// `Meta`.
pub const DISK_FORMAT: u32 = 1;

/// Makes sure that `path` belongs to this engine: an empty directory is claimed, one of another
/// engine or of a newer version is refused.
///
/// # Errors
/// [`StorageError::ForeignDirectory`], [`StorageError::NewerFormat`], [`StorageError::Io`]
pub(crate) fn claim(path: &Path, create: bool) -> Result<()> {
    with_marker(|marker| marker.claim(path, create))
}

/// The data key of a directory of this engine; an empty directory gets a new one.
///
/// # Errors
/// [`StorageError::NotUnlocked`]
pub(crate) fn unlock(config: &Config) -> Result<Option<Arc<DataKey>>> {
    let shown = config.path.display();
    let refused = |found: String| Err(StorageError::NotUnlocked { found });
    let key = match (&config.master_key, cipher::is_encrypted(&config.path)) {
        (None, false) => return Ok(None),
        (None, true) => {
            return refused(format!(
                "the data in {shown} is encrypted, and no encryption key was given"
            ));
        }
        (Some(master), true) => cipher::open(&config.path, master),
        // With this file the directory has a RocksDB database already.
        (Some(_), false) if config.path.join("CURRENT").exists() => {
            return refused(format!(
                "the data in {shown} is not encrypted; encryption begins with an empty directory"
            ));
        }
        (Some(master), false) => cipher::create(&config.path, master),
    };
    match key {
        Ok(key) => Ok(Some(Arc::new(key))),
        Err(e) => refused(e.to_string()),
    }
}

/// The repair of a damaged journal that is to be opened anyway.
pub(crate) struct Repair {
    found: String,
    /// Where unchanged copies of the journal files are kept.
    kept: PathBuf,
    /// Whether every readable record is applied, not only those before the damage.
    all: bool,
}

impl Repair {
    /// The report in one line; `end` is the last commit of the open database.
    pub(crate) fn report(&self, end: u64) -> String {
        let given_up = if self.all {
            "every readable record was applied, the others are given up"
        } else {
            "the commits after it are given up"
        };
        let (found, kept) = (&self.found, self.kept.display());
        format!(
            "{found}; opened with commit {end} as the last one, {given_up}; the original journal \
             files are in {kept}"
        )
    }
}

/// Makes sure that the journal holds everything that was flushed to it. With `repair`, damage is
/// tolerated after the files were copied.
///
/// # Errors
/// [`StorageError::JournalDamaged`], [`StorageError::Io`]
pub(crate) fn examine(
    config: &Config,
    data: Option<&DataKey>,
    claim: Claim,
) -> Result<Option<Repair>> {
    if claim.durable == 0 {
        return Ok(None);
    }
    let files = wal::files(&config.path)?;
    let journal = wal::read(&files, data)?;
    let Some(damage) = wal::damage(&journal, claim) else {
        return wal::cut(&files, &journal).map(|()| None);
    };
    let found = damage.to_string();
    if !config.repair {
        return Err(StorageError::JournalDamaged { found });
    }
    let kept = keep(&config.path, &files)?;
    Ok(Some(Repair {
        found,
        kept,
        all: false,
    }))
}

/// The repair after RocksDB has refused to open up to the damage, or has found damage that only it
/// can see.
pub(crate) fn take_all(
    config: &Config,
    repair: Option<Repair>,
    error: &StorageError,
) -> Result<Repair> {
    if let Some(repair) = repair {
        return Ok(Repair {
            all: true,
            ..repair
        });
    }
    let cause = std::error::Error::source(error).map(ToString::to_string);
    Ok(Repair {
        found: cause.unwrap_or_else(|| error.to_string()),
        kept: keep(&config.path, &wal::files(&config.path)?)?,
        all: true,
    })
}

/// Links the files into a new directory inside of the data directory, where RocksDB does not touch
/// them.
fn keep(path: &Path, files: &[PathBuf]) -> Result<PathBuf> {
    let kept = (1..)
        .map(|number| path.join(format!("journal-before-repair-{number}")))
        .find(|kept| !kept.exists())
        .unwrap_or_default();
    let link = || -> std::io::Result<()> {
        fs::create_dir(&kept)?;
        for file in files {
            if let Some(name) = file.file_name() {
                fs::hard_link(file, kept.join(name))?;
            }
        }
        File::open(&kept)?.sync_all()
    };
    link().map_err(|error| {
        StorageError::io(
            format!("cannot keep the journal files in {}", kept.display()),
            error,
        )
    })?;
    Ok(kept)
}

/// Copies the encrypted data key into a checkpoint.
pub(crate) fn copy_keys(config: &Config, to: &Path) -> Result<()> {
    if config.master_key.is_none() {
        return Ok(());
    }
    let (from, to) = (config.path.join(KEYS_FILE), to.join(KEYS_FILE));
    let copy = || {
        fs::copy(from, &to)?;
        File::open(&to)?.sync_all()
    };
    copy().map_err(|error: std::io::Error| {
        StorageError::io(format!("cannot write {}", to.display()), error)
    })
}

/// Writes the marker into a directory of this engine, e.g. a checkpoint.
pub(crate) fn mark(path: &Path) -> Result<()> {
    with_marker(|marker| marker.write(path))
}

fn with_marker(f: impl FnOnce(&Marker<'_>) -> Result<()>) -> Result<()> {
    f(&Marker {
        engine: "rocksdb",
        format: DISK_FORMAT,
        details: &format!("table_format {TABLE_FORMAT}\n"),
    })
}
