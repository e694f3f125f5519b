//! Damaged files and temporary failures of the device while the engine is open: reads of the
//! damaged part fail and name the place, everything else works.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use engine_rocksdb::RocksEngine;
use storage::{Durability, Engine, KeyRange, Reader, StorageError, Table, WriteBatch};

use crate::faults::{ActiveFault, Call};
use crate::journal::{config_of, copy, key};

pub(crate) const SMALL: u32 = 2000;
pub(crate) const LARGE: u32 = 20;

/// Random enough not to be compressible.
pub(crate) fn value(number: u32) -> Vec<u8> {
    let bytes = if number < SMALL { 200 } else { 40_000 };
    let mut state = u64::from(number) + 1;
    let next = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as u8
    };
    (0..bytes).map(next).collect()
}

fn put(engine: &RocksEngine, numbers: std::ops::Range<u32>) -> storage::Result<()> {
    for number in numbers {
        let mut batch = WriteBatch::new();
        batch.put(Table::Doc, &key(number), &value(number));
        engine.apply(&batch, Durability::Buffered)?;
    }
    Ok(())
}

/// A closed directory with all documents in a table, the large ones in a blob file.
pub(crate) fn fill_directory(path: &Path, sealed: bool) {
    let engine = RocksEngine::open(config_of(path, sealed)).unwrap();
    put(&engine, 0..SMALL + LARGE).unwrap();
    engine.flush().unwrap();
    engine.close().unwrap();
}

/// The largest file of a kind.
pub(crate) fn largest(path: &Path, extension: &str) -> PathBuf {
    let files = fs::read_dir(path).unwrap().map(|e| e.unwrap().path());
    let of_kind = files.filter(|p| p.extension().is_some_and(|e| e == extension));
    of_kind
        .max_by_key(|p| fs::metadata(p).unwrap().len())
        .unwrap()
}

/// Flips a byte at a third of the file: a block of documents.
fn flip(path: &Path) -> u64 {
    let file = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let at = file.metadata().unwrap().len() / 3;
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x55], at).unwrap();
    at
}

/// The errors of reading each document alone.
fn failures(engine: &RocksEngine) -> Vec<StorageError> {
    let mut out = Vec::new();
    let mut failed = Vec::new();
    for number in 0..SMALL + LARGE {
        match engine.get(Table::Doc, &key(number), &mut out) {
            Ok(found) => assert!(found && out == value(number), "document {number}"),
            Err(e) => failed.push(e),
        }
    }
    failed
}

/// Checks that the text names a place at the damage or shortly before it, where its block begins.
fn names(error: &StorageError, file: &Path, at: u64, block: u64) {
    let name = file.file_name().unwrap().to_string_lossy();
    let text = error.to_string();
    assert!(matches!(error, StorageError::Corrupt { .. }), "{error:?}");
    let offset = text
        .split_once(&format!("file {name} at byte "))
        .and_then(|(_, rest)| rest.split(',').next()?.parse::<u64>().ok());
    let Some(offset) = offset else {
        panic!("{text} does not name a byte of {name}");
    };
    assert!(
        (at.saturating_sub(block)..=at).contains(&offset),
        "{text}, flipped at {at}"
    );
}

#[test]
fn a_flipped_byte_fails_the_reads_that_need_it_and_names_its_place() {
    for (extension, block) in [("sst", 8 << 10), ("blob", 50 << 10)] {
        for sealed in [false, true] {
            let root = tempfile::tempdir().unwrap();
            fill_directory(root.path(), sealed);
            let file = largest(root.path(), extension);
            let at = flip(&file);
            let engine = RocksEngine::open(config_of(root.path(), sealed)).unwrap();
            let failed = failures(&engine);
            assert!(!failed.is_empty() && failed.len() < 100, "{}", failed.len());
            failed.iter().for_each(|e| names(e, &file, at, block));
            // The same by a cursor and by a read of many keys.
            let mut cursor = engine
                .cursor(Table::Doc, KeyRange::ALL, storage::CursorOpts::default())
                .unwrap();
            let scanned = loop {
                match cursor.visit(64, &mut |_, _| true) {
                    Ok(true) => {}
                    Ok(false) => panic!("the scan has passed over the damage"),
                    Err(e) => break e,
                }
            };
            names(&scanned, &file, at, block);
            let keys: Vec<Vec<u8>> = (0..SMALL + LARGE).map(key).collect();
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let many = engine.multi_get(Table::Doc, &keys, &mut |_, _| {});
            names(&many.unwrap_err(), &file, at, block);
            // Nothing else is affected.
            put(&engine, 10_000..10_010).unwrap();
            engine.flush().unwrap();
        }
    }
}

/// A compaction reads the damaged part sooner or later; that must not end all writing.
#[test]
fn a_compaction_that_meets_damage_leaves_the_engine_writable() {
    let root = tempfile::tempdir().unwrap();
    fill_directory(root.path(), false);
    let file = largest(root.path(), "sst");
    flip(&file);
    let engine = RocksEngine::open(config_of(root.path(), false)).unwrap();
    put(&engine, 0..10).unwrap();
    engine.flush().unwrap();
    let _ = engine.compact_all(Table::Doc);
    put(&engine, 10..20).expect("writes go on");
    engine.flush().expect("and are flushed");
    assert!(!failures(&engine).is_empty(), "the damage is still told of");
}

#[test]
fn a_read_that_fails_for_a_moment_fails_alone_and_names_the_file() {
    let root = tempfile::tempdir().unwrap();
    fill_directory(root.path(), false);
    for kind in [".sst", ".blob"] {
        let engine = RocksEngine::open(config_of(root.path(), false)).unwrap();
        let fault = ActiveFault::new(Call::Read, kind, root.path(), 1);
        let failed = failures(&engine);
        assert_eq!((fault.hits(), failed.len()), (1, 1), "{failed:?}");
        let text = failed[0].to_string();
        assert!(matches!(failed[0], StorageError::Io { .. }), "{text}");
        assert!(text.contains(kind) && text.contains(" at byte "), "{text}");
        assert!(failures(&engine).is_empty());
        put(&engine, 10_000..10_010).unwrap();
        engine.flush().unwrap();
    }
}

/// The device fails one flush of a table or of the manifest; the journal has all commits.
#[test]
fn a_failed_background_write_is_retried() {
    for kind in [".sst", ".blob", "MANIFEST-"] {
        let root = tempfile::tempdir().unwrap();
        fill_directory(root.path(), false);
        let engine = RocksEngine::open(config_of(root.path(), false)).unwrap();
        put(&engine, 0..SMALL + LARGE).unwrap();
        let fault = ActiveFault::new(Call::Sync, kind, root.path(), 1);
        // A caller that waits for that flush may get the error; later ones must not.
        let _ = engine.flush();
        let begun = Instant::now();
        let try_all = || {
            put(&engine, 0..10)?;
            engine.wait_durable(engine.last_pos())?;
            engine.flush()
        };
        while let Err(e) = try_all() {
            assert!(begun.elapsed() < Duration::from_secs(20), "{kind}: {e}");
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(fault.hits(), 1, "{kind}");
        assert!(failures(&engine).is_empty());
        engine.close().unwrap();
        drop(engine);
        let engine = RocksEngine::open(config_of(root.path(), false)).unwrap();
        assert!(failures(&engine).is_empty());
    }
}

/// The manifest, and where the headers of its records begin; in an encrypted one those of its
/// pieces.
fn manifest(path: &Path, sealed: bool) -> (PathBuf, Vec<usize>) {
    let files = fs::read_dir(path).unwrap().map(|e| e.unwrap().path());
    let is_manifest = |p: &PathBuf| {
        p.file_name()
            .unwrap()
            .as_encoded_bytes()
            .starts_with(b"MANIFEST")
    };
    let file = files.filter(is_manifest).max().unwrap();
    let bytes = fs::read(&file).unwrap();
    let mut headers = Vec::new();
    let mut at = if sealed { 64 } else { 0 };
    while at < bytes.len() {
        headers.push(at);
        at += match sealed {
            true => u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize + 20,
            false => usize::from(u16::from_le_bytes([bytes[at + 4], bytes[at + 5]])) + 7,
        };
    }
    (file, headers)
}

#[test]
fn a_manifest_with_a_changed_header_is_refused() {
    for sealed in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let whole = root.path().join("whole");
        fill_directory(&whole, sealed);
        let (file, headers) = manifest(&whole, sealed);
        let name = file.file_name().unwrap();
        let bytes = fs::read(&file).unwrap();
        // Length and kind of a record; length and first bytes of a piece.
        let changeable = if sealed { 0..6 } else { 4..7 };
        let flipped = headers.iter().rev().take(3).flat_map(|header| {
            let bytes = changeable.clone().map(move |byte| header + byte);
            bytes.flat_map(|byte| (0..8).map(move |bit| (byte, bit)))
        });
        for (byte, bit) in flipped {
            let changed = root.path().join("changed");
            copy(&whole, &changed);
            let mut bytes = bytes.clone();
            bytes[byte] ^= 1 << bit;
            fs::write(changed.join(name), bytes).unwrap();
            let opened = RocksEngine::open(config_of(&changed, sealed)).map(|_| "opened");
            let is_refused = matches!(opened, Err(StorageError::Corrupt { .. }));
            assert!(is_refused, "{sealed}, bit {bit} of byte {byte}: {opened:?}");
            fs::remove_dir_all(&changed).unwrap();
        }
    }
}

#[test]
fn a_manifest_with_a_record_that_was_cut_off_opens() {
    for sealed in [false, true] {
        let root = tempfile::tempdir().unwrap();
        fill_directory(root.path(), sealed);
        let (file, headers) = manifest(root.path(), sealed);
        let mut bytes = fs::read(&file).unwrap();
        let last = bytes[*headers.last().unwrap()..].to_vec();
        bytes.extend_from_slice(&last[..last.len() - 1]);
        fs::write(&file, bytes).unwrap();
        let engine = RocksEngine::open(config_of(root.path(), sealed)).unwrap();
        assert!(failures(&engine).is_empty());
    }
}
