//! Reading the readable part of damaged files: every row that a read of its key can show is shown,
//! and so are rows of other files that a damaged file hides.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use engine_rocksdb::{DirectoryCopy, RocksEngine};
use storage::{Durability, Engine, Gap, KeyRange, Reader, Salvage, Table, WriteBatch, salvage};

use crate::damage::{LARGE, SMALL, fill_directory, largest, value};
use crate::journal::{config_of, key};

/// The rows and gaps that were shown.
#[derive(Default)]
struct SalvagedRows {
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
    gaps: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Salvage for SalvagedRows {
    fn row(&mut self, key: &[u8], value: &[u8]) -> storage::Result<()> {
        let before = self.rows.insert(key.to_vec(), value.to_vec());
        assert!(before.is_none(), "{key:02x?} is shown twice");
        Ok(())
    }
    fn gap(&mut self, gap: &Gap<'_>) -> storage::Result<()> {
        assert!(gap.lower < gap.upper);
        self.gaps.push((gap.lower.to_vec(), gap.upper.to_vec()));
        Ok(())
    }
}

fn collect_rows(engine: &dyn Engine) -> SalvagedRows {
    let mut shown = SalvagedRows::default();
    salvage(engine, Table::Doc, KeyRange::ALL, &mut shown).unwrap();
    shown
}

/// Flips a byte at each of these places, in thousandths of the file.
fn flip(path: &Path, places: &[u64]) {
    let file = fs::OpenOptions::new().read(true).write(true).open(path);
    let file = file.unwrap();
    for place in places {
        let at = file.metadata().unwrap().len() * place / 1000;
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 0x55], at).unwrap();
    }
}

/// Returns how many documents were lost; checks that every document that a read can show was shown.
fn count_lost(engine: &RocksEngine, shown: &SalvagedRows) -> usize {
    let mut out = Vec::new();
    let mut lost = 0;
    for number in 0..SMALL + LARGE {
        let readable = engine.get(Table::Doc, &key(number), &mut out).is_ok();
        let found = shown.rows.get(&key(number));
        assert_eq!(found.is_some(), readable, "document {number}");
        if let Some(found) = found {
            assert_eq!(*found, value(number), "document {number}");
        } else {
            let of = key(number);
            let in_gap = |(lower, upper): &(Vec<u8>, Vec<u8>)| *lower <= of && of < *upper;
            assert!(
                shown.gaps.iter().any(in_gap),
                "document {number} is in no gap"
            );
            lost += 1;
        }
    }
    lost
}

#[test]
fn what_is_not_in_a_damaged_block_is_shown() {
    for (extension, places) in [
        ("sst", &[333][..]),
        ("sst", &[1, 100, 104, 500, 850]),
        ("blob", &[333]),
        ("blob", &[100, 500, 700]),
    ] {
        for sealed in [false, true] {
            let root = tempfile::tempdir().unwrap();
            fill_directory(root.path(), sealed);
            flip(&largest(root.path(), extension), places);
            let engine = RocksEngine::open(config_of(root.path(), sealed)).unwrap();
            let shown = collect_rows(&engine);
            let lost = count_lost(&engine, &shown);
            // Two documents may share a sealed page.
            let each = if extension == "sst" { 60 } else { 2 };
            let most = each * places.len();
            assert!(
                (1..=most).contains(&lost),
                "{extension} {places:?}: {lost} are lost"
            );
        }
    }
}

#[test]
fn sound_files_are_shown_without_gaps() {
    let root = tempfile::tempdir().unwrap();
    fill_directory(root.path(), false);
    let engine = RocksEngine::open(config_of(root.path(), false)).unwrap();
    let shown = collect_rows(&engine);
    assert_eq!((shown.gaps.len(), count_lost(&engine, &shown)), (0, 0));
}

#[test]
fn newer_rows_beside_a_damaged_file_are_shown_by_their_own() {
    for sealed in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let (data, rest) = (root.path().join("data"), root.path().join("rest"));
        fs::create_dir(&data).unwrap();
        fill_directory(&data, sealed);
        let old = largest(&data, "sst");
        let engine = RocksEngine::open(config_of(&data, sealed)).unwrap();
        let newer: Vec<u32> = (0..SMALL).step_by(10).collect();
        for number in &newer {
            let mut batch = WriteBatch::new();
            batch.put(Table::Doc, &key(*number), b"newer");
            engine.apply(&batch, Durability::Buffered).unwrap();
        }
        engine.close().unwrap();
        drop(engine);
        flip(&old, &[300, 310, 320, 330, 340, 350]);
        let engine = RocksEngine::open(config_of(&data, sealed)).unwrap();
        let all = collect_rows(&engine);
        let hidden: Vec<u32> = newer
            .iter()
            .copied()
            .filter(|number| !all.rows.contains_key(&key(*number)))
            .collect();
        assert!(!hidden.is_empty() && hidden.len() < newer.len());
        let others = engine.undamaged(&rest).unwrap().unwrap();
        let mut found = SalvagedRows::default();
        for (lower, upper) in &all.gaps {
            let range = KeyRange::new(lower, upper);
            salvage(others.as_ref(), Table::Doc, range, &mut found).unwrap();
        }
        assert!(found.gaps.is_empty());
        let expected = hidden.iter().map(|n| (key(*n), b"newer".to_vec()));
        assert_eq!(found.rows, expected.collect());
        others.close().unwrap();
    }
}

#[test]
fn without_the_catalog_of_files_their_tables_are_read() {
    let root = tempfile::tempdir().unwrap();
    let (data, copy) = (root.path().join("data"), root.path().join("copy"));
    fs::create_dir(&data).unwrap();
    fill_directory(&data, false);
    let mut paths = fs::read_dir(&data).unwrap().map(|e| e.unwrap().path());
    let is_catalog = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap();
        name.to_string_lossy().starts_with("MANIFEST")
    };
    let catalog = paths.find(is_catalog).unwrap();
    flip(&catalog, &[300, 500, 700]);
    let config = config_of(&data, false);
    assert!(RocksEngine::open(config.clone()).is_err());
    let before: Vec<u64> = sizes(&data);
    let borrowed = DirectoryCopy::make(&data, &copy).unwrap();
    let opened = borrowed
        .open_rest(&config, &root.path().join("rest"))
        .unwrap();
    assert_eq!(opened.left_out, Vec::<String>::new());
    let mut out = Vec::new();
    for number in 0..SMALL {
        let found = opened.engine.get(Table::Doc, &key(number), &mut out);
        assert!(found.unwrap() && out == value(number), "document {number}");
    }
    drop(opened);
    drop(borrowed);
    assert_eq!(sizes(&data), before);
}

fn sizes(of: &Path) -> Vec<u64> {
    let files = fs::read_dir(of).unwrap().map(|e| e.unwrap());
    let mut sizes: Vec<u64> = files.map(|e| e.metadata().unwrap().len()).collect();
    sizes.sort_unstable();
    sizes
}
