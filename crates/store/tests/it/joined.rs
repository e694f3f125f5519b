//! Several stores that write to one engine, each of which keeps only what belongs to a generation:
//! a write never uses a catalog that another store has changed, and nothing of one store's memory
//! decides what is stored.

use crate::index;
use model::{Doc, DocBuf, Namespace, Result, Value, doc};
use operation::{Operation, SystemClock};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use storage::{Follower, MemoryEngine};
use store::{
    Change, Collection, Effect, Hooks, IndexBuild, KeyInterval, NoHooks, NumberOrder, ReadView,
    RetryImage, SessionRecord, StatementLog, Store,
};

pub(crate) const STORES: usize = 3;

/// A store, and the engine whose moments it takes.
pub(crate) struct Member {
    pub(crate) engine: Arc<MemoryEngine>,
    pub(crate) store: Store,
}

impl Member {
    pub(crate) fn join(engine: &Arc<MemoryEngine>) -> Member {
        Member::join_with(engine, Arc::new(NoHooks))
    }

    pub(crate) fn join_with(engine: &Arc<MemoryEngine>, hooks: Arc<dyn Hooks>) -> Member {
        let follower = Arc::clone(engine) as Arc<dyn Follower>;
        Member {
            store: Store::join(follower, hooks).unwrap(),
            engine: Arc::clone(engine),
        }
    }

    /// The state now, which becomes the newest of the store.
    pub(crate) fn view(&self) -> ReadView {
        self.store.begin_moment().unwrap().unwrap()
    }

    pub(crate) fn find(&self) -> Option<Arc<Collection>> {
        let view = self.view();
        self.store.collection_in(&view, &ns()).unwrap()
    }

    /// Runs `f` until it does not fail because another store has changed the catalog.
    pub(crate) fn run<T>(&self, mut f: impl FnMut(&Arc<Collection>) -> Result<T>) -> Result<T> {
        loop {
            let Some(c) = self.find() else {
                std::thread::yield_now();
                continue;
            };
            match f(&c) {
                Err(e) if e.is_collection_gone() => {}
                done => return done,
            }
        }
    }

    pub(crate) fn insert(&self, docs: &[DocBuf]) -> usize {
        let mut written = 0;
        let mut at = 0;
        while at < docs.len() {
            let docs: Vec<Doc<'_>> = docs[at..].iter().map(DocBuf::doc).collect();
            let mut done = Default::default();
            let inserted = self.run(|c| {
                done = Default::default();
                c.writer(crate::test_operation()).insert_with_progress(
                    &docs,
                    false,
                    None,
                    &mut done,
                    &|| {},
                )
            });
            inserted.unwrap();
            let refused = |e: &(usize, model::MongoError)| e.1.code() == 11000;
            assert!(done.errors.iter().all(refused), "{done:?}");
            written += done.count;
            at += done.seen;
        }
        written
    }

    pub(crate) fn create(&self) -> Result<()> {
        self.create_with(&DocBuf::new())
    }

    pub(crate) fn create_with(&self, options: &DocBuf) -> Result<()> {
        loop {
            self.view();
            let writer = self.store.writer(crate::test_operation());
            match writer.create_collection(&ns(), options.clone(), [7; 16]) {
                Err(e) if e.is_collection_gone() => {}
                made => return made.map(|_| ()),
            }
        }
    }

    pub(crate) fn create_index(&self, spec: &DocBuf) -> Result<bool> {
        let name = spec.doc().field("name").as_str().unwrap().to_owned();
        let same = |old: Doc<'_>| Ok(old.field("name").as_str() == Some(&name));
        let mut build: Option<IndexBuild> = None;
        self.run(|c| {
            c.writer(crate::test_operation())
                .create_index_with_progress(spec.clone(), &same, &mut build, &|| {}, &|| Ok(()))
        })
    }

    pub(crate) fn drop_collection(&self) {
        loop {
            self.view();
            let writer = self.store.writer(crate::test_operation());
            match writer.drop_collection(&ns()) {
                Err(e) if e.is_collection_gone() => {}
                dropped => return dropped.map(|_| ()).unwrap(),
            }
        }
    }

    pub(crate) fn documents(&self) -> Vec<DocBuf> {
        let view = self.view();
        let c = self.store.collection_in(&view, &ns()).unwrap().unwrap();
        let mut found = Vec::new();
        let mut scan = c.scan(&view, false);
        while scan
            .visit(1000, &mut |row| {
                found.push(row.doc.to_buf());
                true
            })
            .unwrap()
        {}
        assert_eq!(view.count_of(&c).unwrap(), found.len() as u64);
        found
    }
}

pub(crate) fn ns() -> Namespace {
    Namespace::new("db", "c").unwrap()
}

pub(crate) fn members() -> Vec<Member> {
    let engine = Arc::new(MemoryEngine::new_checked());
    (0..STORES).map(|_| Member::join(&engine)).collect()
}

/// Runs `f` for each member on a thread of its own.
pub(crate) fn on_all<T: Send>(all: &[Member], f: impl Fn(usize, &Member) -> T + Sync) -> Vec<T> {
    std::thread::scope(|s| {
        let f = &f;
        let threads: Vec<_> = all
            .iter()
            .enumerate()
            .map(|(who, m)| s.spawn(move || f(who, m)))
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    })
}

#[test]
fn one_of_them_creates_a_collection_and_all_write_to_it() {
    let all = members();
    let made = on_all(&all, |_, m| m.create().is_ok());
    assert_eq!(made.iter().filter(|made| **made).count(), 1);
    let written = on_all(&all, |who, m| {
        let docs: Vec<DocBuf> = (0..200)
            .map(|i| doc! { "_id": i, "who": who as i32 })
            .collect();
        docs.chunks(7).map(|docs| m.insert(docs)).sum::<usize>()
    });
    assert_eq!(written.iter().sum::<usize>(), 200);
    for member in &all {
        assert_eq!(member.documents().len(), 200);
    }
}

#[test]
fn documents_are_in_the_order_of_their_insertion_by_any_of_them() {
    let all = members();
    all[0].create().unwrap();
    for n in 0..60 {
        all[n % STORES].insert(&[doc! { "_id": (n as i32 * 37) % 61, "n": n as i32 }]);
    }
    let found = all[1].documents();
    let order: Vec<i64> = found
        .iter()
        .filter_map(|d| d.doc().field("n").as_i64_exact())
        .collect();
    assert_eq!(order, (0..60).collect::<Vec<i64>>());
}

#[test]
fn an_index_is_built_while_the_others_write_to_it() {
    for unique in [false, true] {
        let all = members();
        all[0].create().unwrap();
        let docs = |from: i32| {
            let docs = (from..from + 300).map(|i| doc! { "_id": i, "k": i });
            docs.collect::<Vec<DocBuf>>()
        };
        all[0].insert(&docs(0));
        let (built, ready) = (AtomicUsize::new(0), AtomicBool::new(false));
        on_all(&all, |who, m| match who {
            0 => {
                for name in ["k", "k2"] {
                    let key = if name == "k" { "k" } else { "_id" };
                    built.fetch_add(
                        usize::from(m.create_index(&index(name, key, unique)).unwrap()),
                        Ordering::SeqCst,
                    );
                }
                ready.store(true, Ordering::SeqCst);
            }
            _ => {
                let first = 1_000_000 * who as i32;
                let mut from = first;
                while from < first + 600 || (!ready.load(Ordering::SeqCst) && from < first + 3000) {
                    for chunk in docs(from).chunks(11) {
                        assert_eq!(m.insert(chunk), chunk.len());
                    }
                    from += 300;
                }
            }
        });
        assert_eq!(built.into_inner(), 2);
        check_entries(&all);
    }
}

/// Every index of the collection has one entry for each document, seen by each store.
fn check_entries(all: &[Member]) {
    for member in all {
        let number = member.documents().len();
        let view = member.view();
        let c = member.store.collection_in(&view, &ns()).unwrap().unwrap();
        for index in c.indexes().iter() {
            assert!(index.is_ready());
            let mut ids = BTreeMap::new();
            let all = Arc::new(vec![KeyInterval {
                lower: Vec::new(),
                upper: vec![255; 4],
            }]);
            let mut scan = c.scan_index(&view, index, index.multikey_bits(), all, false);
            while scan
                .visit(1000, &mut |row| {
                    ids.insert(row.doc.field("_id").as_i64_exact(), ());
                    true
                })
                .unwrap()
            {}
            assert_eq!(ids.len(), number, "{}", index.name());
        }
    }
}

#[test]
fn no_write_is_left_in_a_collection_that_another_has_dropped() {
    let all = members();
    all[0].create().unwrap();
    let (ended, written) = (AtomicBool::new(false), AtomicUsize::new(0));
    on_all(&all, |who, m| {
        if who == 0 {
            for round in 1..=20 {
                while written.load(Ordering::SeqCst) < round * 20 {
                    std::thread::yield_now();
                }
                m.drop_collection();
                m.create().unwrap();
            }
            ended.store(true, Ordering::SeqCst);
        }
        let mut n = 0;
        while !ended.load(Ordering::SeqCst) {
            n += 1;
            m.insert(&[doc! { "_id": n * 3 + who as i32 }]);
            written.fetch_add(1, Ordering::SeqCst);
        }
    });
    // Nothing of the dropped collections is left, once no view shows them.
    all[0].view();
    all[0].store.sweep_dropped().unwrap();
    let left = all[1].documents().len();
    let c = all[2].find().unwrap();
    let (mut rows, mut prefix) = (0, Vec::new());
    c.record_key(&Value::Int32(1), &mut prefix);
    let range = storage::KeyRange::ALL;
    let engine = &all[0].engine;
    let mut cursor = storage::Reader::cursor(
        engine.as_ref(),
        storage::Table::Doc,
        range,
        storage::CursorOpts::default(),
    )
    .unwrap();
    while cursor
        .visit(1000, &mut |key, _| {
            rows += 1;
            assert!(key.starts_with(&prefix[..4]), "{key:?}");
            true
        })
        .unwrap()
    {}
    assert_eq!(rows, left);
}

#[test]
fn marks_of_arrays_by_two_of_them_are_both_kept() {
    let all = members();
    all[0].create().unwrap();
    let spec = doc! { "v": 2i32, "key": { "a": 1i32, "b": 1i32 }, "name": "ab" };
    all[0].create_index(&spec).unwrap();
    on_all(&all, |who, m| {
        let doc = match who {
            0 => doc! { "_id": 0i32, "a": [1i32, 2i32], "b": 1i32 },
            1 => doc! { "_id": 1i32, "a": 1i32, "b": [1i32, 2i32] },
            _ => doc! { "_id": 2i32, "a": 1i32, "b": 1i32 },
        };
        m.insert(&[doc]);
    });
    for member in &all {
        let c = member.find().unwrap();
        assert_eq!(c.indexes()[0].multikey_bits(), 0b11);
    }
}

#[test]
fn increments_by_all_of_them_are_all_there() {
    let all = members();
    all[0].create().unwrap();
    all[0].insert(&[doc! { "_id": 1i32, "n": 0i32 }]);
    on_all(&all, |_, m| {
        for _ in 0..200 {
            let changed = m.run(|c| {
                let mut key = Vec::new();
                c.record_key(&Value::Int32(1), &mut key);
                c.writer(crate::test_operation()).modify(&key, &mut |old| {
                    let n = old.field("n").as_i64_exact().unwrap() as i32;
                    Ok(Change::Replace(
                        doc! { "_id": 1i32, "n": n + 1 }.as_bytes().to_vec(),
                    ))
                })
            });
            changed.unwrap();
        }
    });
    let found = all[0].documents();
    assert_eq!(found[0].doc().field("n").as_i64_exact(), Some(600));
}

/// Adds `by` to the number of a document.
pub(crate) fn add(by: i64, old: Doc<'_>) -> Result<Change> {
    let id = old.field("_id").as_i64_exact().unwrap();
    let n = old.field("n").as_i64_exact().unwrap();
    let new = doc! { "_id": id as i32, "n": n + by };
    Ok(Change::Replace(new.as_bytes().to_vec()))
}

pub(crate) fn key_of(c: &Collection, id: i32) -> Vec<u8> {
    let mut key = Vec::new();
    c.record_key(&Value::Int32(id), &mut key);
    key
}

/// Moves 1 from one account to another in a transaction; false on a conflict.
fn transfer(member: &Member, session: u8, number: i64, from: i32, to: i32) -> bool {
    let c = member.find().unwrap();
    let transaction = member.store.begin_transaction(None).unwrap();
    let keys = [key_of(&c, from), key_of(&c, to)];
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let mut record = SessionRecord::new([session; 16]);
    member.store.begin_retryable(&mut record, number).unwrap();
    let change = &mut |n: usize, old: Doc<'_>| add(if n == 0 { -1 } else { 1 }, old);
    let done = c
        .writer(crate::test_operation())
        .modify_in(&keys, change, &mut |_, _| {}, &transaction)
        .and_then(|()| {
            let writer = member.store.writer(crate::test_operation());
            writer.commit_transaction(&transaction, &mut record)
        });
    match done {
        Ok(_) => true,
        Err(e) => {
            assert_eq!(e.code(), 112, "{e:?}");
            false
        }
    }
}

#[test]
fn transfers_by_all_of_them_keep_the_sum() {
    let all = members();
    all[0].create().unwrap();
    let accounts: Vec<DocBuf> = (0..6).map(|i| doc! { "_id": i, "n": 100i64 }).collect();
    all[0].insert(&accounts);
    let sum = |member: &Member| -> i64 {
        let found = member.documents();
        let numbers = found
            .iter()
            .filter_map(|d| d.doc().field("n").as_i64_exact());
        numbers.sum()
    };
    let conflicts = on_all(&all, |who, m| {
        let (mut conflicts, mut number) = (0, 0);
        for n in 0..100i32 {
            let (from, to) = ((n * 5 + who as i32) % 6, (n * 7 + 1) % 6);
            if from == to {
                continue;
            }
            loop {
                number += 1;
                if transfer(m, who as u8, number, from, to) {
                    break;
                }
                conflicts += 1;
            }
            assert_eq!(sum(m), 600);
        }
        conflicts
    });
    assert!(conflicts.iter().sum::<i32>() > 0, "nothing met");
    assert!(all.iter().all(|m| sum(m) == 600));
}

#[test]
fn a_commit_that_meets_a_write_of_another_conflicts() {
    let all = members();
    all[0].create().unwrap();
    let accounts: Vec<DocBuf> = (0..2).map(|i| doc! { "_id": i, "n": 100i64 }).collect();
    all[0].insert(&accounts);
    let c = all[0].find().unwrap();
    let transaction = all[0].store.begin_transaction(None).unwrap();
    let key = key_of(&c, 0);
    let writer = c.writer(crate::test_operation());
    let change = &mut |_: usize, old: Doc<'_>| add(1, old);
    let wrote = writer.modify_in(&[&key], change, &mut |_, _| {}, &transaction);
    wrote.unwrap();
    // Another store changes the document after the transaction has read it.
    let changed = all[1].run(|c| {
        c.writer(crate::test_operation())
            .modify(&key, &mut |old| add(10, old))
    });
    changed.unwrap();
    let mut record = SessionRecord::new([1; 16]);
    all[0].store.begin_retryable(&mut record, 1).unwrap();
    let writer = all[0].store.writer(crate::test_operation());
    let committed = writer.commit_transaction(&transaction, &mut record);
    assert_eq!(committed.unwrap_err().code(), 112);
    let found = all[2].documents();
    assert_eq!(found[0].doc().field("n").as_i64_exact(), Some(110));
}

#[test]
fn a_statement_that_another_has_run_for_the_session_is_not_run_again() {
    let all = members();
    all[0].create().unwrap();
    all[0].insert(&[doc! { "_id": 1i32, "n": 0i64 }]);
    // Both stores begin the statement before one of them runs it.
    let mut records: Vec<SessionRecord> = (0..2).map(|_| SessionRecord::new([9; 16])).collect();
    for (member, record) in all.iter().zip(&mut records) {
        member.view();
        let order = member.store.begin_retryable(record, 5).unwrap();
        assert_eq!(order, NumberOrder::New);
    }
    let run = |member: &Member, record: &mut SessionRecord| {
        let c = member.find().unwrap();
        let mut log = StatementLog {
            record,
            ids: &[0],
            keep: RetryImage::Fact,
        };
        let key = key_of(&c, 1);
        let change = &mut |old: Doc<'_>| add(1, old);
        c.writer(crate::test_operation())
            .modify_logged(&key, change, Some(&mut log))
    };
    run(&all[0], &mut records[0]).unwrap();
    let again = run(&all[1], &mut records[1]).unwrap_err();
    assert!(again.is_collection_gone(), "{again:?}");
    // Begun again, it finds the effect.
    all[1].view();
    let order = all[1].store.begin_retryable(&mut records[1], 5).unwrap();
    assert_eq!(order, NumberOrder::Again);
    assert_eq!(records[1].find(0), Some(&Effect::Updated));
    // The first store goes on with the session.
    let order = all[0].store.begin_retryable(&mut records[0], 6).unwrap();
    assert_eq!(order, NumberOrder::New);
    run(&all[0], &mut records[0]).unwrap();
    let found = all[2].documents();
    assert_eq!(found[0].doc().field("n").as_i64_exact(), Some(2));
}

#[test]
fn an_operation_that_expects_an_earlier_catalog_does_nothing() {
    let all = members();
    let (one, other) = (&all[0], &all[1]);
    one.create().unwrap();
    one.insert(&[doc! { "_id": 1i32 }]);
    let coll = other.find().unwrap();
    let find = |view: &ReadView| coll.get_with(view, &Value::Int32(1), &mut |_| {});
    let expect = || other.store.expect_moment().unwrap().unwrap();
    // As expected: the unit begins at the moment, and what was written is in the next one.
    let view = expect();
    assert!(find(&view).unwrap());
    let operation = Operation::new_detached(Arc::new(SystemClock::default()));
    let tell = |view: &ReadView| {
        operation.set_moment(view.pos().unwrap().0);
        operation.expect(view.expectation());
    };
    tell(&view);
    let insert = |id: i32| {
        let doc = doc! { "_id": id };
        coll.writer(&operation).insert(&[doc.doc()], true)
    };
    assert_eq!(insert(2).unwrap().count, 1);
    other.store.end_moment(&view, &operation).unwrap();
    assert_eq!(one.documents().len(), 2);
    // Another store changes the catalog.
    let spec = doc! { "v": 2i32, "key": { "a": 1i32 }, "name": "a" };
    one.create_index(&spec).unwrap();
    let view = expect();
    let is_outdated = |e: model::MongoError| e.is(model::ErrorKind::Outdated);
    assert!(is_outdated(find(&view).unwrap_err()));
    tell(&view);
    assert!(is_outdated(insert(3).unwrap_err()));
    let made = other.store.writer(&operation).create_collection(
        &Namespace::new("db", "new").unwrap(),
        DocBuf::new(),
        [9; 16],
    );
    assert!(is_outdated(made.map(|_| ()).unwrap_err()));
    assert!(is_outdated(
        other.store.end_moment(&view, &operation).unwrap_err()
    ));
    assert_eq!(one.documents().len(), 2);
    // After a moment that asks, the new catalog is expected.
    let coll = other.find().unwrap();
    assert_eq!(coll.indexes().len(), 1);
    let view = expect();
    tell(&view);
    assert!(coll.get_with(&view, &Value::Int32(2), &mut |_| {}).unwrap());
    other.store.end_moment(&view, &operation).unwrap();
}
