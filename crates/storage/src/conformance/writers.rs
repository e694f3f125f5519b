//! Several threads at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::tools::{get, key, scan_keys};
use crate::batch::{WriteBatch, counter_decode};
use crate::engine::{CommitPos, Durability, Engine, FlushEvent, FlushOutcome};
use crate::keys::{KeyRange, Table};

const THREADS: u32 = 4;

pub(super) fn concurrent(engine: Arc<dyn Engine>) {
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let engine = &engine;
            scope.spawn(move || {
                let mut batch = WriteBatch::new();
                for i in 0..200 {
                    batch.clear();
                    batch.put(Table::Doc, &key(thread + 1, &i.to_string()), b"v");
                    batch.put(Table::Log, &key(9, &format!("{thread}-{i}")), b"v");
                    batch.add(Table::Meta, b"n|all", [1, 10]);
                    engine.apply(&batch, Durability::Buffered).unwrap();
                }
            });
        }
    });
    assert_eq!(scan_keys(&*engine, Table::Doc, KeyRange::ALL).len(), 800);
    assert_eq!(scan_keys(&*engine, Table::Log, KeyRange::ALL).len(), 800);
    assert_eq!(
        counter_decode(&get(&*engine, Table::Meta, b"n|all").unwrap()),
        [800, 8000],
        "no sum is lost"
    );
}

// Every batch writes one number to three keys in two tables; a snapshot must never see two numbers.
pub(super) fn atomic(engine: Arc<dyn Engine>) {
    let (stop, seen) = (AtomicBool::new(false), AtomicU64::new(0));
    let places = [
        (Table::Doc, key(1, "a")),
        (Table::Doc, key(2, "b")),
        (Table::Idx, key(3, "c")),
    ];
    std::thread::scope(|scope| {
        for thread in 0..2u64 {
            let (engine, stop, places) = (&engine, &stop, &places);
            scope.spawn(move || {
                let (mut batch, mut number) = (WriteBatch::new(), thread);
                while !stop.load(Ordering::Relaxed) {
                    batch.clear();
                    for (table, k) in places {
                        batch.put(*table, k, &number.to_le_bytes());
                    }
                    engine.apply(&batch, Durability::Buffered).unwrap();
                    number += 2;
                }
            });
        }
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(150) {
            let snapshot = engine.snapshot().unwrap();
            let values: Vec<_> = places
                .iter()
                .map(|(table, k)| get(&*snapshot, *table, k))
                .collect();
            assert!(
                values.windows(2).all(|pair| pair[0] == pair[1]),
                "half a batch is visible: {values:?}"
            );
            seen.fetch_add(1, Ordering::Relaxed);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(seen.into_inner() > 0);
}

// A writer announces the position of each value before anybody may read a later value. After
// reading a value, a reader asks for the last position, which must be at or above the position of
// that value.
pub(super) fn last_pos_covers_reads(engine: Arc<dyn Engine>) {
    let k = key(1, "seen");
    let positions: Vec<AtomicU64> = (0..2000).map(|_| AtomicU64::new(0)).collect();
    let stop = AtomicBool::new(false);
    let mut checks: Vec<(u64, u64)> = Vec::new();
    std::thread::scope(|scope| {
        let (engine, positions, stop, k) = (&engine, &positions, &stop, &k);
        scope.spawn(move || {
            let mut batch = WriteBatch::new();
            for (number, pos) in positions.iter().enumerate() {
                batch.clear();
                batch.put(Table::Doc, k, &(number as u64).to_le_bytes());
                let at = engine.apply(&batch, Durability::Buffered).unwrap();
                pos.store(at.0, Ordering::SeqCst);
            }
            stop.store(true, Ordering::SeqCst);
        });
        let mut value = Vec::new();
        loop {
            let stopped = stop.load(Ordering::SeqCst);
            if engine.get(Table::Doc, k, &mut value).unwrap() {
                let last = engine.last_pos().0;
                checks.push((u64::from_le_bytes(value[..].try_into().unwrap()), last));
            }
            if stopped {
                break;
            }
        }
    });
    assert!(!checks.is_empty());
    for (number, last) in checks {
        let at = positions[number as usize].load(Ordering::SeqCst);
        assert!(
            last >= at,
            "value {number} of position {at} was read, then the last position was {last}"
        );
    }
}

// Threads that only call `try_flush` and follow the rule about `more` make every commit durable,
// and no thread blocks for it.
pub(super) fn turns(engine: Arc<dyn Engine>) {
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let engine = &engine;
            scope.spawn(move || {
                let mut batch = WriteBatch::new();
                for i in 0..10 {
                    batch.clear();
                    batch.put(Table::Doc, &key(thread, &i.to_string()), b"v");
                    let pos = engine.apply(&batch, Durability::Buffered).unwrap();
                    let mut turn = engine.try_flush(pos);
                    if turn != FlushOutcome::Idle {
                        assert!(
                            engine.durable_pos() >= pos,
                            "a flush covers what it was asked for"
                        );
                    }
                    while turn == (FlushOutcome::Flushed { more: true }) {
                        turn = engine.try_flush(CommitPos(0));
                    }
                    let begun = Instant::now();
                    while engine.durable_pos() < pos {
                        assert!(
                            begun.elapsed() < Duration::from_secs(20),
                            "{pos:?} is forgotten"
                        );
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
            });
        }
    });
}

pub(super) fn durable(engine: Arc<dyn Engine>) {
    let told = Arc::new(AtomicU64::new(0));
    let hook = Arc::clone(&told);
    engine.on_durable(Box::new(move |flushed| {
        if let FlushEvent::Durable(pos) = flushed {
            hook.fetch_max(pos.0, Ordering::SeqCst);
        }
    }));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let engine = &engine;
            scope.spawn(move || {
                let mut batch = WriteBatch::new();
                for i in 0..10 {
                    batch.clear();
                    batch.put(Table::Doc, &key(thread, &i.to_string()), b"v");
                    let pos = engine.apply(&batch, Durability::Buffered).unwrap();
                    engine.wait_durable(pos).unwrap();
                    assert!(engine.durable_pos() >= pos);
                }
            });
        }
    });
    let mut batch = WriteBatch::new();
    batch.put(Table::Doc, &key(1, "last"), b"v");
    let pos = engine.apply(&batch, Durability::Buffered).unwrap();
    engine.request_flush(pos);
    let begun = Instant::now();
    while told.load(Ordering::SeqCst) < pos.0 {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "the hook is never told of {pos:?}"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(engine.durable_pos() >= pos);
}
