//! Counters: the cost of a change does not depend on the number of changes before it.

use std::time::{Duration, Instant};

use engine_rocksdb::{Config, RocksEngine};
use storage::{Durability, Engine, Reader, Table, WriteBatch};

const BEFORE: u32 = 20_000;
const TIMED: u32 = 250;

/// The shortest of several times, so that other activity of the machine does not count.
fn shortest(engine: &RocksEngine, one: &WriteBatch) -> Duration {
    let timed = || {
        let began = Instant::now();
        for _ in 0..TIMED {
            engine.apply(one, Durability::Buffered).unwrap();
        }
        began.elapsed()
    };
    (0..8).map(|_| timed()).min().unwrap()
}

// RocksDB merges many changes into one value while they are in memory. Where the previous value was
// in a file it did not, tried again at each change, and each took as long as all before together.
#[test]
fn a_change_of_a_counter_in_a_file_costs_no_more_than_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let engine = RocksEngine::open(Config::with_budget(dir.path(), 64 << 20)).unwrap();
    let mut one = WriteBatch::new();
    one.add(Table::Meta, b"n-counter", [1, 10]);
    engine.apply(&one, Durability::Buffered).unwrap();
    engine.flush().unwrap();
    let first = shortest(&engine, &one);
    for _ in 0..BEFORE {
        engine.apply(&one, Durability::Buffered).unwrap();
    }
    let later = shortest(&engine, &one);
    assert!(later < 5 * first, "{first:?} at first, {later:?} later");
    let changes = i64::from(1 + 16 * TIMED + BEFORE);
    let mut value = Vec::new();
    assert!(engine.get(Table::Meta, b"n-counter", &mut value).unwrap());
    assert_eq!(storage::counter_decode(&value), [changes, 10 * changes]);
}
