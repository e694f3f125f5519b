//! A device that runs full. Needs a small file system of its own (about 300 MB), so it runs on request only:
//!
//! ```text
//! mount -t tmpfs -o size=300m tmpfs DIRECTORY
//! QUARRY_SMALL_FS=DIRECTORY cargo test -p quarry-engine-rocksdb --test it -- --ignored full_disk
//! ```

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use engine_rocksdb::{Config, RocksEngine};
use storage::{Batch, Durability, Engine, Read, StorageError, Table};

fn put(engine: &dyn Engine, number: u64) -> storage::Result<()> {
    let mut value = vec![0u8; 16 << 10];
    let mut noise = number;
    for chunk in value.chunks_exact_mut(8) {
        noise = noise
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        chunk.copy_from_slice(&noise.to_le_bytes());
    }
    let mut batch = Batch::new();
    batch.put(
        Table::Doc,
        &[&1u32.to_be_bytes()[..], &number.to_be_bytes()].concat(),
        &value,
    );
    engine.apply(&batch, Durability::Buffered).map(|_| ())
}

// Fills the device, checks what still works, makes room, and expects all acknowledged writes and new ones to work.
fn fill(guarded: bool) {
    let root = PathBuf::from(std::env::var("QUARRY_SMALL_FS").expect("QUARRY_SMALL_FS names a small file system"));
    let (data, ballast) = (root.join("data"), root.join("ballast"));
    fs::remove_dir_all(&data).ok();
    fs::write(&ballast, vec![1u8; 120 << 20]).unwrap();
    let (free_bytes_min, free_percent_min) = if guarded { (60 << 20, 2) } else { (0, 0) };
    let config = Config {
        free_bytes_min,
        free_percent_min,
        ..Config::with_budget(&data, 64 << 20)
    };
    let engine = RocksEngine::open(config.clone()).unwrap();
    let mut written = 0;
    let error = loop {
        match put(&engine, written) {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
        assert!(written < 100_000, "the device never runs full");
        if guarded {
            // The guard looks once a second.
            std::thread::sleep(Duration::from_millis(2));
        }
    };
    assert!(matches!(error, StorageError::Full { .. }), "{error:?}");
    let mut out = Vec::new();
    let key = [&1u32.to_be_bytes()[..], &0u64.to_be_bytes()].concat();
    assert!(
        engine.get(Table::Doc, &key, &mut out).unwrap(),
        "reads work on a full device"
    );
    if guarded {
        let mut batch = Batch::new();
        batch.delete(Table::Doc, &[&1u32.to_be_bytes()[..], &7u64.to_be_bytes()].concat());
        engine
            .apply(&batch, Durability::Journaled)
            .expect("deletes work while space is short");
    }
    fs::remove_file(&ballast).unwrap();
    let begun = Instant::now();
    while let Err(error) = put(&engine, written) {
        assert!(begun.elapsed() < Duration::from_secs(30), "still refusing: {error:?}");
        std::thread::sleep(Duration::from_millis(200));
    }
    engine.wait_durable(engine.snapshot().unwrap().pos()).unwrap();
    engine.close().unwrap();
    drop(engine);
    let engine = RocksEngine::open(config).unwrap();
    for number in (0..=written).filter(|number| !guarded || *number != 7) {
        let key = [&1u32.to_be_bytes()[..], &number.to_be_bytes()].concat();
        assert!(
            engine.get(Table::Doc, &key, &mut out).unwrap(),
            "acknowledged write {number} of {written} is lost"
        );
    }
    engine.close().unwrap();
    drop(engine);
    fs::remove_dir_all(&data).ok();
}

#[test]
#[ignore = "needs a small file system, see the top of this file"]
fn full_disk_is_survived_with_and_without_the_guard() {
    fill(true);
    fill(false);
}
