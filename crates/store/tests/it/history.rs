//! A random history of inserts, changes and deletes has the same result in a map, and `validate`
//! finds no errors.

use crate::{collection, dump, index, open};
use model::{Doc, DocBuf, Namespace, Value, doc};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use storage::observe::{Call, ObservedEngine, Observer};
use storage::{Caps, MemoryEngine, StorageError};
use store::{Change, ModifyOutcome, NoHooks, ReadView, Store};

#[derive(Clone, Debug)]
enum Op {
    Insert(i32, i32, Vec<i32>),
    Set(i32, i32, Vec<i32>),
    Delete(i32),
}

fn op() -> impl Strategy<Value = Op> {
    let tags = || proptest::collection::vec(0i32..4, 0..4);
    prop_oneof![
        (0i32..20, 0i32..15, tags()).prop_map(|(a, b, t)| Op::Insert(a, b, t)),
        (0i32..20, 0i32..15, tags()).prop_map(|(a, b, t)| Op::Set(a, b, t)),
        (0i32..20).prop_map(Op::Delete),
    ]
}

fn document(id: i32, a: i32, tags: &[i32]) -> DocBuf {
    DocBuf::build(|w| {
        w.put("_id", id).put("a", a);
        let mut t = w.array("tags");
        for v in tags {
            t.push(*v);
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn history_equals_model(ops in proptest::collection::vec(op(), 1..60), build_at in 0usize..60) {
        let engine = Arc::new(MemoryEngine::new());
        let store = open(&engine);
        let c = collection(&store, "c");
        c.writer(crate::test_operation()).create_index(index("a_1", "a", true)).unwrap();
        let mut model: BTreeMap<i32, (i32, Vec<i32>)> = BTreeMap::new();
        let mut arrival: Vec<i32> = Vec::new();
        for (n, op) in ops.iter().enumerate() {
            if n == build_at {
                c.writer(crate::test_operation())
                    .create_index(index("tags_1", "tags", false))
                    .unwrap();
            }
            match op {
                Op::Insert(id, a, tags) => {
                    let d = document(*id, *a, tags);
                    let clash = model.contains_key(id) || model.values().any(|(x, _)| x == a);
                    let r = c.writer(crate::test_operation()).insert(&[d.doc()], true).unwrap();
                    prop_assert_eq!(r.count, usize::from(!clash));
                    if !clash {
                        model.insert(*id, (*a, tags.clone()));
                        arrival.push(*id);
                    }
                }
                Op::Set(id, a, tags) => {
                    let mut key = vec![];
                    c.record_key(&Value::Int32(*id), &mut key);
                    let d = document(*id, *a, tags);
                    let clash = model.iter().any(|(k, (x, _))| k != id && x == a);
                    let replace = &mut |_: Doc<'_>| Ok(Change::Replace(d.as_bytes().to_vec()));
                    let r = c.writer(crate::test_operation()).modify(&key, replace);
                    match (model.get_mut(id), clash) {
                        (None, _) => prop_assert_eq!(r.unwrap(), ModifyOutcome::Absent),
                        (Some(_), true) => prop_assert_eq!(r.unwrap_err().code(), 11000),
                        (Some(slot), false) => {
                            prop_assert!(matches!(r.unwrap(), ModifyOutcome::Replaced(_)));
                            *slot = (*a, tags.clone());
                        }
                    }
                }
                Op::Delete(id) => {
                    let mut key = vec![];
                    c.record_key(&Value::Int32(*id), &mut key);
                    let delete = &mut |_: Doc<'_>| Ok(Change::Delete);
                    let r = c.writer(crate::test_operation()).modify(&key, delete).unwrap();
                    let deleted = matches!(r, ModifyOutcome::Deleted(_));
                    prop_assert_eq!(deleted, model.remove(id).is_some());
                    arrival.retain(|x| x != id);
                }
            }
        }
        let v = c.validate().unwrap();
        prop_assert!(v.errors.is_empty(), "{:?}", v.errors);
        prop_assert_eq!(v.documents as usize, model.len());
        let expected: Vec<DocBuf> = arrival.iter().map(|id| document(*id, model[id].0,
            &model[id].1)).collect();
        prop_assert_eq!(&dump(&c, false), &expected);
        let mut backwards = expected.clone();
        backwards.reverse();
        prop_assert_eq!(&dump(&c, true), &backwards);

        // The same after the store was opened again over the same engine.
        drop((c, store));
        let store = open(&engine);
        let c = store.collection(&Namespace::new("db", "c").unwrap()).unwrap().unwrap();
        prop_assert_eq!(c.count() as usize, model.len());
        prop_assert_eq!(&dump(&c, false), &expected);
        prop_assert!(c.validate().unwrap().errors.is_empty());
    }
}

/// Readers of an index see each document once, in order, also when stopped and resumed at every
/// entry.
#[test]
fn index_walks_resume() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(&engine);
    let c = collection(&store, "c");
    c.writer(crate::test_operation())
        .create_index(index("tags_1", "tags", false))
        .unwrap();
    let docs: Vec<DocBuf> = (0..300)
        .map(|i| document(i, i, &[i % 7, (i + 1) % 7]))
        .collect();
    let views: Vec<_> = docs.iter().map(|d| d.doc()).collect();
    assert_eq!(
        c.writer(crate::test_operation())
            .insert(&views, true)
            .unwrap()
            .count,
        300
    );
    let i = c.indexes()[0].clone();
    for reverse in [false, true] {
        let all = store::KeyInterval {
            lower: vec![],
            upper: vec![0xFF],
        };
        let mut scan = c.scan_index(
            &ReadView::LATEST,
            &i,
            i.multikey_bits(),
            vec![all].into(),
            reverse,
        );
        let mut seen = std::collections::BTreeSet::new();
        loop {
            let more = scan
                .visit(10, &mut |row| {
                    assert!(
                        seen.insert(row.doc.field("_id").as_i64_exact()),
                        "shown twice"
                    );
                    row.doc.field("_id").as_i64_exact().unwrap() % 3 != 0
                })
                .unwrap();
            scan.pause();
            if !more {
                break;
            }
        }
        assert_eq!(seen.len(), 300);
    }
}

/// Writers race an index build; at the end every document has its entries.
#[test]
fn build_during_writes() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(&engine);
    let c = collection(&store, "c");
    let docs: Vec<DocBuf> = (0..2000).map(|i| document(i, i, &[i % 5])).collect();
    c.writer(crate::test_operation())
        .insert(&docs.iter().map(|d| d.doc()).collect::<Vec<_>>(), true)
        .unwrap();
    std::thread::scope(|s| {
        let c2 = c.clone();
        s.spawn(move || {
            for i in 0..2000 {
                let mut key = vec![];
                c2.record_key(&Value::Int32(i), &mut key);
                let new = document(i, -i - 1, &[i % 3, 9]);
                c2.writer(crate::test_operation())
                    .modify(&key, &mut |_| {
                        Ok(if i % 4 == 0 {
                            Change::Delete
                        } else {
                            Change::Replace(new.as_bytes().to_vec())
                        })
                    })
                    .unwrap();
                let d = document(10_000 + i, 10_000 + i, &[1]);
                c2.writer(crate::test_operation())
                    .insert(&[d.doc()], true)
                    .unwrap();
            }
        });
        c.writer(crate::test_operation())
            .create_index(index("a_1", "a", true))
            .unwrap();
        c.writer(crate::test_operation())
            .create_index(index("tags_1", "tags", false))
            .unwrap();
    });
    let v = c.validate().unwrap();
    assert!(
        v.errors.is_empty(),
        "{:?}",
        &v.errors[..v.errors.len().min(5)]
    );
    assert_eq!(c.count(), 3500);
}

/// Many writers compete for few unique keys; exactly one gets each.
#[test]
fn unique_under_races() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(&engine);
    let c = collection(&store, "c");
    c.writer(crate::test_operation())
        .create_index(index("a_1", "a", true))
        .unwrap();
    let won: usize = std::thread::scope(|s| {
        let threads: Vec<_> = (0..4)
            .map(|t| {
                let c = c.clone();
                s.spawn(move || {
                    (0..500)
                        .map(|a| {
                            c.writer(crate::test_operation())
                                .insert(&[document(t * 1000 + a, a, &[]).doc()], true)
                                .unwrap()
                                .count
                        })
                        .sum::<usize>()
                })
            })
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).sum()
    });
    assert_eq!(won, 500);
    assert!(c.validate().unwrap().errors.is_empty());
}

/// Delays each commit after the decision of its write.
struct LateCommits;

impl Observer for LateCommits {
    fn before_call(&self, call: &Call<'_>, _: &Caps) -> Result<(), StorageError> {
        if let Call::Apply { .. } = call {
            std::thread::sleep(Duration::from_millis(3));
        }
        Ok(())
    }
}

/// Two threads change one document each to the same unique key, repeatedly: one of them gets it.
#[test]
fn unique_under_racing_changes() {
    let engine = ObservedEngine::new(Arc::new(MemoryEngine::new()), LateCommits);
    let store = Store::open(Arc::new(engine), Arc::new(NoHooks)).unwrap();
    let c = collection(&store, "c");
    c.writer(crate::test_operation())
        .create_index(index("a_1", "a", true))
        .unwrap();
    for id in 0..2 {
        c.writer(crate::test_operation())
            .insert(&[document(id, -1 - id, &[]).doc()], true)
            .unwrap();
    }
    let start = std::sync::Barrier::new(2);
    let change = |id: i32, a: i32| {
        let (new, mut key) = (document(id, a, &[]), vec![]);
        c.record_key(&Value::Int32(id), &mut key);
        c.writer(crate::test_operation())
            .modify(&key, &mut |_| Ok(Change::Replace(new.as_bytes().to_vec())))
            .is_ok()
    };
    let race = |id: i32| {
        let mut won = Vec::new();
        for round in 0..50 {
            start.wait();
            won.push(change(id, round));
        }
        won
    };
    let (first, second) = std::thread::scope(|s| {
        let other = s.spawn(|| race(1));
        (race(0), other.join().unwrap())
    });
    // The loser keeps the key of its last success, which no later round uses.
    for (round, (first, second)) in first.iter().zip(&second).enumerate() {
        assert!(first != second, "round {round}: {first} and {second}");
    }
    assert!(c.validate().unwrap().errors.is_empty());
}

#[test]
fn duplicate_errors_name_index_and_key() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(&engine);
    let c = collection(&store, "c");
    c.writer(crate::test_operation())
        .create_index(index("a_1", "a", true))
        .unwrap();
    let d = doc! { "_id": 1i32, "a": "x" };
    c.writer(crate::test_operation())
        .insert(&[d.doc()], true)
        .unwrap();
    let e = doc! { "_id": 2i32, "a": "x" };
    let f = doc! { "_id": 1.0, "a": "y" };
    let r = c
        .writer(crate::test_operation())
        .insert(&[e.doc(), f.doc()], false)
        .unwrap();
    assert_eq!(r.count, 0);
    assert_eq!(
        r.errors[0].1.message(),
        r#"E11000 duplicate key error collection: db.c index: a_1 dup key: { a: "x" }"#
    );
    assert_eq!(
        r.errors[1].1.message(),
        "E11000 duplicate key error collection: db.c index: _id_ dup key: { _id: 1.0 }"
    );
    // The same within one batch.
    let (g, h) = (
        doc! { "_id": 5i32, "a": 5i32 },
        doc! { "_id": 6i32, "a": 5i32 },
    );
    let r = c
        .writer(crate::test_operation())
        .insert(&[g.doc(), h.doc(), g.doc()], false)
        .unwrap();
    assert_eq!((r.count, r.errors.len()), (1, 2));
    assert!(c.validate().unwrap().errors.is_empty());
}
