//! Index builds concurrent with random writers, over several engines: when a build has ended, the
//! collection validates and the index finds the collection's documents. `QUARRY_SEED=n` begins with
//! another seed, `QUARRY_ROUNDS=n` sets the number of rounds. With `QUARRY_BUILD_DOCS=n` the test
//! `large` builds over n documents and prints how long the build took and how long a writer waited.

mod writer;

use commands::{StoreHooks, SystemClock};
use engine_lmdb::LmdbEngine;
use engine_rocksdb::{CacheKind, RocksEngine};
use model::{DocBuf, Namespace, doc};
use operation::Operation;
use proof::Random;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};
use storage::{Engine, MemoryEngine};
use store::{Collection, KeyInterval, ReadView, Store};
use writer::Writer;

fn rocksdb(path: &Path) -> Arc<dyn Engine> {
    let config = engine_rocksdb::Config {
        background_jobs: 2,
        statistics: false,
        cache_kind: CacheKind::Lru,
        free_bytes_min: 0,
        free_percent_min: 0,
        ..engine_rocksdb::Config::with_budget(path, 256 << 20)
    };
    Arc::new(RocksEngine::open(config).expect("an engine"))
}

fn lmdb(path: &Path) -> Arc<dyn Engine> {
    let config = engine_lmdb::Config {
        map_bytes: 4 << 30,
        ..engine_lmdb::Config::at(path)
    };
    Arc::new(LmdbEngine::open(&config).expect("an engine"))
}

fn number(name: &str, otherwise: u64) -> u64 {
    let set = std::env::var(name).ok().and_then(|v| v.parse().ok());
    set.unwrap_or(otherwise)
}

/// Indexes of every type.
fn specs() -> Vec<DocBuf> {
    let all = doc! { "$**": 1i32 };
    vec![
        doc! { "name": "a", "key": { "a": 1i32 } },
        doc! { "name": "a_tags", "key": { "a": -1i32, "tags": 1i32 } },
        doc! { "name": "u", "key": { "u": 1i32 }, "unique": true },
        doc! { "name": "us", "key": { "us": 1i32 }, "unique": true, "sparse": true },
        doc! { "name": "tags_s", "key": { "tags": 1i32 }, "sparse": true },
        doc! { "name": "part", "key": { "a": 1i32 },
        "partialFilterExpression": { "a": { "$gt": 20i32 } } },
        doc! { "name": "hashed", "key": { "a": "hashed" } },
        doc! { "name": "whole", "key": { "a": 1i32, "u": -1i32 }, "clustering": true },
        doc! { "name": "some", "key": { "tags": 1i32 }, "clustering": ["a"] },
        doc! { "name": "wild", "key": &all },
        doc! { "name": "place", "key": { "at": "2dsphere" }, "2dsphereIndexVersion": 3i32 },
    ]
}

/// The operation of the writers, which nothing interrupts.
pub(crate) fn test_operation() -> &'static Operation {
    static OPERATION: LazyLock<Operation> =
        LazyLock::new(|| Operation::new_detached(Arc::new(SystemClock::default())));
    &OPERATION
}

fn collection(engine: Arc<dyn Engine>) -> Arc<Collection> {
    let hooks = StoreHooks::new(Arc::new(SystemClock::default()));
    let store = Store::open(engine, Arc::new(hooks)).expect("a store");
    let ns = Namespace::new("d", "c").expect("a name");
    store
        .writer(test_operation())
        .create_collection(&ns, DocBuf::new(), [7; 16])
        .expect("a collection")
}

/// The ids of the documents that an index finds.
fn find_by_index(c: &Arc<Collection>, name: &str) -> BTreeSet<i32> {
    let indexes = c.indexes();
    let index = indexes.iter().find(|i| i.name() == name).expect("built");
    let all = KeyInterval {
        lower: vec![],
        upper: vec![0xFF],
    };
    let (bits, mut found) = (index.multikey_bits(), BTreeSet::new());
    let mut scan = c.scan_index(&ReadView::LATEST, index, bits, vec![all].into(), false);
    let see = &mut |row: store::Row<'_>| {
        found.extend(row.doc.field("_id").as_f64().map(|id| id as i32));
        true
    };
    while scan.visit(1000, see).expect("read") {}
    found
}

/// Builds every index while writers change the collection.
fn build_beside_writers(name: &str, c: &Arc<Collection>, seed: u64) {
    let mut random = Random::new(seed);
    let number = 1500 + random.below(3000);
    let mut writers: Vec<Writer> = (0..2).map(|w| Writer::new(c, w, seed)).collect();
    writers.iter_mut().for_each(|w| w.fill(number / 2));
    let specs = specs();
    let is_over = AtomicBool::new(false);
    let writers: Vec<Writer> = std::thread::scope(|s| {
        let threads: Vec<_> = writers
            .into_iter()
            .map(|mut w| {
                s.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        w.step();
                    }
                    w
                })
            })
            .collect();
        for spec in &specs {
            if let Err(e) = c.writer(test_operation()).create_index(spec.clone()) {
                is_over.store(true, Ordering::Relaxed);
                panic!("{name}, seed {seed}: {spec:?}: {e}");
            }
        }
        is_over.store(true, Ordering::Relaxed);
        let ended = threads.into_iter().map(|t| t.join());
        ended.map(|w| w.expect("no panic")).collect()
    });
    let errors = c.validate().expect("read").errors;
    let shown: Vec<&String> = errors.iter().take(5).collect();
    assert!(errors.is_empty(), "{name}, seed {seed}: {shown:?}");
    let there: BTreeSet<i32> = writers.iter().flat_map(Writer::ids).collect();
    for index in ["a", "a_tags", "u", "hashed"] {
        assert_eq!(
            find_by_index(c, index),
            there,
            "{name}, seed {seed}: {index}"
        );
    }
}

#[test]
fn builds_beside_random_writers_are_whole() {
    let first = number("QUARRY_SEED", 1);
    for seed in first..first + number("QUARRY_ROUNDS", 3) {
        let folder = tempfile::tempdir().expect("a folder");
        build_beside_writers("memory", &collection(Arc::new(MemoryEngine::new())), seed);
        let path = folder.path().join("rocksdb");
        build_beside_writers("rocksdb", &collection(rocksdb(&path)), seed);
        let path = folder.path().join("lmdb");
        build_beside_writers("lmdb", &collection(lmdb(&path)), seed);
    }
}

/// Prints how long builds take and how long a writer waits.
#[test]
fn large() {
    let docs = number("QUARRY_BUILD_DOCS", 2000);
    let folder = tempfile::tempdir().expect("a folder");
    let c = collection(rocksdb(folder.path()));
    let mut writer = Writer::new(&c, 0, 1);
    writer.fill(usize::try_from(docs).unwrap_or(usize::MAX));
    for (n, paths) in [&["a"][..], &["b", "u", "s"]].into_iter().enumerate() {
        let is_over = AtomicBool::new(false);
        let (took, waited) = std::thread::scope(|s| {
            let other = s.spawn(|| {
                let (mut longest, mut w) = (Duration::ZERO, Writer::new(&c, n + 1, 2));
                while !is_over.load(Ordering::Relaxed) {
                    let began = Instant::now();
                    w.step();
                    longest = longest.max(began.elapsed());
                    std::thread::sleep(Duration::from_millis(2));
                }
                longest
            });
            let began = Instant::now();
            for path in paths {
                let (path, unique) = (*path, *path == "u");
                let spec = doc! { "name": path, "key": { path: 1i32 }, "unique": unique };
                c.writer(test_operation())
                    .create_index(spec)
                    .expect("built");
            }
            let took = began.elapsed();
            is_over.store(true, Ordering::Relaxed);
            (took, other.join().expect("no panic"))
        });
        println!("{paths:?} over {docs} documents: {took:?}, a write waited {waited:?} at most");
    }
    assert_eq!(c.validate().expect("read").errors, Vec::<String>::new());
}
