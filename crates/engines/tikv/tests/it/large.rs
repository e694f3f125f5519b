//! Batches that are too large for one transaction: readers see all of a batch or nothing, also when
//! the writer is killed in the middle. Replaced and deleted values leave no pieces.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use engine_tikv::{Config, TikvEngine};
use storage::{CursorOpts, Durability, Engine, KeyRange, Reader, Table, WriteBatch};

use crate::tools::{config, key, open, pd};
use crate::writer::{LEASE, Writer};

const ROWS: u32 = 1_500;
const VALUE_BYTES: usize = 4_000;

/// Writes a number to all rows, six megabytes of them, and adds one to a counter.
pub(crate) fn write(engine: &TikvEngine, number: u32) -> storage::Result<()> {
    let mut batch = WriteBatch::new();
    let mut value = vec![0; VALUE_BYTES];
    value[..4].copy_from_slice(&number.to_be_bytes());
    (0..ROWS).for_each(|n| batch.put(Table::Doc, &key(n), &value));
    batch.add(Table::Meta, b"count", [1, 0]);
    engine.apply(&batch, Durability::Buffered).map(|_| ())
}

/// The number that all rows have.
pub(crate) fn read_number(reader: &dyn Reader) -> Option<u32> {
    let (mut rows, mut found) = (0, None);
    let all = KeyRange::new(&[0, 0, 0, 1], &[0, 0, 0, 2]);
    let mut cursor = reader
        .cursor(Table::Doc, all, CursorOpts::default())
        .unwrap();
    while cursor
        .visit(500, &mut |_, value| {
            let number = u32::from_be_bytes(*value.first_chunk().unwrap());
            assert_eq!(
                *found.get_or_insert(number),
                number,
                "half a batch is visible"
            );
            rows += 1;
            true
        })
        .unwrap()
    {}
    assert!(rows == 0 || rows == ROWS, "{rows} rows");
    found
}

#[test]
fn readers_see_all_of_a_large_batch_or_nothing() {
    let Some(pd) = pd() else {
        return;
    };
    let engine = Arc::new(open(&config(&pd)));
    let stop = Arc::new(AtomicBool::new(false));
    let reader = {
        let (engine, stop) = (Arc::clone(&engine), Arc::clone(&stop));
        std::thread::spawn(move || {
            let mut seen = 0u32;
            while !stop.load(Ordering::Relaxed) {
                let now = read_number(&*engine.snapshot().unwrap());
                assert!(now >= seen.checked_sub(1), "it goes back");
                seen = now.map_or(0, |n| n + 1);
            }
            seen
        })
    };
    (0..4).for_each(|n| write(&engine, n).unwrap());
    std::thread::sleep(Duration::from_millis(300));
    stop.store(true, Ordering::Relaxed);
    assert_eq!(reader.join().unwrap(), 4);
}

#[test]
fn a_server_that_takes_over_finishes_a_large_batch() {
    let Some(pd) = pd() else {
        return;
    };
    let own = Config {
        lease: LEASE,
        standby: Some(Arc::default()),
        ..config(&pd)
    };
    for round in 0..3u32 {
        let writer = Writer::start("large", &own);
        let last = writer.wait_acknowledged(round);
        // In each round the kill comes at another place of the next batch.
        std::thread::sleep(Duration::from_millis(u64::from(40 + 130 * round)));
        let last = writer.kill().unwrap_or(last);
        let engine = open(&own);
        let now = read_number(&engine).unwrap();
        assert!(now >= last, "{last} was acknowledged, {now} is there");
        let mut count = Vec::new();
        engine.get(Table::Meta, b"count", &mut count).unwrap();
        assert_eq!(storage::counter_decode(&count)[0], i64::from(now) + 1);
        engine.close().unwrap();
    }
}

#[test]
fn values_in_pieces_are_replaced_and_removed() {
    let Some(pd) = pd() else {
        return;
    };
    let own = config(&pd);
    let engine = open(&own);
    let put = |engine: &TikvEngine, value: Option<&[u8]>| {
        let mut batch = WriteBatch::new();
        match value {
            Some(value) => batch.put(Table::Doc, &key(1), value),
            None => batch.delete(Table::Doc, &key(1)),
        }
        engine.apply(&batch, Durability::Buffered).unwrap();
    };
    let value = |len: usize| -> Vec<u8> { (0..len).map(|n| (n / 1000) as u8).collect() };
    for len in [3 << 20, 40_000, (1 << 20) + 1, 10, 32 << 10, (32 << 10) + 1] {
        put(&engine, Some(&value(len)));
        let mut found = Vec::new();
        assert!(engine.get(Table::Doc, &key(1), &mut found).unwrap());
        assert!(found == value(len), "{len} bytes");
    }
    engine.close().unwrap();
    // The state is also known after a restart: deleting a key removes all pieces of its value.
    let engine = open(&own);
    put(&engine, Some(&value(5 << 20)));
    engine.close().unwrap();
    let engine = open(&own);
    put(&engine, None);
    assert_eq!(engine.pieces_left().unwrap(), 0);
}
