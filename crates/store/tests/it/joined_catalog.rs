//! Changes of the catalog by several stores: collections created in transactions, and what a store
//! that has died leaves behind.

use crate::joined::{Member, STORES, members, ns, on_all};
use model::{Doc, DocBuf, Namespace, Result, Value, doc};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use storage::{CursorOpts, KeyRange, Reader, Table};
use store::{Change, Collection, IndexBuild, SessionRecord, Store, Transaction};

fn named(name: &str) -> Namespace {
    Namespace::new("db", name).unwrap()
}

/// Creates a collection with an index and documents in one transaction.
fn create_in_transaction(member: &Member, name: &str, who: usize, number: i64) -> Result<()> {
    let (ns, view) = (named(name), member.view());
    let transaction = member.store.begin_transaction(None)?;
    let writer = member.store.writer(crate::test_operation());
    let c = writer.create_collection_in(&ns, DocBuf::new(), [who as u8; 16], &transaction)?;
    let same = |_: Doc<'_>| Ok(false);
    let spec = crate::index("k", "k", true);
    assert!(writer.create_index_in(&c, spec, &same, &transaction)?);
    let docs: Vec<DocBuf> = (0..5)
        .rev()
        .map(|n| doc! { "_id": n, "who": who as i32, "k": [n, n + 100] })
        .collect();
    let docs: Vec<Doc<'_>> = docs.iter().map(DocBuf::doc).collect();
    let done = c
        .writer(crate::test_operation())
        .insert_in(&docs, true, &transaction)?;
    assert_eq!(done.count, 5);
    // Only the transaction sees it.
    assert!(member.store.collection_in(&view, &ns)?.is_none());
    let mut record = SessionRecord::new([who as u8; 16]);
    member.store.begin_retryable(&mut record, number)?;
    writer
        .commit_transaction(&transaction, &mut record)
        .map(|_| ())
}

fn documents(member: &Member, ns: &Namespace) -> Vec<DocBuf> {
    let view = member.view();
    let c = member.store.collection_in(&view, ns).unwrap().unwrap();
    let (mut found, mut scan) = (Vec::new(), c.scan(&view, false));
    while scan
        .visit(100, &mut |row| {
            found.push(row.doc.to_buf());
            true
        })
        .unwrap()
    {}
    found
}

#[test]
fn one_of_several_transactions_creates_a_collection() {
    let all = members();
    for round in 0..20 {
        let name = format!("c{round}");
        let made = on_all(&all, |who, member| {
            let made = create_in_transaction(member, &name, who, round);
            if let Err(e) = &made {
                assert!(e.code() == 112 || e.code() == 48, "{e:?}");
            }
            made.is_ok()
        });
        assert_eq!(made.iter().filter(|made| **made).count(), 1);
        let who = made.iter().position(|made| *made).unwrap() as i64;
        for member in &all {
            let found = documents(member, &named(&name));
            let ids: Vec<_> = found
                .iter()
                .map(|d| d.doc().field("_id").as_i64_exact().unwrap())
                .collect();
            assert_eq!(ids, [4, 3, 2, 1, 0]);
            let of = |d: &DocBuf| d.doc().field("who").as_i64_exact() == Some(who);
            assert!(found.iter().all(of));
            let view = member.view();
            let c = member.store.collection_in(&view, &named(&name)).unwrap();
            let c = c.unwrap();
            assert!(c.indexes()[0].is_ready() && c.indexes()[0].is_multikey());
            assert_eq!(c.validate().unwrap().errors, Vec::<String>::new());
        }
        // Others write to it.
        let other = &all[(who as usize + 1) % STORES];
        let view = other.view();
        let c = other.store.collection_in(&view, &named(&name)).unwrap();
        let doc = doc! { "_id": 9i32, "k": 3i32 };
        let c = c.unwrap();
        let done = c
            .writer(crate::test_operation())
            .insert(&[doc.doc()], true)
            .unwrap();
        assert_eq!((done.count, done.errors[0].1.code()), (0, 11000));
    }
}

#[test]
fn what_readers_cache_outlives_changes_of_other_collections() {
    let all = members();
    assert!(create_in_transaction(&all[0], "kept", 0, 1).is_ok());
    let collection = || {
        let view = all[1].view();
        let c = all[1].store.collection_in(&view, &named("kept")).unwrap();
        c.unwrap()
    };
    let before = collection();
    before
        .attachment::<AtomicUsize>()
        .store(7, Ordering::Relaxed);
    let is_kept = |c: &Collection| c.ns().coll() == "kept";
    assert_eq!(all[1].store.collections_in_use(&is_kept).len(), 1);
    assert!(create_in_transaction(&all[0], "other", 0, 2).is_ok());
    let after = collection();
    assert!(!Arc::ptr_eq(&before, &after));
    let cached = after.attachment::<AtomicUsize>();
    assert_eq!(cached.load(Ordering::Relaxed), 7);
}

#[test]
fn an_aborted_transaction_leaves_no_collection() {
    let all = members();
    let transaction = all[0].store.begin_transaction(None).unwrap();
    let writer = all[0].store.writer(crate::test_operation());
    writer
        .create_collection_in(&ns(), DocBuf::new(), [1; 16], &transaction)
        .unwrap();
    drop(transaction);
    assert!(all.iter().all(|member| member.find().is_none()));
}

/// Replaces the document 1 in a transaction; its key.
fn replace_in(c: &Arc<Collection>, transaction: &Transaction) -> Vec<u8> {
    let key = crate::joined::key_of(c, 1);
    let new = doc! { "_id": 1i32, "n": 1i32 };
    c.writer(crate::test_operation())
        .modify_in(
            &[&key],
            &mut |_, _| Ok(Change::Replace(new.as_bytes().to_vec())),
            &mut |_, _| {},
            transaction,
        )
        .unwrap();
    key
}

#[test]
fn a_transaction_that_creates_a_collection_sees_no_change_of_another() {
    let all = members();
    all[0].create_with(&DocBuf::new()).unwrap();
    all[0].insert(&[doc! { "_id": 1i32, "n": 0i32 }]);
    let c = all[1].find().unwrap();
    let transaction = all[1].store.begin_transaction(None).unwrap();
    let writer = all[1].store.writer(crate::test_operation());
    writer
        .create_collection_in(&named("other"), DocBuf::new(), [1; 16], &transaction)
        .unwrap();
    let key = replace_in(&c, &transaction);
    all[2]
        .run(|c| {
            c.writer(crate::test_operation())
                .modify(&key, &mut |_| Ok(Change::Delete))
        })
        .unwrap();
    let mut record = SessionRecord::new([1; 16]);
    all[1].store.begin_retryable(&mut record, 1).unwrap();
    let committed = writer.commit_transaction(&transaction, &mut record);
    assert_eq!(committed.unwrap_err().code(), 112);
    let view = all[0].view();
    let made = all[0].store.collection_in(&view, &named("other")).unwrap();
    assert!(made.is_none());
}

/// Registers an index and stops building it.
fn begin_index(member: &Member, build: &mut Option<IndexBuild>) {
    let spec = crate::index("k", "k", false);
    let stop = || Err(model::MongoError::new(11601, "stopped"));
    let same = |_: Doc<'_>| Ok(false);
    // The first run registers the index; the next one finds it.
    let first = member
        .find()
        .unwrap()
        .writer(crate::test_operation())
        .create_index_with_progress(spec.clone(), &same, build, &|| {}, &stop);
    assert!(first.unwrap_err().is_collection_gone() && build.is_some());
}

fn unfinished(member: &Member) -> usize {
    let c = member.find().unwrap();
    let indexes = c.indexes();
    indexes.iter().filter(|i| !i.is_ready()).count()
}

fn sweep_indexes(member: &Member) -> usize {
    let writer = member.store.writer(crate::test_operation());
    writer.sweep_unfinished_indexes(&|| Ok(())).unwrap()
}

/// From now on the first one counts as dead, and the others as alive.
fn let_first_die(all: &[Member]) {
    let now_ms = 4_000_000_000_000;
    all[0].engine.set_time_ms(now_ms);
    all.iter().for_each(|m| m.store.say_alive().unwrap());
    all[0].engine.set_time_ms(now_ms + 60_000);
    all[1..].iter().for_each(|m| m.store.say_alive().unwrap());
}

#[test]
fn the_index_of_a_builder_that_has_died_is_removed() {
    let all = members();
    all[0].create_with(&DocBuf::new()).unwrap();
    all[0].insert(&[doc! { "_id": 1i32, "k": 1i32 }]);
    let mut build = None;
    begin_index(&all[0], &mut build);
    assert!(all.iter().all(|member| unfinished(member) == 1));
    // As long as it is alive, nobody removes it, not even itself.
    assert_eq!(sweep_indexes(&all[1]), 0);
    let_first_die(&all);
    assert_eq!(sweep_indexes(&all[0]), 0);
    assert!(all.iter().all(|member| unfinished(member) == 1));
    assert_eq!(sweep_indexes(&all[1]), 1);
    assert!(
        all.iter()
            .all(|member| member.find().unwrap().indexes().is_empty())
    );
    // The builder was only slow: it finds its index gone.
    let ended = all[0].run(|c| {
        c.writer(crate::test_operation())
            .create_index_with_progress(
                crate::index("k", "k", false),
                &|_| Ok(false),
                &mut build,
                &|| {},
                &|| Ok(()),
            )
    });
    assert_eq!(ended.unwrap_err().code(), 276);
    assert_eq!(sweep_indexes(&all[2]), 0);
    let c = all[2].find().unwrap();
    assert_eq!(c.validate().unwrap().errors, Vec::<String>::new());
}

#[test]
fn a_build_that_its_client_has_given_up_is_removed_by_its_own_store() {
    let all = members();
    all[0].create_with(&DocBuf::new()).unwrap();
    let mut build = None;
    begin_index(&all[0], &mut build);
    drop(build);
    assert_eq!(unfinished(&all[1]), 1);
    let view = all[0].view();
    let writer = all[0].store.writer(crate::test_operation());
    writer.sweep_abandoned().unwrap();
    drop(view);
    assert_eq!(unfinished(&all[1]), 0);
}

#[test]
fn no_sweep_removes_what_others_create_meanwhile() {
    let all = members();
    let (ended, swept) = (AtomicBool::new(false), AtomicUsize::new(0));
    on_all(&all, |who, member| {
        if who == 0 {
            while !ended.load(Ordering::SeqCst) {
                let found = member.store.sweep_unowned(&|| Ok(())).unwrap();
                assert_eq!(found, 0, "an identifier in use was taken for unowned");
                swept.fetch_add(1, Ordering::SeqCst);
            }
            return;
        }
        for n in 0..60 {
            let ns = named(&format!("c{who}x{n}"));
            let mut made = false;
            while !made {
                member.view();
                let writer = member.store.writer(crate::test_operation());
                made = match writer.create_collection(&ns, DocBuf::new(), [who as u8; 16]) {
                    Err(e) if e.is_collection_gone() => false,
                    made => made.map(|_| true).unwrap(),
                };
            }
            let mut written = false;
            while !written {
                let view = member.view();
                let c = member.store.collection_in(&view, &ns).unwrap().unwrap();
                let doc = doc! { "_id": 1i32 };
                let done = c.writer(crate::test_operation()).insert(&[doc.doc()], true);
                written = match done {
                    Err(e) if e.is_collection_gone() => false,
                    done => done.map(|_| true).unwrap(),
                };
            }
        }
        if who == 1 {
            while swept.load(Ordering::SeqCst) < 3 {
                std::thread::yield_now();
            }
            ended.store(true, Ordering::SeqCst);
        }
    });
    for who in 1..STORES {
        for n in 0..60 {
            let ns = named(&format!("c{who}x{n}"));
            assert_eq!(documents(&all[0], &ns).len(), 1);
        }
    }
}

#[test]
fn keys_without_an_owner_are_removed_beside_others() {
    let all = members();
    all[0].create_with(&DocBuf::new()).unwrap();
    all[0].insert(&[doc! { "_id": 1i32 }]);
    let mut batch = storage::WriteBatch::new();
    batch.put(Table::Doc, &[0, 0, 0xFF, 0, 1, 2], b"left");
    let engine = Arc::clone(&all[0].engine);
    storage::Engine::apply(engine.as_ref(), &batch, storage::Durability::Buffered).unwrap();
    assert_eq!(all[1].store.sweep_unowned(&|| Ok(())).unwrap(), 1);
    // Until then a view shows the state before.
    all[1].view();
    all[1].store.sweep_dropped().unwrap();
    let mut keys = 0;
    let mut cursor = engine
        .cursor(Table::Doc, KeyRange::ALL, CursorOpts::default())
        .unwrap();
    while cursor
        .visit(10, &mut |_, _| {
            keys += 1;
            true
        })
        .unwrap()
    {}
    assert_eq!(keys, 1);
    assert_eq!(all[2].documents().len(), 1);
}

/// The marks of open buckets.
fn open_buckets(member: &Member) -> usize {
    let (mut marks, engine) = (0, member.engine.as_ref());
    let mut cursor = engine
        .cursor(Table::Cap, KeyRange::ALL, CursorOpts::default())
        .unwrap();
    while cursor
        .visit(10, &mut |_, _| {
            marks += 1;
            true
        })
        .unwrap()
    {}
    marks
}

#[test]
fn buckets_of_a_store_that_has_died_are_packed() {
    let all = members();
    let options = doc! { "timeseries": { "timeField": "t", "granularity": "seconds",
    "bucketMaxSpanSeconds": 3600i32 } };
    all[0].create_with(&options).unwrap();
    for (n, member) in all.iter().enumerate() {
        member.insert(&[doc! { "t": Value::Date(5), "_id": n as i32 }]);
    }
    assert_eq!(open_buckets(&all[0]), STORES);
    let sweep = |store: &Store| {
        let writer = store.writer(crate::test_operation());
        writer.sweep_left_buckets(&|| Ok(())).unwrap()
    };
    all.iter().for_each(|m| m.store.say_alive().unwrap());
    assert_eq!(sweep(&all[1].store), 0);
    let_first_die(&all);
    assert_eq!(sweep(&all[1].store), 1);
    assert_eq!(sweep(&all[2].store), 0);
    assert_eq!(open_buckets(&all[0]), STORES - 1);
    // It was only slow.
    all[0].insert(&[doc! { "t": Value::Date(6), "_id": 9i32 }]);
    assert_eq!(open_buckets(&all[0]), STORES);
    assert_eq!(all[2].documents().len(), STORES + 1);
    let c = all[1].find().unwrap();
    assert_eq!(c.validate().unwrap().errors, Vec::<String>::new());
}

#[test]
fn all_stores_keep_the_setting_of_the_first() {
    let all = members();
    for round in 0..20 {
        let name = format!("secret{round}");
        let kept = on_all(&all, |who, member| {
            let own = doc! { "of": who as i32 };
            member.store.keep_setting(&name, &own).unwrap()
        });
        assert!(kept.iter().all(|one| *one == kept[0]), "{kept:?}");
        assert_eq!(all[1].store.setting(&name).unwrap(), Some(kept[0].clone()));
    }
}

/// Changes a document in a transaction, has another store change the catalog meanwhile, and
/// commits; the code of the error.
fn commit_beside(meanwhile: impl FnOnce(&Member)) -> Option<i32> {
    let all = members();
    all[0].create_with(&DocBuf::new()).unwrap();
    all[0].insert(&[doc! { "_id": 1i32, "n": 0i32 }]);
    let c = all[1].find().unwrap();
    let transaction = all[1].store.begin_transaction(None).unwrap();
    replace_in(&c, &transaction);
    meanwhile(&all[2]);
    let mut record = SessionRecord::new([1; 16]);
    all[1].store.begin_retryable(&mut record, 1).unwrap();
    let writer = all[1].store.writer(crate::test_operation());
    let committed = writer.commit_transaction(&transaction, &mut record);
    let failed = committed.err().map(|e| e.code());
    if failed.is_none() {
        let found = all[0].documents();
        assert_eq!(found[0].doc().field("n").as_i64_exact(), Some(1));
    }
    failed
}

#[test]
fn a_change_of_another_collection_ends_no_transaction() {
    let failed = commit_beside(|other| {
        create_in_transaction(other, "another", 2, 1).unwrap();
    });
    assert_eq!(failed, None);
}

#[test]
fn a_change_of_its_own_collection_ends_a_transaction() {
    let indexed = commit_beside(|other| {
        assert!(
            other
                .create_index(&crate::index("n_1", "n", false))
                .unwrap()
        );
    });
    assert_eq!(indexed, Some(112));
    let replaced = commit_beside(|other| {
        other.drop_collection();
        other.create_with(&DocBuf::new()).unwrap();
        other.insert(&[doc! { "_id": 1i32, "n": 0i32 }]);
    });
    assert_eq!(replaced, Some(112));
    // The index has no entries of arrays before.
    let marked = commit_beside(|other| {
        assert!(
            other
                .create_index(&crate::index("n_1", "n", false))
                .unwrap()
        );
        other.insert(&[doc! { "_id": 2i32, "n": [1i32, 2i32] }]);
    });
    assert_eq!(marked, Some(112));
}
