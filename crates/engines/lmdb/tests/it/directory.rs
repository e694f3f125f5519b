//! Opening directories in every condition, checkpoints, long keys across a restart.

use std::fs;

use engine_lmdb::{Config, LmdbEngine};
use storage::{Durability, Engine, StorageError, Table, WriteBatch};

fn refusal(config: &Config) -> StorageError {
    match LmdbEngine::open(config) {
        Ok(_) => panic!("the directory should be refused"),
        Err(error) => error,
    }
}

fn put(engine: &dyn Engine, key: &[u8], value: &[u8]) {
    let mut batch = WriteBatch::new();
    batch.put(Table::Doc, key, value);
    engine.apply(&batch, Durability::Buffered).unwrap();
}

fn get(engine: &dyn Engine, key: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let found = engine.get(Table::Doc, key, &mut out).unwrap();
    found.then_some(out)
}

#[test]
fn one_process_at_a_time_and_no_foreign_directory() {
    let root = tempfile::tempdir().unwrap();
    let own = Config::at(root.path().join("own"));
    let engine = LmdbEngine::open(&own).unwrap();
    assert!(matches!(refusal(&own), StorageError::Locked { .. }));
    drop(engine);
    drop(LmdbEngine::open(&own).unwrap());

    let foreign = root.path().join("foreign");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("letter.txt"), "dear reader").unwrap();
    let error = refusal(&Config::at(&foreign));
    assert!(
        matches!(error, StorageError::ForeignDirectory { .. }),
        "{error}"
    );
    fs::remove_file(foreign.join("letter.txt")).unwrap();
    fs::write(foreign.join("QUARRY-ENGINE"), "engine rocksdb\nformat 1\n").unwrap();
    let error = refusal(&Config::at(&foreign));
    assert!(
        matches!(&error, StorageError::ForeignDirectory { found, .. } if found.contains("rocksdb")),
        "{error}"
    );
    fs::write(foreign.join("QUARRY-ENGINE"), "engine lmdb\nformat 99\n").unwrap();
    let error = refusal(&Config::at(&foreign));
    assert!(
        matches!(error, StorageError::NewerFormat { found: 99, .. }),
        "{error}"
    );
}

#[test]
fn a_checkpoint_opens_by_itself_with_keys_of_every_length() {
    let root = tempfile::tempdir().unwrap();
    let engine = LmdbEngine::open(&Config::at(root.path().join("data"))).unwrap();
    let keys: Vec<Vec<u8>> = (0..40)
        .map(|n| [&[0, 0, 0, 1][..], &vec![b'k'; n * 60]].concat())
        .collect();
    for key in &keys {
        put(&engine, key, &key[..key.len() / 2]);
    }
    let copy = root.path().join("copy");
    engine.checkpoint(&copy).unwrap();
    put(&engine, b"\0\0\0\x02later", b"");
    let copied = LmdbEngine::open(&Config::at(&copy)).unwrap();
    for key in &keys {
        assert_eq!(get(&copied, key).as_deref(), Some(&key[..key.len() / 2]));
    }
    assert_eq!(get(&copied, b"\0\0\0\x02later"), None);
    assert!(copied.verify().unwrap().findings.is_empty());
}

#[test]
fn a_read_only_open_changes_nothing_and_locks_out_servers() {
    let root = tempfile::tempdir().unwrap();
    let own = Config::at(root.path().join("data"));
    let engine = LmdbEngine::open(&own).unwrap();
    put(&engine, b"\0\0\0\x01key", b"value");
    let reading = Config {
        read_only: true,
        ..own.clone()
    };
    assert!(matches!(refusal(&reading), StorageError::Locked { .. }));
    drop(engine);
    let before = fs::read(own.path.join("data.mdb")).unwrap();
    let files = fs::read_dir(&own.path).unwrap().count();
    let engine = LmdbEngine::open(&reading).unwrap();
    assert!(matches!(refusal(&own), StorageError::Locked { .. }));
    assert_eq!(
        get(&engine, b"\0\0\0\x01key").as_deref(),
        Some(&b"value"[..])
    );
    let mut batch = WriteBatch::new();
    batch.delete(Table::Doc, b"\0\0\0\x01key");
    let written = engine.apply(&batch, Durability::Buffered);
    assert!(matches!(written, Err(StorageError::ReadOnly { .. })));
    engine.close().unwrap();
    drop(engine);
    assert_eq!(fs::read(own.path.join("data.mdb")).unwrap(), before);
    assert_eq!(fs::read_dir(&own.path).unwrap().count(), files);
}

#[test]
fn a_full_map_refuses_whole_batches_and_lets_deletes_pass() {
    let root = tempfile::tempdir().unwrap();
    let config = Config {
        map_bytes: 4 << 20,
        ..Config::at(root.path().join("data"))
    };
    let engine = LmdbEngine::open(&config).unwrap();
    let key = |n: u32| [&[0, 0, 0, 1][..], &n.to_be_bytes()].concat();
    let value = vec![7u8; 100_000];
    let mut stored = 0;
    let refused = loop {
        let mut batch = WriteBatch::new();
        batch.put(Table::Doc, &key(stored), &value);
        batch.put(Table::Idx, &key(stored), b"");
        match engine.apply(&batch, Durability::Buffered) {
            Ok(_) => stored += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, StorageError::Full { .. }), "{refused}");
    assert!(stored > 10, "{stored}");
    assert_eq!(
        get(&engine, &key(stored)),
        None,
        "a refused batch left something"
    );
    let mut batch = WriteBatch::new();
    for n in 0..stored {
        batch.delete(Table::Doc, &key(n));
        batch.delete(Table::Idx, &key(n));
    }
    engine.apply(&batch, Durability::Buffered).unwrap();
    // Pages freed by a commit are used again by the second commit after it.
    put(&engine, b"\0\0\0\x02", b"");
    put(&engine, &key(0), &value);
}
