//! Defects found in use, each with a test: what the store did wrong, and must not do again.

use crate::{collection, dump, index, open};
use model::{DocBuf, Namespace, Value, doc};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use storage::observe::{Call, Fault, FaultInjector, ObservedEngine, Observer};
use storage::{Caps, CursorOpts, Engine, KeyRange, MemoryEngine, StorageError, Table};
use store::{Change, Collection, NoHooks, ReadView, Store};

const INDEX_BUILD_ABORTED: i32 = 276;
const INDEX_NOT_FOUND: i32 = 27;

fn ns(name: &str) -> Namespace {
    Namespace::new("db", name).unwrap()
}

fn key(c: &Arc<Collection>, id: i32) -> Vec<u8> {
    let mut key = vec![];
    c.record_key(&Value::Int32(id), &mut key);
    key
}

fn full(after_calls: u64, lasting: bool) -> Option<Fault> {
    let error = StorageError::Full {
        context: "test".to_owned(),
    };
    Some(Fault {
        after_calls,
        error,
        lasting,
        work_is_done: false,
        writes_only: true,
    })
}

fn fill(c: &Arc<Collection>, ids: std::ops::Range<i32>) {
    let docs: Vec<DocBuf> = ids.map(|i| doc! { "_id": i, "k": i % 99 }).collect();
    let views: Vec<_> = docs.iter().map(|d| d.doc()).collect();
    assert_eq!(
        c.writer(crate::test_operation())
            .insert(&views, true)
            .unwrap()
            .count,
        docs.len()
    );
}

/// Keys of an identifier in a table.
fn keys_of(engine: &dyn Engine, table: Table, ident: u32) -> usize {
    let (lower, upper) = (ident.to_be_bytes(), (ident + 1).to_be_bytes());
    let range = KeyRange {
        lower: &lower,
        upper: &upper,
    };
    let mut found = 0;
    let each = &mut |_: &[u8], _: &[u8]| {
        found += 1;
        true
    };
    while engine
        .cursor(table, range, CursorOpts::default())
        .unwrap()
        .visit(1 << 20, each)
        .unwrap()
    {}
    found
}

fn ident_of(c: &Arc<Collection>) -> u32 {
    u32::from_be_bytes(*key(c, 0).first_chunk::<4>().unwrap())
}

fn has_drop_record(engine: &dyn Engine, ident: u32) -> bool {
    let record = [&b"d"[..], &ident.to_be_bytes()].concat();
    engine.get(Table::Meta, &record, &mut Vec::new()).unwrap()
}

/// An error about a duplicate `_id` asked for the options while its thread was inside the gate for
/// the write; a change of the options that waited meanwhile blocked both for ever.
#[test]
fn duplicate_ids_beside_a_change_of_options_never_hang() {
    let store = open(&Arc::new(MemoryEngine::new()));
    let c = collection(&store, "c");
    fill(&c, 0..4);
    let (done, finished) = mpsc::channel();
    for t in 0..4 {
        let (c, done) = (c.clone(), done.clone());
        std::thread::spawn(move || {
            for _ in 0..20_000 {
                let refused = c
                    .writer(crate::test_operation())
                    .insert(&[doc! { "_id": t }.doc()], true)
                    .unwrap();
                assert_eq!(refused.errors.len(), 1);
            }
            done.send(()).unwrap();
        });
    }
    let changer = c.clone();
    std::thread::spawn(move || {
        for i in 0..2_000 {
            changer
                .writer(crate::test_operation())
                .set_options(
                    doc! { "validationLevel": if i % 2 == 0 { "off" } else { "strict" } },
                    None,
                )
                .unwrap();
        }
        done.send(()).unwrap();
    });
    for _ in 0..5 {
        finished
            .recv_timeout(Duration::from_secs(60))
            .expect("the writers wait for each other");
    }
}

/// A change set the mark in memory although a later unique index refused the change; the next array
/// found the mark set and did not write it.
#[test]
fn a_refused_change_leaves_no_multikey_mark_that_is_only_in_memory() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(&engine);
    let c = collection(&store, "c");
    c.writer(crate::test_operation())
        .create_index(index("a_1", "a", false))
        .unwrap();
    c.writer(crate::test_operation())
        .create_index(index("b_1", "b", true))
        .unwrap();
    let docs = [
        doc! { "_id": 1i32, "a": 1i32, "b": 1i32 },
        doc! { "_id": 2i32, "a": 2i32, "b": 2i32 },
    ];
    c.writer(crate::test_operation())
        .insert(&[docs[0].doc(), docs[1].doc()], true)
        .unwrap();
    let change = |new: DocBuf| {
        c.writer(crate::test_operation())
            .modify(&key(&c, 2), &mut |_| {
                Ok(Change::Replace(new.as_bytes().to_vec()))
            })
    };
    assert_eq!(
        change(doc! { "_id": 2i32, "a": [1i32, 2i32], "b": 1i32 })
            .unwrap_err()
            .code(),
        11000
    );
    change(doc! { "_id": 2i32, "a": [1i32, 2i32], "b": 3i32 }).unwrap();
    let again = open(&engine).collection(&ns("c")).unwrap().unwrap();
    assert!(again.indexes()[0].is_multikey(), "the mark is not on disk");
    assert_eq!(again.validate().unwrap().errors, Vec::<String>::new());
}

/// `validate` reported no error for a collection whose mark was lost.
#[test]
fn validate_finds_a_lost_multikey_mark() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(&engine);
    let c = collection(&store, "c");
    c.writer(crate::test_operation())
        .create_index(index("a_1", "a", false))
        .unwrap();
    c.writer(crate::test_operation())
        .insert(&[doc! { "_id": 1i32, "a": [1i32, 2i32] }.doc()], true)
        .unwrap();
    let mark = [&b"m"[..], &c.indexes()[0].ident().to_be_bytes()].concat();
    let mut batch = storage::WriteBatch::new();
    batch.delete(Table::Meta, &mark);
    engine.apply(&batch, storage::Durability::Buffered).unwrap();
    let errors = c.validate().unwrap().errors;
    assert!(errors.iter().any(|e| e.contains("multikey")), "{errors:?}");
}

type Job = Box<dyn FnOnce() + Send>;

/// Runs a job when a build begins to read the documents.
#[derive(Default)]
struct BuildObserver {
    job: Mutex<Option<Job>>,
}

impl Observer for BuildObserver {
    fn before_call(&self, call: &Call<'_>, _: &Caps) -> storage::Result<()> {
        if let Call::Cursor {
            table: Table::Doc,
            opts,
            ..
        } = call
            && !opts.fill_cache
            && let Some(job) = self.job.lock().unwrap().take()
        {
            // Runs on another thread, as another connection would: it may have to wait for the
            // build's step.
            let (begins, begun) = mpsc::channel();
            std::thread::spawn(move || {
                begins.send(()).unwrap();
                job();
            });
            begun.recv().unwrap();
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(())
    }
}

/// A collection of 200 documents and its engine; the job runs in the middle of the next build.
fn start_build(
    job: impl FnOnce(Arc<Collection>, Arc<Store>) + Send + 'static,
) -> (Arc<Store>, Arc<Collection>) {
    let engine = Arc::new(ObservedEngine::new(
        Arc::new(MemoryEngine::new()),
        BuildObserver::default(),
    ));
    let store = Arc::new(Store::open(engine.clone(), Arc::new(NoHooks)).unwrap());
    let c = collection(&store, "c");
    fill(&c, 0..200);
    let (other, its_store) = (c.clone(), store.clone());
    *engine.observer().job.lock().unwrap() = Some(Box::new(move || job(other, its_store)));
    (store, c)
}

/// collMod replaced the object of the index that was being built, and the new object never became
/// ready.
#[test]
fn changing_an_index_that_is_being_built_is_refused_and_the_build_succeeds() {
    let (said, heard) = mpsc::channel();
    let (_store, c) = start_build(move |c, _| {
        let hidden = doc! { "v": 2i32, "key": { "k": 1i32 }, "name": "k_1", "hidden": true };
        said.send(
            c.writer(crate::test_operation())
                .respecify_index("k_1", hidden, None),
        )
        .unwrap();
    });
    c.writer(crate::test_operation())
        .create_index(index("k_1", "k", false))
        .unwrap();
    let refused = heard.recv_timeout(Duration::from_secs(10)).unwrap();
    assert!(c.indexes()[0].is_ready(), "the index is never ready");
    // The change came during the build, or after it.
    assert!(refused.as_ref().map_or_else(
        |e| e.code() == INDEX_NOT_FOUND,
        |()| c.indexes()[0].is_hidden()
    ));
    assert_eq!(c.validate().unwrap().errors, Vec::<String>::new());
}

/// The build reported success although the index was gone.
#[test]
fn dropping_an_index_that_is_being_built_ends_the_build() {
    let (_store, c) =
        start_build(|c, _| assert!(c.writer(crate::test_operation()).drop_index("k_1").unwrap()));
    assert_eq!(
        c.writer(crate::test_operation())
            .create_index(index("k_1", "k", false))
            .unwrap_err()
            .code(),
        INDEX_BUILD_ABORTED
    );
    assert!(c.indexes().is_empty());
    c.writer(crate::test_operation())
        .create_index(index("k_1", "k", false))
        .unwrap();
    assert_eq!(c.validate().unwrap().errors, Vec::<String>::new());
}

/// A build went on writing entries after its collection was dropped.
#[test]
fn dropping_the_collection_ends_the_build_and_leaves_no_entries() {
    let engine = Arc::new(ObservedEngine::new(
        Arc::new(MemoryEngine::new()),
        BuildObserver::default(),
    ));
    let store = Arc::new(Store::open(engine.clone(), Arc::new(NoHooks)).unwrap());
    let c = collection(&store, "c");
    fill(&c, 0..200);
    let its_store = store.clone();
    let (said, heard) = mpsc::channel();
    *engine.observer().job.lock().unwrap() = Some(Box::new(move || {
        its_store
            .writer(crate::test_operation())
            .drop_collection(&ns("c"))
            .unwrap();
        said.send(()).unwrap();
    }));
    let ident = ident_of(&c);
    assert_eq!(
        c.writer(crate::test_operation())
            .create_index(index("k_1", "k", false))
            .unwrap_err()
            .code(),
        INDEX_BUILD_ABORTED
    );
    heard.recv_timeout(Duration::from_secs(10)).unwrap();
    assert_eq!(keys_of(engine.as_ref(), Table::Idx, ident + 1), 0);
    assert_eq!(keys_of(engine.as_ref(), Table::Doc, ident), 0);
}

/// A crash between the two batches of a drop left documents and entries without an owner for ever.
#[test]
fn a_crash_at_any_point_of_a_drop_leaks_nothing() {
    for drop_index_only in [false, true] {
        for after_calls in 0..6 {
            let memory = Arc::new(MemoryEngine::new());
            let engine = Arc::new(ObservedEngine::new(
                memory.clone(),
                FaultInjector::default(),
            ));
            let store = Store::open(engine.clone(), Arc::new(NoHooks)).unwrap();
            let c = collection(&store, "c");
            c.writer(crate::test_operation())
                .create_index(index("k_1", "k", false))
                .unwrap();
            fill(&c, 0..50);
            let idents = [
                (Table::Doc, ident_of(&c)),
                (Table::Idx, c.indexes()[0].ident()),
            ];
            engine.observer().plan(full(after_calls, true));
            let _ = if drop_index_only {
                c.writer(crate::test_operation())
                    .drop_index("k_1")
                    .map(|_| ())
            } else {
                store
                    .writer(crate::test_operation())
                    .drop_collection(&ns("c"))
                    .map(|_| ())
            };
            drop((c, store));
            let store = open(&memory);
            let there = store.collection(&ns("c")).unwrap();
            for (table, ident) in idents {
                let keys = keys_of(memory.as_ref(), table, ident);
                assert!(there.is_some() || keys == 0 || has_drop_record(memory.as_ref(), ident));
            }
            assert_eq!(store.sweep_dropped().unwrap(), 0);
            for (table, ident) in idents {
                let owned = there.as_ref().is_some_and(|c| {
                    ident_of(c) == ident || c.indexes().iter().any(|i| i.ident() == ident)
                });
                let keys = keys_of(memory.as_ref(), table, ident);
                assert!(
                    owned || keys == 0 && !has_drop_record(memory.as_ref(), ident),
                    "{keys} keys of {ident} in {table:?} without an owner after {after_calls} \
                        writes"
                );
            }
        }
    }
}

/// After a rename that could not be written, the target collection was unusable until a restart.
#[test]
fn a_rename_that_fails_leaves_both_collections_usable() {
    let engine = Arc::new(ObservedEngine::new(
        Arc::new(MemoryEngine::new()),
        FaultInjector::default(),
    ));
    let store = Store::open(engine.clone(), Arc::new(NoHooks)).unwrap();
    let (from, to) = (collection(&store, "from"), collection(&store, "to"));
    fill(&from, 0..3);
    fill(&to, 10..12);
    engine.observer().plan(full(0, false));
    assert_eq!(
        store
            .writer(crate::test_operation())
            .rename_collection(&ns("from"), &ns("to"), true)
            .unwrap_err()
            .code(),
        14031
    );
    for (name, id, count) in [("from", 5, 4), ("to", 15, 3)] {
        let c = store.collection(&ns(name)).unwrap().unwrap();
        fill(&c, id..id + 1);
        assert_eq!(c.count(), count);
    }
    // Handles held by operations of clients still work.
    fill(&from, 7..8);
    fill(&to, 17..18);
}

/// An id was refused because an earlier document of the same insert had it, although that document
/// was refused.
#[test]
fn a_refused_document_leaves_its_id_to_a_later_one() {
    let store = open(&Arc::new(MemoryEngine::new()));
    let c = collection(&store, "c");
    c.writer(crate::test_operation())
        .create_index(index("b_1", "b", true))
        .unwrap();
    c.writer(crate::test_operation())
        .insert(&[doc! { "_id": 1i32, "b": 1i32 }.doc()], true)
        .unwrap();
    let docs = [
        doc! { "_id": 5i32, "b": 1i32 },
        doc! { "_id": 5i32, "b": 2i32 },
        doc! { "_id": 5i32, "b": 3i32 },
    ];
    let views: Vec<_> = docs.iter().map(|d| d.doc()).collect();
    let done = c
        .writer(crate::test_operation())
        .insert(&views, false)
        .unwrap();
    assert_eq!(done.count, 1);
    assert_eq!(
        done.errors.iter().map(|(n, _)| *n).collect::<Vec<_>>(),
        [0, 2]
    );
    assert_eq!(dump(&c, false).last(), Some(&docs[1]));
}

/// Counts cursors over documents.
#[derive(Default)]
struct Scans(AtomicU64);

impl Observer for Scans {
    fn before_call(&self, call: &Call<'_>, _: &Caps) -> storage::Result<()> {
        if let Call::Cursor {
            table: Table::Doc, ..
        } = call
        {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }
}

/// Every read of the first document of a collection whose ids arrived out of order read the whole
/// collection.
#[test]
fn the_order_of_insertion_is_found_out_once() {
    let engine = Arc::new(ObservedEngine::new(
        Arc::new(MemoryEngine::new()),
        Scans::default(),
    ));
    let store = Store::open(engine.clone(), Arc::new(NoHooks)).unwrap();
    let c = collection(&store, "c");
    (0..1000).rev().for_each(|i| fill(&c, i..i + 1));
    let mut expected: Vec<DocBuf> = dump(&c, false);
    assert_eq!(
        expected.first(),
        Some(&doc! { "_id": 999i32, "k": 999i32 % 99 })
    );
    let scans = engine.observer().0.load(Ordering::SeqCst);
    fill(&c, 5000..5001);
    fill(&c, -5..-4);
    c.writer(crate::test_operation())
        .modify(&key(&c, 500), &mut |_| Ok(Change::Delete))
        .unwrap();
    fill(&c, 500..501);
    expected.retain(|d| d.doc().field("_id").as_i64_exact() != Some(500));
    for i in [5000, -5, 500] {
        expected.push(doc! { "_id": i, "k": i % 99 });
    }
    assert_eq!(dump(&c, false), expected);
    expected.reverse();
    assert_eq!(dump(&c, true), expected);
    assert_eq!(
        engine.observer().0.load(Ordering::SeqCst),
        scans,
        "the documents were scanned again"
    );
}

/// `validate` during a build reported the unfinished index as damaged.
#[test]
fn validate_during_a_build_is_clean() {
    let (said, heard) = mpsc::channel();
    let (_store, c) = start_build(move |c, _| said.send(c.validate().unwrap().errors).unwrap());
    c.writer(crate::test_operation())
        .create_index(index("k_1", "k", false))
        .unwrap();
    assert_eq!(
        heard.recv_timeout(Duration::from_secs(10)).unwrap(),
        Vec::<String>::new()
    );
}

/// A scan of an index that was dropped meanwhile ended as if there were no more documents, even on
/// a snapshot: a drop deletes entries although they have readers.
#[test]
fn a_scan_of_a_dropped_index_says_so() {
    for fixed in [false, true] {
        for entries_only in [false, true] {
            let store = open(&Arc::new(MemoryEngine::new()));
            let c = collection(&store, "c");
            c.writer(crate::test_operation())
                .create_index(index("k_1", "k", false))
                .unwrap();
            fill(&c, 0..3000);
            let view = if fixed {
                c.snapshot().unwrap()
            } else {
                ReadView::LATEST
            };
            let all = store::KeyInterval {
                lower: vec![],
                upper: vec![0xFF],
            };
            let mut scan = c.scan_index(&view, &c.indexes()[0], 0, vec![all].into(), false);
            let mut step = |max| {
                if entries_only {
                    scan.visit_entries(max, &mut |_, _| true)
                } else {
                    scan.visit(max, &mut |_| true)
                }
            };
            assert!(step(10).unwrap());
            c.writer(crate::test_operation()).drop_index("k_1").unwrap();
            assert_eq!(step(10_000).unwrap_err().code(), 175);
        }
    }
}

/// A reader that took long for each document learned of a drop only after all documents of its
/// batch.
#[test]
fn a_drop_ends_every_scan_at_the_next_document() {
    type Visit = fn(&Arc<Collection>, &mut dyn FnMut() -> bool) -> model::Result<()>;
    let scans: [(&str, Visit); 4] = [
        ("table", |c, f| {
            c.scan(&ReadView::LATEST, false)
                .visit(1000, &mut |_| f())
                .map(|_| ())
        }),
        ("keys", |c, f| {
            c.scan_keys(&ReadView::LATEST, None, None, false)
                .visit(1000, &mut |_| f())
                .map(|_| ())
        }),
        ("documents behind an index", |c, f| {
            let all = store::KeyInterval {
                lower: vec![],
                upper: vec![0xFF],
            };
            c.scan_index(
                &ReadView::LATEST,
                &c.indexes()[0],
                0,
                vec![all].into(),
                false,
            )
            .visit(1000, &mut |_| f())
            .map(|_| ())
        }),
        ("entries of an index", |c, f| {
            let all = store::KeyInterval {
                lower: vec![],
                upper: vec![0xFF],
            };
            let mut scan = c.scan_index(
                &ReadView::LATEST,
                &c.indexes()[0],
                0,
                vec![all].into(),
                false,
            );
            scan.visit_entries(1000, &mut |_, _| f()).map(|_| ())
        }),
    ];
    for (name, visit) in scans {
        let store = open(&Arc::new(MemoryEngine::new()));
        let c = collection(&store, "c");
        c.writer(crate::test_operation())
            .create_index(index("k_1", "k", false))
            .unwrap();
        fill(&c, 0..100);
        let mut shown = 0;
        let read = visit(&c, &mut || {
            shown += 1;
            if shown == 50 {
                store
                    .writer(crate::test_operation())
                    .drop_collection(&ns("c"))
                    .unwrap();
            }
            true
        });
        assert_eq!((shown, read.unwrap_err().code()), (50, 175), "{name}");
    }
}

/// The set of dropped identifiers in memory shrank only at a restart; keys without an owner stayed
/// for ever.
#[test]
fn sweeps_forget_dropped_collections_and_remove_keys_without_an_owner() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(&engine);
    let c = collection(&store, "c");
    fill(&c, 0..3000);
    let ident = ident_of(&c);
    store
        .writer(crate::test_operation())
        .drop_collection(&ns("c"))
        .unwrap();
    assert_eq!(store.sweep_dropped().unwrap(), 0);
    assert!(!has_drop_record(engine.as_ref(), ident));

    let (kept, leaked) = (collection(&store, "kept"), collection(&store, "leaked"));
    kept.writer(crate::test_operation())
        .create_index(index("k_1", "k", false))
        .unwrap();
    leaked
        .writer(crate::test_operation())
        .create_index(index("k_1", "k", false))
        .unwrap();
    fill(&kept, 0..10);
    fill(&leaked, 0..10);
    let idents = [
        (Table::Doc, ident_of(&leaked)),
        (Table::Idx, leaked.indexes()[0].ident()),
    ];
    // The state after a crash of an older version.
    let mut batch = storage::WriteBatch::new();
    batch.delete(Table::Meta, b"cdb\0leaked");
    engine.apply(&batch, storage::Durability::Buffered).unwrap();
    drop((kept, leaked, store));
    let store = open(&engine);
    assert_eq!(store.sweep_unowned(&|| Ok(())).unwrap(), 2);
    for (table, ident) in idents {
        assert_eq!(keys_of(engine.as_ref(), table, ident), 0);
    }
    let kept = store.collection(&ns("kept")).unwrap().unwrap();
    assert_eq!(
        (kept.count(), kept.validate().unwrap().errors),
        (10, Vec::new())
    );
    assert_eq!(store.sweep_unowned(&|| Ok(())).unwrap(), 0);
}
