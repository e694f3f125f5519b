//! Rows that were overwritten many times must not slow scans down for the lifetime of the memtable.

use std::time::{Duration, Instant};

use engine_rocksdb::{Config, RocksEngine};
use storage::{CursorOpts, Durability, Engine, KeyRange, Reader, RowBatch, Table, WriteBatch};

const ROWS: u32 = 2000;

fn row(number: u32) -> Vec<u8> {
    [1u32.to_be_bytes(), number.to_be_bytes()].concat()
}

fn write_all(engine: &RocksEngine, round: u32) {
    let mut batch = WriteBatch::new();
    for number in 0..ROWS {
        batch.put(Table::Doc, &row(number), &round.to_be_bytes());
    }
    engine.apply(&batch, Durability::Buffered).unwrap();
}

/// Values of all rows, in order.
fn scan(engine: &RocksEngine) -> Vec<Vec<u8>> {
    let opts = CursorOpts::default();
    let mut cursor = engine.cursor(Table::Doc, KeyRange::ALL, opts).unwrap();
    let (mut rows, mut values) = (RowBatch::new(), Vec::new());
    loop {
        let more = cursor.next_batch(&mut rows, 256, 1 << 20).unwrap();
        values.extend(rows.iter().map(|(_, value)| value.to_vec()));
        if !more {
            return values;
        }
    }
}

fn bytes_of(engine: &RocksEngine, wanted: &str) -> i64 {
    let mut bytes = 0;
    engine.stats(&mut |name, value| {
        if name == wanted {
            bytes = value;
        }
    });
    bytes
}

#[test]
fn scans_have_a_memtable_of_old_versions_flushed() {
    let root = tempfile::tempdir().unwrap();
    let engine = RocksEngine::open(Config::with_budget(root.path(), 512 << 20)).unwrap();
    // Few overwritten rows cause no flush.
    (0..2).for_each(|round| write_all(&engine, round));
    scan(&engine);
    write_all(&engine, 2);
    assert_eq!(bytes_of(&engine, "doc.sst_bytes"), 0);
    (3..40).for_each(|round| write_all(&engine, round));
    let full = bytes_of(&engine, "doc.memtable_bytes");
    // A scan marks the memtable when its cursor is used again or dropped, the next write sees the
    // mark, and the flush runs in the background. There are fewer rounds than fill the memtable.
    for _ in 0..10 {
        scan(&engine);
        write_all(&engine, 40);
    }
    let deadline = Instant::now() + Duration::from_secs(30);
    while bytes_of(&engine, "doc.sst_bytes") == 0 {
        assert!(Instant::now() < deadline, "nothing was flushed");
        std::thread::sleep(Duration::from_millis(10));
    }
    let left = bytes_of(&engine, "doc.memtable_bytes");
    assert!(left < full, "{left} bytes in memory, before {full}");
    let newest = 40u32.to_be_bytes().to_vec();
    assert_eq!(scan(&engine), vec![newest; ROWS as usize]);
}
