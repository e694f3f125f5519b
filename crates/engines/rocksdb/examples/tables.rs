//! The memory of an open table file outside of the block cache: the limit on open files is based on
//! it.
//!
//! ```text
//! eval "$(scripts/natives.sh)"
//! cargo run --release -p quarry-engine-rocksdb --example tables -- [FILES] [DIRECTORY]
//! ```
//! Makes that many table files, opens the directory once with few and once with all of them open,
//! reads a key of each and compares resident memory and cache usage of the process.

use std::path::{Path, PathBuf};

use engine_rocksdb::{Config, RocksEngine};
use storage::{Durability, Engine, Reader, Table, WriteBatch};

fn main() {
    let mut args = std::env::args().skip(1);
    let files = args
        .next()
        .and_then(|text| text.parse().ok())
        .unwrap_or(2000u32);
    let root = args
        .next()
        .map_or_else(|| std::env::temp_dir().join("quarry-tables"), PathBuf::from);
    if let Some(open_files_max) = args.next().and_then(|text| text.parse().ok()) {
        let (open, rss, cache) = measure(&root, open_files_max, files);
        println!("{open} {rss} {cache}");
        return;
    }
    std::fs::remove_dir_all(&root).ok();
    let engine = open(&root, 64);
    let doc = engine.raw().cf_handle("doc").expect("the table is there");
    engine
        .raw()
        .set_options_cf(doc, &[("disable_auto_compactions", "true")])
        .expect("an option");
    for file in 0..files {
        let mut batch = WriteBatch::new();
        for row in 0..2000u32 {
            let noise = (row.wrapping_mul(2_654_435_761)).to_be_bytes();
            batch.put(Table::Doc, &key(file, row), &noise.repeat(20));
        }
        engine.apply(&batch, Durability::Buffered).expect("a write");
        engine.raw().flush_cf(doc).expect("a flush");
    }
    engine.close().expect("the engine closes");
    drop(engine);
    let measured =
        [64, 2 * files].map(|open_files_max| measure_apart(&root, open_files_max, files));
    for (open, rss, cache) in measured {
        println!(
            "{open} descriptors open: resident {} KB, of it cache {} KB",
            rss >> 10,
            cache >> 10
        );
    }
    let [few, all] = measured;
    let outside = (all.1 as f64 - all.2 as f64) - (few.1 as f64 - few.2 as f64);
    println!(
        "{:.1} KB for each open file, outside of the cache",
        outside / 1024.0 / (all.0 - few.0) as f64
    );
    std::fs::remove_dir_all(&root).ok();
}

// Measured in a separate process, because an allocator returns little memory.
fn measure_apart(root: &Path, open_files_max: u32, files: u32) -> (usize, u64, u64) {
    let out = std::process::Command::new(std::env::current_exe().expect("this program"))
        .args([
            files.to_string(),
            root.display().to_string(),
            open_files_max.to_string(),
        ])
        .output()
        .expect("a child");
    let text = String::from_utf8_lossy(&out.stdout);
    let mut numbers = text.split_whitespace().filter_map(|word| word.parse().ok());
    let mut next = || numbers.next().expect("three numbers");
    (next() as usize, next(), next())
}

fn measure(root: &Path, open_files_max: u32, files: u32) -> (usize, u64, u64) {
    let engine = open(root, open_files_max);
    let mut value = Vec::new();
    for file in 0..files {
        assert!(
            engine
                .get(Table::Doc, &key(file, 7), &mut value)
                .expect("a read")
        );
    }
    let status = std::fs::read_to_string("/proc/self/status").expect("status");
    let rss: u64 = status
        .lines()
        .find_map(|line| {
            line.strip_prefix("VmRSS:")?
                .split_whitespace()
                .next()?
                .parse()
                .ok()
        })
        .expect("VmRSS");
    let mut cache = 0;
    engine.stats(&mut |name, value| {
        if name == "block_cache_usage_bytes" {
            cache = value as u64;
        }
    });
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    (open, rss << 10, cache)
}

fn open(root: &Path, open_files_max: u32) -> RocksEngine {
    let config = Config {
        open_files_max,
        ..Config::with_budget(root, 256 << 20)
    };
    RocksEngine::open(config).expect("the engine opens")
}

fn key(file: u32, row: u32) -> [u8; 12] {
    let mut key = [0; 12];
    key[3] = 1;
    key[4..8].copy_from_slice(&file.to_be_bytes());
    key[8..].copy_from_slice(&row.to_be_bytes());
    key
}
