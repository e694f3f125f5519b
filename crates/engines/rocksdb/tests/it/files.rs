//! Files and cache: drops at a bounded pace, scans that must not displace a working set, large
//! documents.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine_rocksdb::{CacheKind, Config, RocksEngine};
use storage::{CursorOpts, Durability, Engine, KeyRange, Reader, StorageError, Table, WriteBatch};

const MB: u64 = 1 << 20;

fn key(ident: u32, number: u64) -> Vec<u8> {
    [&ident.to_be_bytes()[..], &number.to_be_bytes()].concat()
}

fn fill(engine: &RocksEngine, ident: u32, rows: u64, row_bytes: usize, seed: u64) {
    let (mut batch, mut noise) = (WriteBatch::new(), seed);
    for number in 0..rows {
        let mut value = vec![0; row_bytes];
        for chunk in value.chunks_exact_mut(8) {
            noise = noise
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            chunk.copy_from_slice(&noise.to_le_bytes());
        }
        batch.put(Table::Doc, &key(ident, number), &value);
        if batch.byte_len() > 1 << 20 || number + 1 == rows {
            engine.apply(&batch, Durability::Buffered).unwrap();
            batch.clear();
        }
    }
}

fn range_of(ident: u32) -> ([u8; 4], [u8; 4]) {
    (ident.to_be_bytes(), (ident + 1).to_be_bytes())
}

fn scan(engine: &RocksEngine, ident: u32, opts: CursorOpts) -> u64 {
    let (lower, upper) = range_of(ident);
    let mut rows = 0;
    let mut cursor = engine
        .cursor(Table::Doc, KeyRange::new(&lower, &upper), opts)
        .unwrap();
    let more = cursor.visit(usize::MAX, &mut |key, _| {
        assert!(key.starts_with(&lower));
        rows += 1;
        true
    });
    assert!(!more.unwrap());
    rows
}

fn metric(engine: &RocksEngine, wanted: &str) -> u64 {
    let mut found = 0;
    engine.stats(&mut |name, value| {
        if name == wanted {
            found = value as u64;
        }
    });
    found
}

fn table_bytes(path: &Path, endings: &[&str]) -> u64 {
    let sizes = fs::read_dir(path).unwrap().filter_map(|entry| {
        let entry = entry.ok()?;
        let name = entry.file_name().into_string().ok()?;
        let counts = endings.iter().any(|ending| name.contains(ending));
        counts.then(|| entry.metadata().map_or(0, |meta| meta.len()))
    });
    sizes.sum()
}

#[test]
fn files_of_a_drop_disappear_at_the_pace_given() {
    let root = tempfile::tempdir().unwrap();
    let config = Config {
        delete_bytes_per_s: 16 * MB,
        ..Config::with_budget(root.path(), 64 << 20)
    };
    let engine = RocksEngine::open(config).unwrap();
    fill(&engine, 1, 6 * 1024, 8 << 10, 1);
    fill(&engine, 2, 100, 8 << 10, 2);
    engine.flush().unwrap();
    engine.compact_all(Table::Doc).unwrap();
    while metric(&engine, "files_to_delete_bytes") > 0 {
        std::thread::sleep(Duration::from_millis(20));
    }
    let before = table_bytes(root.path(), &[".sst"]);
    let (lower, upper) = range_of(1);
    let begun = Instant::now();
    engine
        .drop_range(Table::Doc, KeyRange::new(&lower, &upper))
        .unwrap();
    let after = table_bytes(root.path(), &[".sst"]);
    let called = begun.elapsed();
    assert!(
        after > before / 2,
        "{} of {} MB are gone at once",
        (before - after) / MB,
        before / MB
    );
    assert!(
        called < Duration::from_secs(1),
        "the caller waited for {called:?}"
    );
    while metric(&engine, "files_to_delete_bytes") > 0 {
        assert!(begun.elapsed() < Duration::from_secs(30), "the files stay");
        std::thread::sleep(Duration::from_millis(20));
    }
    let after = table_bytes(root.path(), &[".sst"]);
    assert!(
        after < before / 2,
        "{} of {} MB stay",
        after / MB,
        before / MB
    );
    let took = begun.elapsed();
    assert!(
        took > Duration::from_secs(1),
        "{} MB went in {took:?}",
        before / MB
    );
    assert_eq!(scan(&engine, 2, CursorOpts::default()), 100);
    engine.close().unwrap();
}

// Number of data block misses that a scan of this ident causes.
fn misses(engine: &RocksEngine, ident: u32, opts: CursorOpts) -> u64 {
    let before = metric(engine, "cache_data_misses");
    scan(engine, ident, opts);
    metric(engine, "cache_data_misses") - before
}

fn scans_beside_a_working_set(cache_kind: CacheKind) {
    let root = tempfile::tempdir().unwrap();
    let config = Config {
        cache_kind,
        ..Config::with_budget(root.path(), 64 << 20)
    };
    let engine = RocksEngine::open(config).unwrap();
    // A cache of 32 MB; a working set of 6 MB, a scan of 2 MB, a scan of 160 MB.
    let (hot, middle, large) = (1, 2, 3);
    for (ident, megabytes) in [(hot, 6), (middle, 2), (large, 160)] {
        fill(&engine, ident, megabytes * 1024, 1 << 10, u64::from(ident));
    }
    engine.flush().unwrap();
    engine.compact_all(Table::Doc).unwrap();
    // Read row by row, as clients do.
    let read_hot = || {
        let before = metric(&engine, "cache_data_misses");
        for number in 0..6 * 1024 {
            assert!(
                engine
                    .get_with(Table::Doc, &key(hot, number), &mut |_| {})
                    .unwrap()
            );
        }
        metric(&engine, "cache_data_misses") - before
    };
    let blocks = read_hot();
    assert!(
        blocks > 500,
        "{blocks} blocks are not the whole working set"
    );
    assert!(
        read_hot() < blocks / 20,
        "the working set fits into the cache"
    );
    let first = misses(&engine, middle, CursorOpts::default());
    let again = misses(&engine, middle, CursorOpts::default());
    assert!(
        first > 100 && again < first / 20,
        "a scan of middle size found {again} of {first} blocks missing"
    );
    for opts in [
        CursorOpts::default(),
        CursorOpts {
            reverse: true,
            ..CursorOpts::default()
        },
    ] {
        scan(&engine, large, opts);
        let lost = read_hot();
        assert!(
            lost < blocks / 5,
            "{cache_kind:?}: a large scan pushed out {lost} of {blocks} blocks"
        );
    }
    // The same scan in pieces, as a client fetches it.
    let (lower, upper) = range_of(large);
    let (mut last, mut bytes_before) = (lower.to_vec(), 0);
    let mut more = true;
    while more {
        let opts = CursorOpts {
            bytes_before,
            ..CursorOpts::default()
        };
        let mut cursor = engine
            .cursor(Table::Doc, KeyRange::new(&last, &upper), opts)
            .unwrap();
        let mut end = Vec::new();
        more = cursor
            .visit(1000, &mut |key, value| {
                bytes_before += (key.len() + value.len()) as u64;
                end.clear();
                end.extend_from_slice(key);
                true
            })
            .unwrap();
        end.push(0);
        last = end;
    }
    assert!(bytes_before > 160 * MB);
    let lost = read_hot();
    assert!(
        lost < blocks / 5,
        "{cache_kind:?}: pieces of a large scan pushed out {lost} of {blocks} blocks"
    );
    engine.close().unwrap();
}

#[test]
fn a_large_scan_leaves_the_working_set_in_the_cache() {
    scans_beside_a_working_set(CacheKind::HyperClock);
    scans_beside_a_working_set(CacheKind::Lru);
}

#[test]
fn a_scan_that_stops_filling_the_cache_goes_on_at_the_same_state() {
    let root = tempfile::tempdir().unwrap();
    let engine = RocksEngine::open(Config::with_budget(root.path(), 64 << 20)).unwrap();
    let rows = 20 * 1024;
    fill(&engine, 1, rows, 1 << 10, 1);
    engine.flush().unwrap();
    for reverse in [false, true] {
        let (lower, upper) = range_of(1);
        let opts = CursorOpts {
            reverse,
            ..CursorOpts::default()
        };
        let mut cursor = engine
            .cursor(Table::Doc, KeyRange::new(&lower, &upper), opts)
            .unwrap();
        let (mut seen, mut more) = (0, true);
        while more {
            more = cursor
                .visit(700, &mut |found, value| {
                    let number = if reverse { rows - 1 - seen } else { seen };
                    assert_eq!(found, key(1, number), "row {seen}");
                    assert_eq!(
                        value.len(),
                        1 << 10,
                        "a value of before the cursor was opened"
                    );
                    seen += 1;
                    true
                })
                .unwrap();
            // Changes after the cursor's position, which it must not see.
            let mut batch = WriteBatch::new();
            let number = if reverse { 5 } else { rows - 5 };
            batch.put(Table::Doc, &key(1, number), &vec![7; 1 << 10]);
            batch.delete(Table::Doc, &key(1, number + 1));
            batch.put(Table::Doc, &[&key(1, number)[..], b"new"].concat(), b"x");
            engine.apply(&batch, Durability::Buffered).unwrap();
        }
        assert_eq!(seen, rows);
        let mut batch = WriteBatch::new();
        let number = if reverse { 5 } else { rows - 5 };
        batch.put(Table::Doc, &key(1, number + 1), &vec![7; 1 << 10]);
        batch.delete(Table::Doc, &[&key(1, number)[..], b"new"].concat());
        engine.apply(&batch, Durability::Buffered).unwrap();
    }
    engine.close().unwrap();
}

#[test]
fn large_documents_lie_beside_the_tables_and_behave_like_others() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("data");
    let config = Config {
        delete_bytes_per_s: 0,
        ..Config::with_budget(&path, 64 << 20)
    };
    let engine = RocksEngine::open(config.clone()).unwrap();
    for round in 0..6 {
        fill(&engine, 1, 200, 100 << 10, round);
        engine.flush().unwrap();
    }
    fill(&engine, 2, 200, 100 << 10, 77);
    fill(&engine, 3, 50, 1 << 10, 78);
    engine.flush().unwrap();
    engine.compact_all(Table::Doc).unwrap();
    let (tables, blobs) = (
        table_bytes(&path, &[".sst"]),
        table_bytes(&path, &[".blob"]),
    );
    assert!(
        tables < MB && blobs > 39 * MB,
        "{tables} bytes in tables, {blobs} beside"
    );
    assert!(
        blobs < 80 * MB,
        "{} MB of 39 stay after a rewrite of everything",
        blobs / MB
    );
    let (lower, upper) = range_of(1);
    let size = engine
        .approx_size(Table::Doc, KeyRange::new(&lower, &upper))
        .unwrap();
    assert!(
        (18 * MB..30 * MB).contains(&size),
        "about 20 MB, said to be {size}"
    );
    let (lower3, upper3) = range_of(3);
    let size = engine
        .approx_size(Table::Doc, KeyRange::new(&lower3, &upper3))
        .unwrap();
    assert!(
        size < MB,
        "small documents beside large ones: 50 KB, said to be {size}"
    );
    let mut value = Vec::new();
    assert!(engine.get(Table::Doc, &key(1, 3), &mut value).unwrap() && value.len() == 100 << 10);
    let keys: Vec<_> = (0..20).map(|number| key(2, number * 11)).collect();
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let mut lens = Vec::new();
    engine
        .multi_get(Table::Doc, &keys, &mut |_, value| {
            lens.push(value.map_or(0, <[u8]>::len))
        })
        .unwrap();
    assert_eq!(
        lens.iter().filter(|len| **len == 100 << 10).count(),
        19,
        "{lens:?}"
    );
    let keys_only = CursorOpts {
        keys_only: true,
        ..CursorOpts::default()
    };
    assert_eq!(
        (
            scan(&engine, 1, CursorOpts::default()),
            scan(&engine, 1, keys_only)
        ),
        (200, 200)
    );
    let copy = root.path().join("copy");
    engine.checkpoint(&copy).unwrap();
    // After the drop, files with only dropped keys are deleted at once, the other keys with the
    // next rewrite.
    engine.set_dropped(Table::Doc, Arc::new([1].into_iter().collect()));
    engine
        .drop_range(Table::Doc, KeyRange::new(&lower, &upper))
        .unwrap();
    assert!(!engine.is_gone(Table::Doc, 2).unwrap());
    engine.compact_all(Table::Doc).unwrap();
    assert!(engine.is_gone(Table::Doc, 1).unwrap());
    let left = table_bytes(&path, &[".blob"]);
    assert!(
        left < 45 * MB,
        "{} MB of {} stay after a drop of half",
        left / MB,
        blobs / MB
    );
    assert_eq!(
        (
            scan(&engine, 2, CursorOpts::default()),
            scan(&engine, 3, CursorOpts::default())
        ),
        (200, 50)
    );
    engine.close().unwrap();
    drop(engine);
    for path in [&path, &copy] {
        let engine = RocksEngine::open(Config {
            path: path.clone(),
            ..config.clone()
        })
        .unwrap();
        assert!(engine.verify().unwrap().findings.is_empty());
        assert_eq!(scan(&engine, 2, CursorOpts::default()), 200);
        engine.close().unwrap();
    }
}

#[test]
fn a_damaged_large_document_is_found_and_never_delivered() {
    let root = tempfile::tempdir().unwrap();
    let engine = RocksEngine::open(Config::with_budget(root.path(), 64 << 20)).unwrap();
    fill(&engine, 1, 20, 100 << 10, 1);
    engine.close().unwrap();
    drop(engine);
    let ends_in_blob =
        |path: &std::path::PathBuf| path.extension().is_some_and(|ending| ending == "blob");
    let mut files = fs::read_dir(root.path())
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let blob = files.find(ends_in_blob).unwrap();
    let mut bytes = fs::read(&blob).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&blob, bytes).unwrap();
    let engine = RocksEngine::open(Config::with_budget(root.path(), 64 << 20)).unwrap();
    let found = engine.verify().unwrap().findings;
    assert_eq!(found.len(), 1, "{found:?}");
    let reads = (0..20).map(|number| engine.get_with(Table::Doc, &key(1, number), &mut |_| {}));
    let damaged = reads.filter(|read| matches!(read, Err(StorageError::Corrupt { .. })));
    assert_eq!(damaged.count(), 1);
    engine.close().unwrap();
}

#[test]
fn a_dropped_ident_is_gone_when_its_last_key_is() {
    let root = tempfile::tempdir().unwrap();
    let engine = RocksEngine::open(Config::with_budget(root.path(), 64 << 20)).unwrap();
    let gone = |ident| engine.is_gone(Table::Doc, ident).unwrap();
    assert!(gone(1), "an ident without keys");
    fill(&engine, 1, 3000, 100, 1);
    fill(&engine, 2, 10, 100, 2);
    assert!(!gone(1), "keys in memory");
    engine.flush().unwrap();
    assert!(!gone(1), "keys in files");
    let (lower, upper) = range_of(1);
    engine.set_dropped(Table::Doc, Arc::new([1].into_iter().collect()));
    engine
        .drop_range(Table::Doc, KeyRange::new(&lower, &upper))
        .unwrap();
    engine.compact_all(Table::Doc).unwrap();
    assert!(gone(1) && !gone(2));
    // After the ident has left the set, its keys stay gone.
    engine.set_dropped(Table::Doc, Arc::default());
    fill(&engine, 2, 10, 100, 3);
    engine.flush().unwrap();
    engine.compact_all(Table::Doc).unwrap();
    assert!(gone(1) && !gone(2));
    engine.close().unwrap();
}

/// RocksDB accepts options it knows in a string and ignores others silently, so the test reads the
/// file in which RocksDB stores the options in force.
#[test]
fn options_without_a_function_of_the_binding_are_in_force() {
    let dir = tempfile::tempdir().unwrap();
    let engine = RocksEngine::open(Config::with_budget(dir.path(), 64 << 20)).unwrap();
    let options = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.to_string_lossy().contains("OPTIONS-"))
        .unwrap();
    let text = fs::read_to_string(options).unwrap();
    let of = |table: &str| {
        let begin = text.find(&format!("[CFOptions \"{table}\"]")).unwrap();
        let end = text[begin..]
            .find("\n\n")
            .map_or(text.len(), |len| begin + len);
        &text[begin..end]
    };
    let hint = "memtable_insert_with_hint_prefix_extractor=rocksdb.FixedPrefix.1";
    assert!(of("idx").contains(hint), "{}", of("idx"));
    assert!(!of("doc").contains(hint));
    assert!(of("doc").contains("auto_skip=true"), "{}", of("doc"));
    assert!(
        of("default").contains("strict_max_successive_merges=true"),
        "{}",
        of("default")
    );
    drop(engine);
}

/// Compaction on request, before RocksDB does it by itself: most of a collection is deleted, and
/// its neighbour stays.
#[test]
fn a_compaction_gives_back_what_deleted_rows_took() {
    let dir = tempfile::tempdir().unwrap();
    let engine = RocksEngine::open(Config::with_budget(dir.path(), 1 << 30)).unwrap();
    let rows = 60_000;
    for ident in 1..=3 {
        fill(&engine, ident, rows, 1_000, u64::from(ident));
    }
    engine.flush().unwrap();
    engine.compact_all(Table::Doc).unwrap();
    let (lower, upper) = range_of(2);
    let range = KeyRange::new(&lower, &upper);
    let whole = engine.approx_size(Table::Doc, range).unwrap();
    let unused = |left| engine.unused_size(Table::Doc, range, left).unwrap();
    assert!(unused(Some(rows)) < whole / 20, "{}", unused(Some(rows)));
    assert!(unused(None) < whole / 20, "{}", unused(None));
    // Every third row stays, so that every file has rows.
    let left = (0..rows).filter(|n| n % 3 == 0).count() as u64;
    let mut batch = WriteBatch::new();
    for number in (0..rows).filter(|n| n % 3 > 0) {
        batch.delete(Table::Doc, &key(2, number));
    }
    engine.apply(&batch, Durability::Buffered).unwrap();
    // Each file has more rows than deletions: RocksDB does not compact by itself.
    fill(&engine, 3, 45_000, 1_000, 4);
    engine.flush().unwrap();
    let size = |ident: u32| {
        let (lower, upper) = range_of(ident);
        let range = KeyRange::new(&lower, &upper);
        engine.approx_size(Table::Doc, range).unwrap()
    };
    // Deletions are in a file together with new rows of the neighbour, so their owner is unknown.
    let part = |told: u64| told as f64 / size(2) as f64;
    let (known, guessed) = (part(unused(Some(left))), part(unused(None)));
    assert!((0.5..0.8).contains(&known), "{known}");
    assert!((0.2..0.8).contains(&guessed), "{guessed}");
    let before = [size(1), size(2), size(3)];
    engine.compact(Table::Doc, range, &|| true).unwrap();
    assert_eq!([size(1), size(2), size(3)], before);
    engine.compact(Table::Doc, range, &|| false).unwrap();
    let after = size(2) as f64 / before[1] as f64;
    assert!((0.25..0.45).contains(&after), "{before:?}, {after}");
    assert!(unused(Some(left)) < size(2) / 10, "{}", unused(Some(left)));
    for (ident, rows) in [(1, rows), (2, left), (3, rows)] {
        assert_eq!(scan(&engine, ident, CursorOpts::default()), rows);
    }
}
