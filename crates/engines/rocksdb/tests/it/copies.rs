//! Files that successive copies of an open database share.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use engine_rocksdb::{Config, RocksEngine};
use storage::{Durability, Engine, KeyRange, Reader, Table, WriteBatch};

const ROWS: u32 = 20_000;
const CHANGED: u32 = 20;
const VALUE_BYTES: usize = 1_000;
const COPIES: u32 = 12;

fn config(path: &Path) -> Config {
    Config::with_budget(path, 64 << 20)
}

fn key(n: u32) -> Vec<u8> {
    [[0, 0, 0, 1], n.to_be_bytes()].concat()
}

/// Bytes that do not compress.
fn value(seed: u32) -> Vec<u8> {
    let mut state = u64::from(seed) + 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..VALUE_BYTES).map(|_| next()).collect()
}

/// The tables of a copy, by name, with their lengths.
fn tables(copy: &Path) -> BTreeMap<String, u64> {
    let entries = fs::read_dir(copy).unwrap().map(Result::unwrap);
    let sized = entries.map(|entry| {
        let name = entry.file_name().into_string().unwrap();
        (name, entry.metadata().unwrap().len())
    });
    sized.filter(|(name, _)| name.ends_with(".sst")).collect()
}

#[test]
fn copies_of_little_change_share_their_tables() {
    let root = tempfile::tempdir().unwrap();
    let engine = RocksEngine::open(config(&root.path().join("data"))).unwrap();
    let put = |n: u32, seed: u32| {
        let mut batch = WriteBatch::new();
        batch.put(Table::Doc, &key(n), &value(seed));
        engine.apply(&batch, Durability::Buffered).unwrap();
    };
    (0..ROWS).for_each(|n| put(n, n));
    engine.flush().unwrap();
    // Compacts everything, so that no compaction of the loaded data is left.
    let all = KeyRange::ALL;
    engine.compact(Table::Doc, all, &|| false).unwrap();
    let (mut before, mut new_bytes) = (BTreeMap::new(), 0);
    for copy in 0..=COPIES {
        let path = root.path().join(format!("copy{copy}"));
        engine.checkpoint(&path).unwrap();
        let now = tables(&path);
        if copy > 0 {
            let new = now.iter().filter(|(name, _)| !before.contains_key(*name));
            new_bytes += new.map(|(_, bytes)| bytes).sum::<u64>();
        }
        before = now;
        for n in 0..CHANGED {
            put(n * (ROWS / CHANGED) + copy, ROWS + copy * CHANGED + n);
        }
    }
    let changed = u64::from(COPIES * CHANGED) * VALUE_BYTES as u64;
    eprintln!("{new_bytes} bytes of new tables, {changed} bytes were changed");
    assert!(new_bytes <= changed, "{new_bytes} bytes of {changed}");
    // Each copy has everything that was written before it.
    let newest = root.path().join(format!("copy{COPIES}"));
    let opened = RocksEngine::open(config(&newest)).unwrap();
    for copy in 0..COPIES {
        for n in 0..CHANGED {
            let mut found = Vec::new();
            let row = key(n * (ROWS / CHANGED) + copy);
            assert!(opened.get(Table::Doc, &row, &mut found).unwrap());
            assert_eq!(found, value(ROWS + copy * CHANGED + n));
        }
    }
    engine.close().unwrap();
    opened.close().unwrap();
}
