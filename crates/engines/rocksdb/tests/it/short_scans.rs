//! A scan of a few rows that reads ahead needs about one read of the device.

use engine_rocksdb::{Config, RocksEngine};
use storage::{CursorOpts, Durability, Engine, KeyRange, Reader, Table, WriteBatch};

const ROWS: u32 = 40_000;
const ROW_BYTES: usize = 220;
const LIMIT: usize = 20;
const SCANS: u32 = 300;

fn row(number: u32) -> [u8; 8] {
    (1 << 32 | u64::from(number)).to_be_bytes()
}

/// Bytes that no codec makes smaller.
fn value(number: u32) -> Vec<u8> {
    let mut state = u64::from(number) + 1;
    let next = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 56) as u8
    };
    (0..ROW_BYTES).map(next).collect()
}

/// Calls of this thread that read a file.
fn read_calls() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/io").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("syscr: "));
    line.and_then(|n| n.parse().ok()).unwrap()
}

/// Calls for a scan, on average over scans that begin far from each other. They leave the cache as
/// it is.
fn calls_per_scan(engine: &RocksEngine, readahead_bytes: usize) -> f64 {
    let opts = CursorOpts {
        readahead_bytes,
        fill_cache: false,
        limit_hint: LIMIT,
        ..CursorOpts::default()
    };
    let scan = |number: u32| {
        let first = row(number * (ROWS / SCANS));
        let range = KeyRange::new(&first, &[0xFF]);
        let mut cursor = engine.cursor(Table::Doc, range, opts).unwrap();
        let mut seen = 0;
        let each = &mut |_: &[u8], value: &[u8]| {
            seen += usize::from(value.len() == ROW_BYTES);
            true
        };
        cursor.visit(LIMIT, each).unwrap();
        assert_eq!(seen, LIMIT);
    };
    let before = read_calls();
    (0..SCANS).for_each(scan);
    (read_calls() - before) as f64 / f64::from(SCANS)
}

#[test]
fn a_short_scan_reads_its_rows_at_once() {
    let root = tempfile::tempdir().unwrap();
    let engine = RocksEngine::open(Config::with_budget(root.path(), 64 << 20)).unwrap();
    let mut batch = WriteBatch::new();
    for number in 0..ROWS + LIMIT as u32 {
        batch.put(Table::Doc, &row(number), &value(number));
    }
    engine.apply(&batch, Durability::Buffered).unwrap();
    engine.flush().unwrap();
    engine
        .compact(Table::Doc, KeyRange::ALL, &|| false)
        .unwrap();
    // The blocks of the index come into the cache.
    calls_per_scan(&engine, 0);
    let (without, with) = (
        calls_per_scan(&engine, 0),
        calls_per_scan(&engine, LIMIT * ROW_BYTES),
    );
    println!("calls per scan: {without:.2}, reading ahead {with:.2}");
    assert!(with < 1.2 && with < without / 1.5, "{without} {with}");
}
