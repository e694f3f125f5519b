//! The engine factory. A new engine is one arm here.

use crate::config::Settings;
use std::sync::Arc;
use storage::{Engine, MemoryEngine, StorageError};

/// Opens the engine the settings name.
///
/// # Errors
/// One line that says what to do.
pub fn open(settings: &Settings) -> Result<Arc<dyn Engine>, String> {
    match settings.storage_engine.as_str() {
        #[cfg(feature = "rocksdb")]
        "rocksdb" => {
            let path = &settings.dbpath;
            engine_rocksdb::raise_open_files_limit();
            let mut config = engine_rocksdb::Config::with_budget(path, engine_bytes(settings));
            config.journal_commit_interval_ms = settings.journal_commit_interval_ms;
            config.repair = settings.repair;
            match engine_rocksdb::RocksEngine::open(config) {
                Ok(engine) => {
                    if let Some(report) = engine.repaired() {
                        println!("quarry: repaired {}: {report}", path.display());
                    }
                    Ok(Arc::new(engine))
                }
                Err(e) => Err(advice(&e, &path.display().to_string())),
            }
        }
        "memory" => Ok(Arc::new(MemoryEngine::new())),
        other => Err(format!(
            "unknown storage engine {other}; this build has {}",
            NAMES.join(" and ")
        )),
    }
}

/// Engines of this build.
pub const NAMES: &[&str] = if cfg!(feature = "rocksdb") {
    &["rocksdb", "memory"]
} else {
    &["memory"]
};

/// The engine's part of the budget.
#[cfg(feature = "rocksdb")]
fn engine_bytes(settings: &Settings) -> usize {
    usize::try_from(crate::memory::Parts::of(settings.memory_bytes).engine).unwrap_or(usize::MAX)
}

/// What happened and what to do about it.
fn advice(e: &StorageError, path: &str) -> String {
    match e {
        StorageError::Locked { .. } => {
            format!("{e}; stop the other server or choose another --dbpath")
        }
        StorageError::ForeignDirectory { .. } => {
            format!("{e}; choose an empty directory for --dbpath")
        }
        StorageError::NewerFormat { .. } => format!("cannot open {path}: {e}; use a newer quarry"),
        StorageError::Full { .. } => format!("cannot open {path}: {e}; free some space"),
        StorageError::JournalDamaged { .. } => format!(
            "cannot open {path}: {e}; restore a backup, or start once with --repair to open with \
                the commits before the damage; \
             nothing was changed"
        ),
        StorageError::Corrupt { .. } => {
            let cause = std::error::Error::source(e)
                .map(|c| format!(" ({c})"))
                .unwrap_or_default();
            format!("cannot open {path}: {e}{cause}; restore a backup, nothing was changed")
        }
        _ => {
            let cause = std::error::Error::source(e)
                .map(|c| format!(" ({c})"))
                .unwrap_or_default();
            format!("cannot open {path}: {e}{cause}")
        }
    }
}
