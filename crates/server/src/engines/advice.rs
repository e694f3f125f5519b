//! What to do when the engine of a directory does not open. Must not know: engines.

use std::path::Path;
use storage::StorageError;

/// Files that a data directory of mongod has.
const FILES_OF_MONGOD: [&str; 2] = ["WiredTiger", "storage.bson"];

/// Advice for a directory whose data are of another engine.
fn advice_on_data(path: &str) -> String {
    let directory = Path::new(path);
    match storage::engine_of(directory) {
        Ok(Some(engine)) => format!(
            "start with --storageEngine {engine}, or copy the data into another --dbpath with \
             quarry convert"
        ),
        Ok(None)
            if FILES_OF_MONGOD
                .iter()
                .any(|file| directory.join(file).exists()) =>
        {
            "it is a data directory of mongod: choose an empty directory for --dbpath, start \
             mongod on this one, and copy with mongodump and mongorestore"
                .to_owned()
        }
        _ => "choose an empty directory for --dbpath".to_owned(),
    }
}

/// The error and what to do about it.
pub(super) fn advise(e: &StorageError, path: &str) -> String {
    match e {
        StorageError::Locked { .. } => {
            format!("{e}; stop the other server or choose another --dbpath")
        }
        StorageError::ForeignDirectory { .. } => format!("{e}; {}", advice_on_data(path)),
        StorageError::NotUnlocked { .. } => {
            format!("{e}; see --enableEncryption and --encryptionKeyFile; nothing was changed")
        }
        StorageError::NewerFormat { .. } => format!("cannot open {path}: {e}; use a newer quarry"),
        StorageError::Full { .. } => format!("cannot open {path}: {e}; free some space"),
        StorageError::JournalDamaged { .. } => format!(
            "cannot open {path}: {e}; restore a backup, or start once with --repair to open with \
             the commits before the damage; nothing was changed"
        ),
        StorageError::Corrupt { .. } => {
            let cause = std::error::Error::source(e)
                .map(|c| format!(" ({c})"))
                .unwrap_or_default();
            format!(
                "cannot open {path}: {e}{cause}; restore a backup, or keep what can be read with \
                 quarry repair --dbpath {path}; nothing was changed"
            )
        }
        _ => {
            let cause = std::error::Error::source(e)
                .map(|c| format!(" ({c})"))
                .unwrap_or_default();
            format!("cannot open {path}: {e}{cause}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_data_are_refused_with_both_ways_out() {
        let damaged = StorageError::Corrupt {
            context: "the manifest was changed".to_owned(),
            source: None,
        };
        let line = advise(&damaged, "/data");
        assert!(line.contains("the manifest was changed"), "{line}");
        assert!(line.contains("restore a backup"), "{line}");
        assert!(line.contains("quarry repair --dbpath /data"), "{line}");
        assert!(line.ends_with("nothing was changed"), "{line}");
    }
}
