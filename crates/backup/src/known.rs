//! Files that need not be read again: those of the newest backup, and those that an interrupted one
//! had completed. Only fixed files are reused, and only if the source still has the same file.

use crate::error::{BackupError, Result};
use crate::folder;
use crate::manifest::{FileEntry, FileIdentity};
use crate::repository::Repository;
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

/// One line of JSON for each file that the current backup has completed.
const FILE: &str = "finished.jsonl";

pub(crate) struct FileCache {
    entries: HashMap<String, FileEntry>,
    path: PathBuf,
    file: File,
}

impl FileCache {
    pub(crate) fn open(repository: &Repository) -> Result<FileCache> {
        let mut entries = HashMap::new();
        if !repository.ids()?.is_empty() {
            // Without the manifest everything is read, which is correct, too; `verify` reports the
            // damage.
            if let Ok(newest) = repository.manifest(None) {
                let of = |f: FileEntry| (f.path.clone(), f);
                entries.extend(newest.files.into_iter().map(of));
            }
        }
        let path = repository.incoming().join(FILE);
        let text = fs::read_to_string(&path).unwrap_or_default();
        // The last line may be truncated.
        let lines = text.lines().filter_map(|l| serde_json::from_str(l).ok());
        entries.extend(lines.map(|f: FileEntry| (f.path.clone(), f)));
        let mut options = OpenOptions::new();
        let opened = options.create(true).append(true).open(&path);
        let mut file = opened.map_err(|e| BackupError::io("open", &path, &e))?;
        if !text.is_empty() && !text.ends_with('\n') {
            let ended = file.write_all(b"\n");
            ended.map_err(|e| BackupError::io("write", &path, &e))?;
        }
        Ok(FileCache {
            entries,
            path,
            file,
        })
    }

    /// The entry of a file, if its pieces are in the repository and the file has not changed.
    pub(crate) fn find(
        &self,
        repository: &Repository,
        path: &str,
        bytes: u64,
        identity: FileIdentity,
    ) -> Option<FileEntry> {
        let entry = self.entries.get(path)?;
        let same = entry.fixed && entry.bytes == bytes && entry.source == Some(identity);
        let is_stored = || entry.pieces.iter().all(|p| repository.has(p));
        (same && is_stored()).then(|| entry.clone())
    }

    /// Records a file that is complete.
    pub(crate) fn note(&mut self, entry: &FileEntry) -> Result<()> {
        let fail = |e: std::io::Error| BackupError::io("write", &self.path, &e);
        let mut line = serde_json::to_vec(entry).map_err(|e| fail(e.into()))?;
        line.push(b'\n');
        self.file.write_all(&line).map_err(fail)
    }

    /// Removes the records after the backup was added.
    pub(crate) fn end(self) -> Result<()> {
        folder::remove(&self.path)
    }
}
