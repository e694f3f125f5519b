//! Capped collections to which several stores write: documents become visible in the order of their
//! numbers, and no reader sees more than the limits allow, whoever inserts.

use crate::joined::{Member, STORES, key_of, members, ns, on_all};
use model::{DocBuf, Result, doc};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use store::{Change, Collection, ReadView};

fn capped(size: i64, max: i32) -> DocBuf {
    doc! { "capped": true, "size": size, "max": max }
}

/// The documents that one store inserts, in order.
fn document(who: usize, n: i32) -> DocBuf {
    doc! { "_id": who as i32 * 1_000_000 + n, "who": who as i32, "n": n }
}

fn number(doc: &DocBuf, field: &str) -> i64 {
    doc.doc().field(field).as_i64_exact().unwrap()
}

fn documents_of(c: &Arc<Collection>, view: &ReadView) -> Vec<DocBuf> {
    let (mut found, mut scan) = (Vec::new(), c.scan(view, false));
    let mut numbers = Vec::new();
    while scan
        .visit(7, &mut |row| {
            numbers.push(row.header.insert_seq);
            found.push(row.doc.to_buf());
            true
        })
        .unwrap()
    {
        scan.pause();
    }
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    found
}

/// The documents of each store are in the order in which it has inserted them, without gaps.
fn check_runs(found: &[DocBuf]) {
    let mut last = BTreeMap::new();
    for doc in found {
        let n = number(doc, "n");
        if let Some(before) = last.insert(number(doc, "who"), n) {
            assert_eq!(n, before + 1, "a document is missing or out of order");
        }
    }
}

fn validate(all: &[Member]) {
    for member in all {
        member.view();
        let c = member.find().unwrap();
        assert_eq!(c.validate().unwrap().errors, Vec::<String>::new());
    }
}

/// Each store inserts so many documents, in statements of different sizes.
fn insert_all(who: usize, member: &Member, number: i32) {
    let (mut n, mut step) = (0, 1);
    while n < number {
        let end = (n + step).min(number);
        let docs: Vec<DocBuf> = (n..end).map(|n| document(who, n)).collect();
        assert_eq!(member.insert(&docs), docs.len());
        (n, step) = (end, step % 5 + 1);
    }
}

#[test]
fn no_view_shows_more_than_the_limits_or_another_order() {
    const MAX: usize = 20;
    let all = members();
    all[0].create_with(&capped(1 << 20, MAX as i32)).unwrap();
    all[1].create_index(&crate::index("n", "n", false)).unwrap();
    let (writing, looks) = (AtomicUsize::new(STORES), AtomicUsize::new(0));
    std::thread::scope(|s| {
        for member in &all {
            s.spawn(|| {
                while writing.load(Ordering::SeqCst) > 0 {
                    let view = member.view();
                    let Some(c) = member.store.collection_in(&view, &ns()).unwrap() else {
                        continue;
                    };
                    let found = documents_of(&c, &view);
                    assert!(found.len() <= MAX, "{}", found.len());
                    assert_eq!(view.count_of(&c).unwrap(), found.len() as u64);
                    check_runs(&found);
                    looks.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        on_all(&all, |who, member| {
            insert_all(who, member, 300);
            writing.fetch_sub(1, Ordering::SeqCst);
        });
    });
    assert!(looks.into_inner() > 10);
    for member in &all {
        assert_eq!(member.documents().len(), MAX);
    }
    validate(&all);
}

#[test]
fn a_reader_at_the_end_misses_no_document_of_any_store() {
    const EACH: i32 = 200;
    let all = members();
    all[0].create_with(&capped(1 << 20, 10_000)).unwrap();
    all[0].insert(&[document(9, 0)]);
    let seen = std::thread::scope(|s| {
        let readers: Vec<_> = all
            .iter()
            .map(|member| {
                s.spawn(|| {
                    let mut scan = member.find().unwrap().tail(false);
                    let mut seen = Vec::new();
                    while seen.len() < STORES * EACH as usize + 1 {
                        member.view();
                        scan.visit(3, &mut |row| {
                            seen.push(row.doc.to_buf());
                            true
                        })
                        .unwrap();
                        scan.pause();
                    }
                    seen
                })
            })
            .collect();
        on_all(&all, |who, member| insert_all(who, member, EACH));
        let seen: Vec<Vec<DocBuf>> = readers.into_iter().map(|r| r.join().unwrap()).collect();
        seen
    });
    let order = all[0].documents();
    for seen in seen {
        check_runs(&seen);
        assert_eq!(seen, order);
    }
}

#[test]
fn a_tail_ends_when_another_store_drops_the_collection() {
    let all = members();
    all[0].create_with(&capped(1 << 20, 10)).unwrap();
    all[0].insert(&[document(0, 0)]);
    let mut scan = all[1].find().unwrap().tail(false);
    scan.visit(10, &mut |_| true).unwrap();
    scan.pause();
    all[0].drop_collection();
    all[1].view();
    let ended = scan.visit(10, &mut |_| true).unwrap_err();
    assert!(ended.is_collection_gone(), "{ended:?}");
}

fn change(member: &Member, id: i32, new: &dyn Fn(i32) -> Change) -> Result<()> {
    member.run(|c| {
        let key = key_of(c, id);
        c.writer(crate::test_operation())
            .modify(&key, &mut |_| Ok(new(id)))
            .map(|_| ())
    })
}

#[test]
fn documents_that_grow_and_go_are_counted_by_all() {
    const BYTES: u64 = 4000;
    let all = members();
    all[0].create_with(&capped(BYTES as i64, 1000)).unwrap();
    let ended = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            while !ended.load(Ordering::SeqCst) {
                let view = all[0].view();
                let Some(c) = all[0].store.collection_in(&view, &ns()).unwrap() else {
                    continue;
                };
                let found = documents_of(&c, &view);
                assert_eq!(view.count_of(&c).unwrap(), found.len() as u64);
            }
        });
        on_all(&all, |who, member| {
            for n in 0..150 {
                let id = who as i32 * 1_000_000 + n;
                assert_eq!(member.insert(&[document(who, n)]), 1);
                let pad = "x".repeat(n as usize % 90);
                let other = ((who as i32 + 1) % 3) * 1_000_000 + n;
                change(member, id, &|id| {
                    let grown = doc! { "_id": id, "who": who as i32, "n": n, "pad": &*pad };
                    Change::Replace(grown.as_bytes().to_vec())
                })
                .unwrap();
                if n % 3 == 0 {
                    change(member, other, &|_| Change::Delete).unwrap();
                }
            }
        });
        ended.store(true, Ordering::SeqCst);
    });
    // The next insert brings it within its limits again.
    all[1].insert(&[document(7, 0)]);
    for member in &all {
        let found = member.documents();
        let bytes: usize = found.iter().map(|d| d.as_bytes().len()).sum();
        assert!(bytes as u64 <= BYTES && found.len() > 5, "{bytes} bytes");
    }
    validate(&all);
}

#[test]
fn a_collection_becomes_capped_while_others_insert() {
    let all = members();
    all[0].create_with(&DocBuf::new()).unwrap();
    let converted = AtomicBool::new(false);
    on_all(&all, |who, member| {
        if who == 0 {
            insert_all(who, member, 50);
            let to = capped(1 << 20, 100);
            member
                .run(|c| {
                    c.writer(crate::test_operation())
                        .set_options(to.clone(), None)
                })
                .unwrap();
            converted.store(true, Ordering::SeqCst);
            member
                .run(|c| c.writer(crate::test_operation()).trim())
                .unwrap();
        } else {
            let mut n = 0;
            while n < 100 || (!converted.load(Ordering::SeqCst) && n < 5000) {
                assert_eq!(member.insert(&[document(who, n)]), 1);
                n += 1;
            }
        }
    });
    assert!(converted.into_inner());
    for member in &all {
        let found = member.documents();
        assert_eq!(found.len(), 100);
        check_runs(&found);
    }
    validate(&all);
    // Smaller limits hold for all.
    let to = capped(1 << 20, 10);
    all[1]
        .run(|c| {
            c.writer(crate::test_operation())
                .set_options(to.clone(), None)
        })
        .unwrap();
    all[1]
        .run(|c| c.writer(crate::test_operation()).trim())
        .unwrap();
    assert_eq!(all[2].documents().len(), 10);
    all[2].insert(&[document(8, 0)]);
    assert_eq!(all[0].documents().len(), 10);
    validate(&all);
}

/// A process that writes alone does not keep the row of the order.
#[test]
fn numbers_are_above_those_that_a_store_alone_has_given() {
    let all = members();
    all[0].create_with(&capped(1 << 20, 5)).unwrap();
    insert_all(0, &all[0], 3);
    let engine = Arc::clone(&all[0].engine);
    drop(all);
    let alone = crate::open(&engine);
    let c = alone.collection(&ns()).unwrap().unwrap();
    let docs: Vec<DocBuf> = (3..10).map(|n| document(0, n)).collect();
    for doc in &docs {
        c.writer(crate::test_operation())
            .insert(&[doc.doc()], true)
            .unwrap();
    }
    drop((c, alone));
    let again: Vec<Member> = (0..STORES).map(|_| Member::join(&engine)).collect();
    assert_eq!(again[1].insert(&[document(0, 10)]), 1);
    assert_eq!(again[2].insert(&[document(0, 11)]), 1);
    for member in &again {
        let found = member.documents();
        let numbers: Vec<i64> = found.iter().map(|d| number(d, "n")).collect();
        assert_eq!(numbers, [7, 8, 9, 10, 11]);
    }
    validate(&again);
}

/// Runs `first` on the first store; right before its commit the second one runs `second`.
pub(crate) fn meet(
    all: &[Member],
    first: impl FnOnce(&Member),
    second: impl FnOnce(&Member) + Send,
) {
    std::thread::scope(|s| {
        let (ready, may_act) = std::sync::mpsc::channel::<()>();
        let (acted, done) = std::sync::mpsc::channel::<()>();
        let other = &all[1];
        s.spawn(move || {
            may_act.recv().unwrap();
            second(other);
            acted.send(()).unwrap();
        });
        all[0].engine.before_next_commit(Box::new(move || {
            ready.send(()).unwrap();
            done.recv().unwrap();
        }));
        first(&all[0]);
    });
}

#[test]
fn two_inserts_that_meet_keep_the_limit_and_the_order() {
    let all = members();
    all[0].create_with(&capped(1 << 20, 3)).unwrap();
    insert_all(0, &all[0], 2);
    let mut seen = Vec::new();
    let mut scan = all[2].find().unwrap().tail(false);
    let see = &mut |row: store::Row<'_>| {
        seen.push(row.doc.field("_id").as_i64_exact().unwrap());
        true
    };
    let one = document(1, 0);
    meet(
        &all,
        |member| assert_eq!(member.insert(&[document(0, 2)]), 1),
        |member| {
            assert_eq!(member.insert(&[one]), 1);
            // A reader is at the end before the first one commits.
            all[2].view();
            scan.visit(100, see).unwrap();
            scan.pause();
        },
    );
    all[2].view();
    scan.visit(100, see).unwrap();
    assert_eq!(seen, [0, 1, 1_000_000, 2]);
    for member in &all {
        let found = member.documents();
        let ids: Vec<i64> = found.iter().map(|d| number(d, "_id")).collect();
        assert_eq!(ids, [1, 1_000_000, 2]);
    }
    validate(&all);
}

#[test]
fn a_document_that_grows_while_another_is_inserted_keeps_the_limit() {
    let all = members();
    all[0].create_with(&capped(400, 100)).unwrap();
    insert_all(0, &all[0], 2);
    let bytes = |member: &Member| -> usize {
        let found = member.documents();
        found.iter().map(|d| d.as_bytes().len()).sum()
    };
    let pad = "x".repeat(300 - bytes(&all[0]));
    let grown = doc! { "_id": 1i32, "who": 0i32, "n": 1i32, "pad": &*pad };
    let large = doc! { "_id": 2i32, "who": 0i32, "n": 2i32, "pad": "y".repeat(100).as_str() };
    meet(
        &all,
        |member| assert_eq!(member.insert(&[large]), 1),
        |member| {
            let new = Change::Replace(grown.as_bytes().to_vec());
            let mut new = Some(new);
            let key = key_of(&member.find().unwrap(), 1);
            let changed = member.run(|c| {
                let writer = c.writer(crate::test_operation());
                writer.modify(&key, &mut |_| Ok(new.take().unwrap_or(Change::Keep)))
            });
            changed.unwrap();
        },
    );
    assert!(bytes(&all[2]) <= 400, "{} bytes", bytes(&all[2]));
    validate(&all);
}
