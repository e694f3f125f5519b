//! A table that is kept at a size by freeing its oldest part, such as the log of changes, takes
//! about that size in files and memory together.

use std::time::{Duration, Instant};

use engine_rocksdb::{Config, RocksEngine};
use storage::{Durability, Engine, KeyRange, Table, WriteBatch};

const MB: u64 = 1 << 20;
const ROW: usize = 10_000;

fn row(number: u32) -> Vec<u8> {
    [1u32.to_be_bytes(), number.to_be_bytes()].concat()
}

fn held_bytes(engine: &RocksEngine) -> u64 {
    let mut bytes = 0;
    engine.stats(&mut |name, value| {
        if matches!(name, "log.sst_bytes" | "log.memtable_bytes") {
            bytes += value as u64;
        }
    });
    bytes
}

/// Writes `total` bytes and keeps the last `kept` of them; returns the most that was held at any
/// time.
fn measure_peak(engine: &RocksEngine, kept: u64, total: u64) -> u64 {
    let rows_kept = (kept / ROW as u64) as u32;
    let mut most = 0;
    for number in 0..(total / ROW as u64) as u32 {
        let mut batch = WriteBatch::new();
        // Incompressible values.
        let mut state = u64::from(number) + 1;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) as u8
        };
        let value: Vec<u8> = (0..ROW).map(|_| next()).collect();
        batch.put(Table::Log, &row(number), &value);
        engine.apply(&batch, Durability::Buffered).unwrap();
        if number % 10 == 9 {
            let (lower, upper) = (row(0), row(number.saturating_sub(rows_kept)));
            let gone = KeyRange::new(&lower, &upper);
            engine.drop_range(Table::Log, gone).unwrap();
            most = most.max(held_bytes(engine));
            // Slower than the device, so that unfinished background work does not count.
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    most
}

#[test]
fn a_table_that_is_kept_small_takes_little_more() {
    let root = tempfile::tempdir().unwrap();
    // The engine's share of 512 MB.
    let engine = RocksEngine::open(Config::with_budget(root.path(), 307 << 20)).unwrap();
    engine.expect_size(Table::Log, MB);
    let most = measure_peak(&engine, MB, 60 * MB);
    assert!(most < 8 * MB, "{most} bytes held for a megabyte");
    // The size may be raised again.
    engine.expect_size(Table::Log, 1 << 30);
    let begun = Instant::now();
    measure_peak(&engine, 20 * MB, 20 * MB);
    assert!(begun.elapsed() < Duration::from_secs(60));
}
