//! Backups of folders of plain files: what is stored, the state after an interruption at any step,
//! what is refused.

mod damage;
mod interrupted;
mod stored;

use backup::{BackupResult, Pace, Repository, Source, back_up};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The file that is restored last.
pub(crate) const MARKER: &str = "ENGINE";

pub(crate) struct TestFolder {
    _root: tempfile::TempDir,
    pub(crate) data: PathBuf,
    pub(crate) repository: PathBuf,
    pub(crate) target: PathBuf,
}

impl TestFolder {
    pub(crate) fn new() -> TestFolder {
        let root = tempfile::tempdir().unwrap();
        let at = |name| root.path().join(name);
        let (data, repository, target) = (at("data"), at("repository"), at("target"));
        fs::create_dir(&data).unwrap();
        let place = TestFolder {
            _root: root,
            data,
            repository,
            target,
        };
        place.write(MARKER, b"engine x\n");
        place
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.data.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    pub(crate) fn source(&self) -> Source<'_> {
        Source {
            directory: &self.data,
            engine: "x",
            quarry: "1.2.3",
            optime: None,
            complete: None,
            begun_ms: 1_795_000_000_123,
            is_fixed: |path| path.extension().is_some_and(|e| e == "fixed"),
        }
    }

    pub(crate) fn back_up(&self) -> BackupResult {
        let repository = Repository::to_write(&self.repository).unwrap();
        let mut pace = Pace::new(None);
        back_up(&repository, &self.source(), &mut pace, &mut |_| Ok(())).unwrap()
    }

    pub(crate) fn reading(&self) -> Repository {
        Repository::to_read(&self.repository).unwrap()
    }

    pub(crate) fn restore(&self) -> backup::Result<backup::RestoreResult> {
        let repository = self.reading();
        let manifest = repository.manifest(None)?;
        let mut pace = Pace::new(None);
        let to = &self.target;
        backup::restore(&repository, &manifest, to, MARKER, &mut pace, &mut |_| {
            Ok(())
        })
    }

    /// The largest object.
    pub(crate) fn object(&self) -> PathBuf {
        let all = files(&self.repository.join("objects"));
        let largest = all.into_iter().max_by_key(|(_, bytes)| bytes.len());
        self.repository.join("objects").join(largest.unwrap().0)
    }
}

/// Bytes that no two seeds share.
pub(crate) fn noise(seed: u64, len: usize) -> Vec<u8> {
    use rand::{RngCore, SeedableRng};
    let mut bytes = vec![0; len];
    rand::rngs::StdRng::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}

/// All files below a folder.
pub(crate) fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(inner) = folders.pop() {
        for entry in fs::read_dir(&inner).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_str().unwrap();
                found.insert(name.to_owned(), fs::read(&path).unwrap());
            }
        }
    }
    found
}
