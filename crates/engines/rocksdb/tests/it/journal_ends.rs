//! Closed journal files whose truncation was undone by a loss of power: zeros follow the last
//! commit. Every flushed commit must be there, whatever the mark says; a tail that is really
//! missing must be detected.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use engine_rocksdb::RocksEngine;
use storage::{Durability, Reader, StorageError, Table};

use crate::journal::{MARK, commit, config, config_of, copy, count_commits, journals, key, len};

const COMMITS: u32 = 60;

/// A directory after a loss of power: its commits are in three journal files, all of which recovery
/// needs, and all are flushed. The mark is a copy from the time when the first commit was flushed.
struct CrashedDirectory {
    _root: tempfile::TempDir,
    path: PathBuf,
    older_mark: Vec<u8>,
    sealed: bool,
}

impl CrashedDirectory {
    fn new(sealed: bool) -> Self {
        let root = tempfile::tempdir().unwrap();
        let (live, path) = (root.path().join("live"), root.path().join("lost"));
        let engine = RocksEngine::open(config_of(&live, sealed)).unwrap();
        let raw = engine.raw();
        let mut older_mark = Vec::new();
        for number in 0..COMMITS {
            commit(&engine, number, Durability::Journaled);
            if number == 0 {
                older_mark = fs::read(live.join(MARK)).unwrap();
            }
            // Closes the journal file, which the other tables still need.
            if number % 20 == 19 && number + 1 < COMMITS {
                raw.flush_cf(raw.cf_handle("cap").unwrap()).unwrap();
                raw.flush_cf(raw.cf_handle("doc").unwrap()).unwrap();
            }
        }
        copy(&live, &path);
        let lost = Self {
            _root: root,
            path,
            older_mark,
            sealed,
        };
        assert!(lost.files().len() >= 3, "{:?}", lost.files());
        lost
    }

    fn files(&self) -> Vec<PathBuf> {
        journals(&self.path)
    }

    /// The closed files have their extended length again.
    fn undo_cuts(&self) {
        let files = self.files();
        for path in &files[..files.len() - 1] {
            let file = fs::OpenOptions::new().write(true).open(path).unwrap();
            file.set_len(len(path) + (1 << 20)).unwrap();
        }
    }

    fn put_mark(&self, change: impl FnOnce(&mut [u8])) {
        let mut mark = self.older_mark.clone();
        change(&mut mark);
        fs::write(self.path.join(MARK), mark).unwrap();
    }

    fn open(&self) -> storage::Result<RocksEngine> {
        RocksEngine::open(config_of(&self.path, self.sealed))
    }
}

fn entries(engine: &RocksEngine) -> u32 {
    let mut out = Vec::new();
    (0..)
        .take_while(|number| engine.get(Table::Idx, &key(*number), &mut out).unwrap())
        .count() as u32
}

fn name_boot_otherwise(mark: &mut [u8]) {
    mark[8..48].fill(b'x');
}

#[test]
fn closed_files_whose_cut_was_undone_open_with_every_flushed_commit() {
    for sealed in [false, true] {
        let lost = CrashedDirectory::new(sealed);
        lost.undo_cuts();
        let engine = lost
            .open()
            .unwrap_or_else(|e| panic!("sealed {sealed}: {e}"));
        assert_eq!(
            (count_commits(&engine), entries(&engine)),
            (COMMITS, COMMITS)
        );
    }
}

/// The mark may be a second older than the journal: commits that it does not cover were flushed,
/// too.
#[test]
fn an_older_mark_beside_undone_cuts_drops_no_commit() {
    for other_boot in [false, true] {
        let lost = CrashedDirectory::new(false);
        lost.undo_cuts();
        lost.put_mark(|mark| {
            if other_boot {
                name_boot_otherwise(mark);
            }
        });
        let engine = lost.open().unwrap();
        assert_eq!(
            (count_commits(&engine), entries(&engine)),
            (COMMITS, COMMITS)
        );
    }
}

/// Zeros in the place of a flushed commit are damage, not the end of the file.
#[test]
fn zeros_in_the_place_of_the_last_commit_of_a_closed_file_are_damage() {
    let lost = CrashedDirectory::new(false);
    lost.undo_cuts();
    let first = lost.files().into_iter().next().unwrap();
    let end = len(&first);
    let file = fs::OpenOptions::new().write(true).open(&first).unwrap();
    // These bytes contain the record of one small commit, and the end of the previous one.
    file.write_all_at(&[0; 200], end - 200).unwrap();
    let refused = lost.open();
    let Err(StorageError::JournalDamaged { found }) = refused else {
        panic!("{:?}", refused.err());
    };
    assert!(found.contains(&name(&first)), "{found}");
}

/// An empty file is between the closed files and the end.
#[test]
fn an_empty_file_behind_an_undone_cut_is_no_damage() {
    let lost = CrashedDirectory::new(false);
    lost.undo_cuts();
    let newest = lost.files().pop().unwrap();
    let number: u64 = newest
        .file_stem()
        .unwrap()
        .to_str()
        .unwrap()
        .parse()
        .unwrap();
    let empty = lost.path.join(format!("{:06}.log", number + 1));
    fs::write(&empty, vec![0; 1 << 20]).unwrap();
    let held_back = config(&lost.path);
    let engine = RocksEngine::open(held_back).unwrap();
    assert_eq!(
        (count_commits(&engine), entries(&engine)),
        (COMMITS, COMMITS)
    );
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}
