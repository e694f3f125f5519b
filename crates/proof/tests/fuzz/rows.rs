//! Stored data: rows of the catalog, documents, index entries, the log and counters, changed below
//! the store. The store reports an error or continues; it does not panic.

use crate::workload::Client;
use commands::{StoreHooks, SystemClock};
use model::Namespace;
use proof::Random;
use proof::fuzz::{Fuzz, Limit, Outcome, change_bytes, number_of};
use std::sync::Arc;
use storage::{CursorOpts, Durability, Engine, KeyRange, MemoryEngine, Table, WriteBatch};
use store::{ReadView, Store};

#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    table: Table,
    key: Vec<u8>,
    value: Vec<u8>,
}

fn open(engine: Arc<MemoryEngine>) -> model::Result<Store> {
    let hooks = StoreHooks::new(Arc::new(SystemClock::default())).with_log(1 << 20);
    Store::open(engine, Arc::new(hooks))
}

fn rows(engine: &dyn Engine) -> Vec<Row> {
    let mut rows = Vec::new();
    for table in Table::ALL {
        let mut cursor = engine
            .cursor(table, KeyRange::ALL, CursorOpts::default())
            .expect("a cursor");
        while cursor
            .visit(100, &mut |key, value| {
                let (key, value) = (key.to_vec(), value.to_vec());
                rows.push(Row { table, key, value });
                true
            })
            .expect("a memory engine reads")
        {}
    }
    rows
}

/// The rows after a workload.
fn corpus() -> Vec<Row> {
    let engine = Arc::new(MemoryEngine::new());
    let store = Arc::new(open(engine.clone()).expect("an empty store"));
    let mut client = Client::of(store.clone(), 3);
    for _ in 0..60 {
        client.step();
    }
    assert!(!client.failed && client.replies.contains_key(&0));
    drop(client);
    let rows = rows(&*engine);
    let _ = store.close();
    rows
}

/// Reads all stored data; returns the first error.
fn read_all(engine: Arc<MemoryEngine>) -> model::Result<u64> {
    let store = open(engine)?;
    let mut sum = 0;
    let mut first = None;
    for db in store.list_databases()? {
        for entry in store.list_collections(&db)? {
            let Ok(ns) = Namespace::new(&db, &entry.name) else {
                continue;
            };
            let read = || -> model::Result<u64> {
                let Some(c) = store.collection(&ns)? else {
                    return Ok(0);
                };
                if c.is_view() {
                    return Ok(1);
                }
                let mut n = 0;
                let mut scan = c.scan(&ReadView::LATEST, false);
                while scan.visit(100, &mut |row| {
                    n += row.doc.iter().count() as u64;
                    true
                })? {}
                if c.is_log() {
                    return Ok(n);
                }
                Ok(n + c.validate()?.errors.len() as u64)
            };
            match read() {
                Ok(n) => sum += n,
                Err(e) => first = first.or(Some(e)),
            }
        }
    }
    let closed = store.close();
    first.map_or(closed.map(|()| sum), Err)
}

fn change(random: &mut Random, row: &mut Row, other: &Row) {
    match random.below(6) {
        0 => change_bytes(random, &mut row.key, &other.key),
        1 => row.value.clone_from(&other.value),
        _ => change_bytes(random, &mut row.value, &other.value),
    }
}

#[test]
fn stored_rows() {
    let corpus = corpus();
    let fuzz = Fuzz {
        name: "stored rows",
        limit: Limit::of(corpus.len() + 600),
        corpus: &corpus,
        change,
        show: |row| format!("{row:?}"),
    };
    let mut turn = 0;
    let tried = fuzz.run(|row| {
        let engine = Arc::new(MemoryEngine::new());
        let mut batch = WriteBatch::new();
        turn += 1;
        for (i, old) in corpus.iter().enumerate() {
            // The changed row is added beside its original, or replaces it.
            if i % corpus.len() != turn % corpus.len() && old.key != row.key {
                batch.put(old.table, &old.key, &old.value);
            }
        }
        if !row.key.is_empty() && row.key[0] != 0xFF {
            batch.put(row.table, &row.key, &row.value);
        }
        engine
            .apply(&batch, Durability::Buffered)
            .expect("rows are put");
        let read = read_all(engine);
        Outcome::of(&read, |n| number_of((row.table, n % 16)))
    });
    assert!(tried.outcomes > 10, "{tried:?}");
}
