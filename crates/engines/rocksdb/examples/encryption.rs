//! The cost of encryption: processor time of all threads for each insert and each point read, with
//! encrypted data compared with plain data.
//!
//! ```text
//! cargo run --release -p quarry-engine-rocksdb --example encryption -- [KEYS] [ROUNDS]
//! ```
//! Both sides run alternately on the same data; the fastest round of each counts. An insert is a
//! document of 400 bytes (half of it compressible), two index entries and a log entry; flushes and
//! one compaction of everything are included. Reads are of random documents: in `cached` they fit
//! into the block cache, in `uncached` nearly all blocks are only in the system's page cache.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use cipher::MasterKey;
use engine_rocksdb::{Config, RocksEngine};
use storage::{Durability, Engine, Reader, Table, WriteBatch};

const BATCH: u32 = 10;

fn main() {
    let mut args = std::env::args().skip(1);
    let mut number = |default: u32| {
        let given = args.next().and_then(|text| text.parse().ok());
        given.unwrap_or(default)
    };
    let (keys, rounds) = (number(300_000), number(3));
    let root = tempfile::tempdir().expect("a temporary directory");
    let key_file = root.path().join("key");
    std::fs::write(&key_file, format!("{}E=", "A".repeat(42))).expect("a key file");
    let private = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(&key_file, private).expect("a private key file");
    let master = Arc::new(MasterKey::read(&key_file).expect("a key"));
    let mut best = [[f64::MAX; 2]; 3];
    for round in 0..rounds {
        for (side, sealed) in [false, true].into_iter().enumerate() {
            let path = root.path().join(format!("{round}-{sealed}"));
            let key = sealed.then(|| Arc::clone(&master));
            let took = measure(&path, key, keys);
            for (best, took) in best.iter_mut().zip(took) {
                best[side] = best[side].min(took);
            }
            std::fs::remove_dir_all(&path).expect("the directory goes");
        }
    }
    println!("CPU us per operation of all threads, {keys} keys, best of {rounds} rounds");
    println!("{:<16} {:>9} {:>9} {:>7}", "", "clear", "sealed", "ratio");
    let names = ["insert", "read, cached", "read, uncached"];
    for (name, [clear, sealed]) in names.into_iter().zip(best) {
        let ratio = sealed / clear;
        println!("{name:<16} {clear:>9.2} {sealed:>9.2} {ratio:>7.2}");
    }
}

fn measure(path: &Path, key: Option<Arc<MasterKey>>, keys: u32) -> [f64; 3] {
    let open = |budget: usize| {
        let config = Config {
            master_key: key.clone(),
            ..Config::with_budget(path, budget)
        };
        RocksEngine::open(config).expect("the engine opens")
    };
    let engine = open(1 << 30);
    let begun = cpu_us();
    insert(&engine, keys);
    engine.flush().expect("a flush");
    engine.compact_all(Table::Doc).expect("a compaction");
    let insert_us = (cpu_us() - begun) / f64::from(keys);
    read(&engine, keys, keys);
    let cached_us = read(&engine, keys, keys);
    engine.close().expect("the engine closes");
    drop(engine);
    let engine = open(64 << 20);
    let uncached_us = read(&engine, keys, keys / 3);
    engine.close().expect("the engine closes");
    [insert_us, cached_us, uncached_us]
}

fn scatter_key(number: u32) -> [u8; 16] {
    let mut key = [0; 16];
    key[..4].copy_from_slice(&1u32.to_be_bytes());
    key[4..8].copy_from_slice(&number.wrapping_mul(2_654_435_761).to_be_bytes());
    key[8..12].copy_from_slice(&number.to_be_bytes());
    key
}

fn insert(engine: &RocksEngine, keys: u32) {
    let mut value = [7u8; 400];
    let mut batch = WriteBatch::new();
    let mut random = 1u64;
    for number in 0..keys {
        for part in value[..200].chunks_mut(8) {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            part.copy_from_slice(&random.to_le_bytes());
        }
        let key = scatter_key(number);
        batch.put(Table::Doc, &key, &value);
        batch.put(Table::Idx, &key, b"");
        batch.put(Table::Idx, &scatter_key(!number), b"");
        batch.put(Table::Log, &number.to_be_bytes(), &value);
        if number % BATCH == BATCH - 1 {
            engine.apply(&batch, Durability::Buffered).expect("a write");
            batch.clear();
        }
    }
}

/// Processor time of one read.
fn read(engine: &RocksEngine, keys: u32, times: u32) -> f64 {
    let (mut out, mut at) = (Vec::new(), 1u32);
    let begun = cpu_us();
    for _ in 0..times {
        at = at.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let found = engine.get(Table::Doc, &scatter_key(at % keys), &mut out);
        assert!(found.expect("a read"), "{at}");
    }
    (cpu_us() - begun) / f64::from(times)
}

/// Processor time of all threads so far.
fn cpu_us() -> f64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is writable memory of the right type.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut now) };
    now.tv_sec as f64 * 1e6 + now.tv_nsec as f64 / 1e3
}
