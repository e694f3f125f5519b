//! Commits that wait at the same time share transactions, and a refused one does not fail the
//! others.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};

use engine_lmdb::{Config, LmdbEngine};
use storage::{Durability, Engine, FlushEvent, Reader, StorageError, Table, WriteBatch};

#[test]
fn many_writers_share_transactions() {
    let root = tempfile::tempdir().unwrap();
    let engine = LmdbEngine::open(&Config::at(root.path().join("data"))).unwrap();
    let engine = Arc::new(engine);
    let told = Arc::new(AtomicU64::new(0));
    let hook = told.clone();
    engine.on_durable(Box::new(move |flushed| {
        if let FlushEvent::Durable(pos) = flushed {
            hook.fetch_max(pos.0, Ordering::Relaxed);
        }
    }));
    let (threads, each) = (16u32, 20u32);
    let start = Arc::new(Barrier::new(threads as usize));
    let writers: Vec<_> = (0..threads)
        .map(|thread| {
            let (engine, start) = (engine.clone(), start.clone());
            std::thread::spawn(move || {
                start.wait();
                for n in 0..each {
                    let key = [[0, 0, 0, 1], thread.to_be_bytes(), n.to_be_bytes()].concat();
                    let mut batch = WriteBatch::new();
                    batch.put(Table::Doc, &key, b"v");
                    batch.add(Table::Meta, b"count", [1, 1]);
                    let pos = engine.apply(&batch, Durability::Buffered).unwrap();
                    assert!(engine.durable_pos() >= pos);
                }
            })
        })
        .collect();
    for writer in writers {
        writer.join().unwrap();
    }
    let mut count = Vec::new();
    assert!(engine.get(Table::Meta, b"count", &mut count).unwrap());
    let expected = i64::from(threads * each);
    assert_eq!(storage::counter_decode(&count), [expected, expected]);
    let mut commits = 0;
    engine.stats(&mut |name, value| {
        if name == "commits" {
            commits = value;
        }
    });
    assert!(
        commits < expected,
        "{commits} transactions for {expected} batches"
    );
    assert_eq!(told.load(Ordering::Relaxed), engine.last_pos().0);
}

#[test]
fn a_batch_that_is_too_large_is_refused_alone() {
    let root = tempfile::tempdir().unwrap();
    let config = Config {
        map_bytes: 2 << 20,
        ..Config::at(root.path().join("data"))
    };
    let engine = Arc::new(LmdbEngine::open(&config).unwrap());
    let start = Arc::new(Barrier::new(8));
    let writers: Vec<_> = (0..8u8)
        .map(|thread| {
            let (engine, start) = (engine.clone(), start.clone());
            std::thread::spawn(move || {
                let size = if thread == 0 { 4 << 20 } else { 100 };
                let mut batch = WriteBatch::new();
                batch.put(Table::Doc, &[0, 0, 0, 1, thread], &vec![1u8; size]);
                start.wait();
                engine.apply(&batch, Durability::Buffered)
            })
        })
        .collect();
    for (thread, writer) in writers.into_iter().enumerate() {
        match (thread, writer.join().unwrap()) {
            (0, Err(StorageError::Full { .. })) => {}
            (0, other) => panic!("4 MiB into a map of 2: {other:?}"),
            (_, result) => drop(result.unwrap()),
        }
    }
}
