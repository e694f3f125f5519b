//! Directories that are read without being changed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use engine_rocksdb::{Config, DirectoryCopy, RocksEngine};
use storage::{Durability, Engine, KeyRange, Reader, StorageError, Table, WriteBatch};

/// Every file with its bytes.
fn files(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(path).unwrap();
    let read = |path: PathBuf| (path.clone(), fs::read(path).unwrap());
    entries.map(|e| read(e.unwrap().path())).collect()
}

fn config(path: &Path) -> Config {
    Config::with_budget(path, 64 << 20)
}

#[test]
fn a_borrowed_directory_is_not_touched() {
    let root = tempfile::tempdir().unwrap();
    let own = config(&root.path().join("data"));
    let engine = RocksEngine::open(own.clone()).unwrap();
    let put = |n: u32, len: usize| {
        let mut batch = WriteBatch::new();
        let key = [[0, 0, 0, 1], n.to_be_bytes()].concat();
        batch.put(Table::Doc, &key, &vec![7; len]);
        batch.add(Table::Meta, b"count", [1, 0]);
        engine.apply(&batch, Durability::Journaled).unwrap();
    };
    // Tables, large documents in blob files, and a journal that is not empty.
    (0..50).for_each(|n| put(n, 40_000));
    engine.flush().unwrap();
    (50..80).for_each(|n| put(n, 100));
    let scratch = root.path().join("scratch");
    let busy = DirectoryCopy::make(&own.path, &scratch).err().unwrap();
    assert!(matches!(busy, StorageError::Locked { .. }), "{busy}");
    // As after kill -9, nothing is closed.
    let killed = root.path().join("killed");
    fs::create_dir(&killed).unwrap();
    for (path, bytes) in files(&own.path) {
        fs::write(killed.join(path.file_name().unwrap()), bytes).unwrap();
    }
    let before = files(&killed);
    let borrowed = DirectoryCopy::make(&killed, &scratch).unwrap();
    let copy = borrowed.open(own.clone()).unwrap();
    let locked = RocksEngine::open(config(&killed)).err().unwrap();
    assert!(matches!(locked, StorageError::Locked { .. }), "{locked}");
    let mut count = Vec::new();
    assert!(copy.get(Table::Meta, b"count", &mut count).unwrap());
    assert_eq!(storage::counter_decode(&count), [80, 0]);
    // Operations that make files obsolete must not change the linked originals.
    copy.drop_range(Table::Doc, KeyRange::ALL).unwrap();
    let mut batch = WriteBatch::new();
    batch.delete_range(Table::Doc, &[], storage::MAX_KEY);
    copy.apply(&batch, Durability::Journaled).unwrap();
    copy.compact_all(Table::Doc).unwrap();
    copy.close().unwrap();
    drop(copy);
    drop(borrowed);
    assert!(!scratch.exists());
    assert!(files(&killed) == before, "a file was changed");
}
