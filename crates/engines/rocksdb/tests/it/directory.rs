//! Opening directories in every condition, crash images, checkpoints, mirrors.

use std::fs;
use std::path::Path;

use engine_rocksdb::{CacheKind, Config, DISK_FORMAT, RocksEngine};
use storage::{CursorOpts, Durability, Engine, KeyRange, Reader, StorageError, Table, WriteBatch};

fn config(path: &Path) -> Config {
    Config::with_budget(path, 64 << 20)
}

fn put(engine: &dyn Engine, key: &[u8], durability: Durability) {
    let mut batch = WriteBatch::new();
    batch.put(Table::Doc, key, b"value");
    batch.add(Table::Meta, b"n", [1, 5]);
    engine.apply(&batch, durability).unwrap();
}

fn count(engine: &dyn Engine) -> usize {
    let mut rows = 0;
    let mut cursor = engine
        .cursor(Table::Doc, KeyRange::ALL, CursorOpts::default())
        .unwrap();
    cursor
        .visit(usize::MAX, &mut |_, _| {
            rows += 1;
            true
        })
        .unwrap();
    rows
}

fn refusal(config: Config) -> StorageError {
    match RocksEngine::open(config) {
        Ok(_) => panic!("the directory should be refused"),
        Err(error) => error,
    }
}

#[test]
fn directories_that_are_not_ours_are_refused_untouched() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("foreign");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("letter.txt"), "dear reader").unwrap();
    let error = refusal(config(&path));
    assert!(
        matches!(&error, StorageError::ForeignDirectory { found,
            .. } if found.contains("letter.txt")),
        "{error}"
    );
    assert_eq!(
        fs::read_dir(&path).unwrap().count(),
        1,
        "nothing was written"
    );

    let missing = root.path().join("missing");
    let error = refusal(Config {
        create: false,
        ..config(&missing)
    });
    assert!(matches!(error, StorageError::Io { .. }), "{error}");
    assert!(!missing.exists());

    let file = root.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(matches!(refusal(config(&file)), StorageError::Io { .. }));

    for (text, newer) in [
        ("engine wiredtiger\nformat 1\n", false),
        ("engine rocksdb\n", false),
        ("engine rocksdb\nformat 999\n", true),
    ] {
        let path = root.path().join(text.len().to_string());
        fs::create_dir(&path).unwrap();
        fs::write(path.join("QUARRY-ENGINE"), text).unwrap();
        let error = refusal(config(&path));
        let is_newer = matches!(
            error,
            StorageError::NewerFormat {
                found: 999,
                supported: DISK_FORMAT
            }
        );
        assert_eq!(is_newer, newer, "{error}");
        assert!(
            newer || matches!(error, StorageError::ForeignDirectory { .. }),
            "{error}"
        );
        assert!(!error.to_string().contains('\n'), "one line: {error}");
    }
}

#[test]
fn a_second_opener_gets_an_error_that_the_directory_is_in_use() {
    let root = tempfile::tempdir().unwrap();
    let engine = RocksEngine::open(config(root.path())).unwrap();
    let error = refusal(config(root.path()));
    assert!(matches!(error, StorageError::Locked { .. }), "{error}");
    put(&engine, b"\0\0\0\x01k", Durability::Buffered);
    drop(engine);
    assert_eq!(count(&RocksEngine::open(config(root.path())).unwrap()), 1);
}

#[test]
fn damaged_files_are_corruption_not_a_crash() {
    let root = tempfile::tempdir().unwrap();
    let engine = RocksEngine::open(config(root.path())).unwrap();
    for i in 0..2000u32 {
        put(
            &engine,
            &[&1u32.to_be_bytes()[..], &i.to_be_bytes()].concat(),
            Durability::Buffered,
        );
    }
    engine.close().unwrap();
    drop(engine);
    for entry in fs::read_dir(root.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "sst") {
            let mut bytes = fs::read(&path).unwrap();
            let half = bytes.len() / 2;
            bytes.iter_mut().take(half).for_each(|byte| *byte ^= 0x5A);
            fs::write(&path, bytes).unwrap();
        }
    }
    let outcome = RocksEngine::open(config(root.path())).and_then(|engine| {
        assert!(
            !engine.verify()?.findings.is_empty(),
            "verify names the damage"
        );
        let mut cursor = engine.cursor(Table::Doc, KeyRange::ALL, CursorOpts::default())?;
        cursor.visit(usize::MAX, &mut |_, _| true)
    });
    assert!(
        matches!(outcome, Err(StorageError::Corrupt { .. })),
        "{outcome:?}"
    );
}

#[test]
fn image_of_a_killed_process_keeps_all_buffered_commits() {
    let root = tempfile::tempdir().unwrap();
    let (live, image) = (root.path().join("live"), root.path().join("image"));
    let engine = RocksEngine::open(config(&live)).unwrap();
    for i in 0..500u32 {
        put(
            &engine,
            &[&1u32.to_be_bytes()[..], &i.to_be_bytes()].concat(),
            Durability::Buffered,
        );
        if i == 200 {
            engine.flush().unwrap();
        }
    }
    // Unjournaled data may be lost, but only completely.
    let mut batch = WriteBatch::new();
    batch.put(Table::Doc, b"\0\0\0\x02unjournaled", b"v");
    batch.put(Table::Idx, b"\0\0\0\x03unjournaled", b"v");
    engine.apply(&batch, Durability::None).unwrap();
    fs::create_dir(&image).unwrap();
    for entry in fs::read_dir(&live).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), image.join(entry.file_name())).unwrap();
    }
    let again = RocksEngine::open(config(&image)).unwrap();
    assert_eq!(count(&again), 500);
    let mut counter = Vec::new();
    assert!(again.get(Table::Meta, b"n", &mut counter).unwrap());
    assert_eq!(storage::counter_decode(&counter), [500, 2500]);
    assert!(
        !again
            .get(Table::Idx, b"\0\0\0\x03unjournaled", &mut Vec::new())
            .unwrap()
    );
    engine.close().unwrap();
}

#[test]
fn checkpoint_opens_by_itself() {
    let root = tempfile::tempdir().unwrap();
    let (live, copy) = (root.path().join("live"), root.path().join("copy"));
    let engine = RocksEngine::open(config(&live)).unwrap();
    put(&engine, b"\0\0\0\x01k", Durability::Buffered);
    engine.checkpoint(&copy).unwrap();
    put(&engine, b"\0\0\0\x01later", Durability::Buffered);
    assert!(engine.checkpoint(&copy).is_err());
    let again = RocksEngine::open(Config {
        create: false,
        ..config(&copy)
    })
    .unwrap();
    assert_eq!((count(&again), count(&engine)), (1, 2));
}

#[test]
fn statistics_name_what_operators_need() {
    let root = tempfile::tempdir().unwrap();
    let engine = RocksEngine::open(Config {
        cache_kind: CacheKind::Lru,
        ..config(root.path())
    })
    .unwrap();
    put(&engine, b"\0\0\0\x01k", Durability::Journaled);
    engine.flush().unwrap();
    let mut metrics = std::collections::BTreeMap::new();
    engine.stats(&mut |name, value| {
        assert!(
            metrics.insert(name.to_owned(), value).is_none(),
            "{name} is reported twice"
        );
    });
    for (name, least) in [
        ("doc.l0_files", 1),
        ("doc.sst_bytes", 100),
        ("block_cache_capacity_bytes", 32 << 20),
        ("free_bytes", 1),
        ("journal_flushes", 1),
        ("keys_written", 2),
        ("flushes", 1),
    ] {
        assert!(
            metrics.get(name).is_some_and(|value| *value >= least),
            "{name}: {:?}",
            metrics.get(name)
        );
    }
    for name in [
        "stall_stops",
        "background_errors",
        "space_short",
        "write_stopped",
        "admission_rate_bytes_per_s",
    ] {
        assert_eq!(metrics.get(name), Some(&0), "{name}");
    }
}
