//! Counters and marks must stay correct when a write fails, a handle is closed, or a document is
//! larger than usual.

use crate::{collection, dump, index, open};
use model::{DocBuf, Namespace, Value, doc};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use storage::observe::{Call, Fault, FaultInjector, ObservedEngine, Observer};
use storage::{Caps, Engine, MemoryEngine, Reader, Result, StorageError, Table, WriteClass};
use store::ReadView;
use store::{
    Change, Collection, Effect, NoHooks, NumberOrder, RetryImage, SessionRecord, StatementLog,
    Store,
};

fn insert(c: &Arc<Collection>, id: i32) -> usize {
    c.writer(crate::test_operation())
        .insert(&[doc! { "_id": id }.doc()], true)
        .unwrap()
        .count
}

fn key(c: &Arc<Collection>, id: i32) -> Vec<u8> {
    let mut key = vec![];
    c.record_key(&Value::Int32(id), &mut key);
    key
}

#[test]
fn disorder_is_marked_again_after_a_failed_write() {
    let memory = Arc::new(MemoryEngine::new());
    let engine = Arc::new(ObservedEngine::new(
        memory.clone(),
        FaultInjector::default(),
    ));
    let store = Store::open(engine.clone(), Arc::new(NoHooks)).unwrap();
    let c = collection(&store, "c");
    insert(&c, 5);
    let full = StorageError::Full {
        context: "test".to_owned(),
    };
    engine.observer().plan(Some(Fault {
        after_calls: 0,
        error: full,
        lasting: false,
        work_is_done: false,
        writes_only: true,
    }));
    assert_eq!(
        c.writer(crate::test_operation())
            .insert(&[doc! { "_id": 3i32 }.doc()], true)
            .unwrap_err()
            .code(),
        14031
    );
    insert(&c, 2);
    drop((c, store));
    // Natural order is insertion order, also for a handle that reads the mark from disk.
    let store = open(&memory);
    let c = store
        .collection(&Namespace::new("db", "c").unwrap())
        .unwrap()
        .unwrap();
    assert_eq!(
        dump(&c, false),
        [doc! { "_id": 5i32 }, doc! { "_id": 2i32 }]
    );
}

#[test]
fn a_write_that_failed_is_not_remembered_unless_it_was_done() {
    let engine = Arc::new(ObservedEngine::new(
        Arc::new(MemoryEngine::new()),
        FaultInjector::default(),
    ));
    let store = Store::open(engine.clone(), Arc::new(NoHooks)).unwrap();
    let c = collection(&store, "c");
    let mut record = SessionRecord::new([1; 16]);
    for (number, work_is_done) in [(1, false), (2, true)] {
        assert_eq!(
            store.begin_retryable(&mut record, number).unwrap(),
            NumberOrder::New
        );
        let full = StorageError::Full {
            context: "test".to_owned(),
        };
        engine.observer().plan(Some(Fault {
            after_calls: 0,
            error: full,
            lasting: false,
            work_is_done,
            writes_only: true,
        }));
        let d = doc! { "_id": number };
        let mut log = StatementLog {
            record: &mut record,
            ids: &[0],
            keep: RetryImage::Fact,
        };
        assert!(
            c.writer(crate::test_operation())
                .insert_logged(&[d.doc()], true, Some(&mut log))
                .is_err()
        );
        let begun = store.begin_retryable(&mut record, number).unwrap();
        assert_eq!(
            (begun, record.find(0)),
            (
                NumberOrder::Again,
                work_is_done.then_some(&Effect::Inserted)
            )
        );
    }
}

#[test]
fn an_evicted_collection_never_gives_a_sequence_twice() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(&engine);
    let last = |c: &Arc<Collection>| {
        let mut seq = 0;
        let row = &mut |r: store::Row<'_>| {
            seq = r.header.insert_seq;
            true
        };
        while c.scan(&ReadView::LATEST, false).visit(100, row).unwrap() {}
        seq
    };
    let mut handles = Vec::new();
    let mut before = 0;
    for n in 0..50 {
        let c = collection(&store, &format!("first{n}"));
        (1..=3).for_each(|i| assert_eq!(insert(&c, i), 1));
        before = last(&c);
        c.writer(crate::test_operation())
            .modify(&key(&c, 3), &mut |_| Ok(Change::Delete))
            .unwrap();
        handles.push(Arc::downgrade(&c));
    }
    // A tenth of the handles is closed when there are too many: some of ours are among them.
    let mut made = 0;
    while handles.iter().all(|h| h.upgrade().is_some()) {
        collection(&store, &format!("c{made}"));
        made += 1;
        assert!(made < 30_000, "no handle is ever evicted");
    }
    for n in 0..50 {
        let c = store
            .collection(&Namespace::new("db", &format!("first{n}")).unwrap())
            .unwrap()
            .unwrap();
        insert(&c, 4);
        assert!(last(&c) > before, "{} after {before}", last(&c));
    }
}

#[test]
fn a_multikey_index_is_dropped_as_a_whole() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(&engine);
    let c = collection(&store, "c");
    c.writer(crate::test_operation())
        .create_index(index("a", "a", false))
        .unwrap();
    let many = DocBuf::build(|w| {
        w.put("_id", 1i32);
        let mut a = w.array("a");
        (0..2000i32).for_each(|i| {
            a.push(i);
        });
    });
    assert_eq!(
        c.writer(crate::test_operation())
            .insert(&[many.doc()], true)
            .unwrap()
            .count,
        1
    );
    let ident = c.indexes()[0].ident();
    assert!(c.writer(crate::test_operation()).drop_index("a").unwrap());
    let record = [&b"d"[..], &ident.to_be_bytes()].concat();
    assert!(
        engine.get(Table::Meta, &record, &mut Vec::new()).unwrap(),
        "two thousand entries of one document are a range"
    );
}

/// Counts the bytes that writers announce.
#[derive(Default)]
struct Gate(AtomicUsize);

impl Observer for Gate {
    fn before_call(&self, _: &Call<'_>, _: &Caps) -> Result<()> {
        Ok(())
    }
    fn note_admitted(&self, bytes: usize, _: WriteClass) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

#[test]
fn large_changes_are_admitted_with_the_next_write() {
    let engine = Arc::new(ObservedEngine::new(
        Arc::new(MemoryEngine::new()),
        Gate::default(),
    ));
    let store = Store::open(engine.clone(), Arc::new(NoHooks)).unwrap();
    let c = collection(&store, "c");
    insert(&c, 1);
    let big = doc! { "_id": 1i32, "x": "x".repeat(1 << 20).as_str() };
    c.writer(crate::test_operation())
        .modify(&key(&c, 1), &mut |_| {
            Ok(Change::Replace(big.as_bytes().to_vec()))
        })
        .unwrap();
    let before = engine.observer().0.load(Ordering::Relaxed);
    insert(&c, 2);
    assert!(engine.observer().0.load(Ordering::Relaxed) - before > 1_000_000);
    let before = engine.observer().0.load(Ordering::Relaxed);
    insert(&c, 3);
    assert!(
        engine.observer().0.load(Ordering::Relaxed) - before < 1024,
        "the debt of admission is paid once"
    );
}

#[test]
fn long_keys_are_indexed_and_longer_ones_refused_one_by_one() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(&engine);
    let c = collection(&store, "c");
    c.writer(crate::test_operation())
        .create_index(index("a", "a", false))
        .unwrap();
    c.writer(crate::test_operation())
        .create_index(index("b", "b", true))
        .unwrap();
    let max = engine.caps().key_bytes_max;
    let long = "x".repeat(9 << 20);
    // The component alone is below the limit of a document's keys; with the bytes around it the
    // entry is too long.
    let longer = "x".repeat(max - 10);
    let of = |id: i32, a: &str| doc! { "_id": id, "a": a, "b": id };
    let named = doc! { "_id": "x".repeat(max).as_str() };
    let docs = [of(1, &long), of(2, &longer), named, of(4, "short")];
    let views: Vec<_> = docs.iter().map(|d| d.doc()).collect();
    let done = c
        .writer(crate::test_operation())
        .insert(&views, false)
        .unwrap();
    assert_eq!(done.count, 2);
    assert_eq!(
        done.errors
            .iter()
            .map(|(i, e)| (*i, e.code()))
            .collect::<Vec<_>>(),
        [(1, 17280), (2, 17280)]
    );
    let change = of(4, &longer);
    let refused = c
        .writer(crate::test_operation())
        .modify(&key(&c, 4), &mut |_| {
            Ok(Change::Replace(change.as_bytes().to_vec()))
        });
    assert_eq!(refused.unwrap_err().code(), 17280);
    assert_eq!(c.validate().unwrap().errors, Vec::<String>::new());
    // Many long keys: the batch is cut, and one document may not have more of them than fit into
    // memory.
    let wide = |id: i32, keys: i32| {
        DocBuf::build(|w| {
            w.put("_id", id).put("s", "x".repeat(1 << 16).as_str());
            let mut t = w.array("t");
            (0..keys).for_each(|i| {
                t.push(i);
            });
        })
    };
    c.writer(crate::test_operation()).drop_index("b").unwrap();
    c.writer(crate::test_operation())
        .create_index(doc! { "v": 2i32, "key": { "s": 1i32, "t": 1i32 }, "name": "wide" })
        .unwrap();
    let docs: Vec<DocBuf> = (10..20)
        .map(|i| wide(i, if i == 12 { 2000 } else { 300 }))
        .collect();
    let done = c
        .writer(crate::test_operation())
        .insert(&docs.iter().map(|d| d.doc()).collect::<Vec<_>>(), false)
        .unwrap();
    assert_eq!(
        (
            done.count,
            done.errors.len(),
            done.errors[0].0,
            done.errors[0].1.code()
        ),
        (9, 1, 2, 201)
    );
    assert_eq!(c.validate().unwrap().errors, Vec::<String>::new());
}
