//! Collections and indexes created in transactions: nothing of them is on disk before the commit,
//! and everything after it.

use crate::{collection, dump, open};
use model::{DocBuf, Namespace, Value, doc};
use std::sync::Arc;
use storage::{CursorOpts, KeyRange, MemoryEngine, Reader, Table};
use store::{Change, Collection, SessionRecord, Store, Transaction};

fn ns() -> Namespace {
    Namespace::new("db", "made").unwrap()
}

/// Rows of all tables except the one with the number of reserved identifiers.
fn rows(engine: &MemoryEngine) -> Vec<(usize, Vec<u8>)> {
    let mut all = Vec::new();
    for table in Table::ALL {
        let each = &mut |key: &[u8], _: &[u8]| {
            all.push((table.index(), key.to_vec()));
            true
        };
        let mut cursor = engine
            .cursor(table, KeyRange::ALL, CursorOpts::default())
            .unwrap();
        while cursor.visit(1 << 20, each).unwrap() {}
    }
    all
}

/// Creates a collection with an index in a transaction, and documents that need all marks: ids out
/// of order, and an array.
fn make(store: &Store, t: &Transaction) -> Arc<Collection> {
    let c = store
        .writer(crate::test_operation())
        .create_collection_in(&ns(), DocBuf::new(), [9; 16], t)
        .unwrap();
    let spec = doc! { "v": 2i32, "key": { "a": 1i32 }, "name": "a" };
    assert!(
        store
            .writer(crate::test_operation())
            .create_index_in(&c, spec, &|_| Ok(false), t)
            .unwrap()
    );
    let docs = [doc! { "_id": 2i32, "a": 5i32 }, doc! { "_id": 1i32 }];
    let docs: Vec<_> = docs.iter().map(DocBuf::doc).collect();
    assert_eq!(
        c.writer(crate::test_operation())
            .insert_in(&docs, true, t)
            .unwrap()
            .count,
        2
    );
    let mut key = Vec::new();
    c.record_key(&Value::Int32(1), &mut key);
    let new = doc! { "_id": 1i32, "a": [1i32, 2i32] };
    let replace = &mut |_: usize, _: model::Doc<'_>| Ok(Change::Replace(new.as_bytes().to_vec()));
    c.writer(crate::test_operation())
        .modify_in(&[&key], replace, &mut |_, _| {}, t)
        .unwrap();
    c
}

fn commit(store: &Store, t: &Transaction) -> model::Result<storage::CommitPos> {
    let mut record = SessionRecord::new([5; 16]);
    store.begin_retryable(&mut record, 1).unwrap();
    store
        .writer(crate::test_operation())
        .commit_transaction(t, &mut record)
}

#[test]
fn an_abort_leaves_nothing_on_disk_or_in_memory() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(&engine);
    // Reserves identifiers.
    collection(&store, "other");
    let before = rows(&engine);
    let t = store.begin_transaction(None).unwrap();
    let c = make(&store, &t);
    assert!(store.collection(&ns()).unwrap().is_none());
    let own = store.collection_in(t.view(), &ns()).unwrap().unwrap();
    assert!(Arc::ptr_eq(&own, &c));
    assert_eq!(store.list_collections("db").unwrap().len(), 1);
    assert_eq!(rows(&engine), before);
    drop(t);
    assert_eq!(rows(&engine), before);
    assert!(c.is_dropped() && store.collection(&ns()).unwrap().is_none());
}

#[test]
fn a_commit_brings_the_marks_that_its_documents_need() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(&engine);
    let t = store.begin_transaction(None).unwrap();
    make(&store, &t);
    commit(&store, &t).unwrap();
    drop(t);
    let check = |store: &Store| {
        let c = store.collection(&ns()).unwrap().unwrap();
        assert_eq!((c.uuid(), c.count()), ([9; 16], 2));
        assert!(c.indexes()[0].is_multikey());
        let ids: Vec<_> = dump(&c, false)
            .iter()
            .map(|d| d.doc().field("_id").as_i64_exact())
            .collect();
        assert_eq!(ids, [Some(2), Some(1)]);
        let found = c.validate().unwrap();
        assert_eq!(found.errors, Vec::<String>::new());
    };
    check(&store);
    drop(store);
    check(&open(&engine));
}

#[test]
fn the_first_of_two_transactions_has_the_name_and_anybody_outside_before_both() {
    let store = open(&Arc::new(MemoryEngine::new()));
    let (a, b) = (
        store.begin_transaction(None).unwrap(),
        store.begin_transaction(None).unwrap(),
    );
    make(&store, &a);
    let refused = store.writer(crate::test_operation()).create_collection_in(
        &ns(),
        DocBuf::new(),
        [8; 16],
        &b,
    );
    assert_eq!(refused.err().map(|e| e.code()), Some(112));
    collection(&store, "made");
    assert_eq!(commit(&store, &a).err().map(|e| e.code()), Some(112));
    drop((a, b));
    let c = store.collection(&ns()).unwrap().unwrap();
    assert_eq!((c.uuid(), c.count()), ([7; 16], 0));
    assert!(c.indexes().is_empty());
}
