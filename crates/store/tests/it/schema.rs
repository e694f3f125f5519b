//! Catalog: create, list, drop, rename, and the state after a crash during a build.

use crate::{collection, dump, index, open};
use model::{DocBuf, Namespace, doc};
use std::sync::Arc;
use storage::{CursorOpts, Durability, Engine, KeyRange, MemoryEngine, Reader, Table, WriteBatch};
use store::ReadView;
use store::{NoHooks, Store};

fn ns(coll: &str) -> Namespace {
    Namespace::new("db", coll).unwrap()
}

#[test]
fn create_list_drop() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(&engine);
    for name in ["b", "a", "c.d"] {
        collection(&store, name);
    }
    store
        .writer(crate::test_operation())
        .create_collection(&Namespace::new("db2", "x").unwrap(), DocBuf::new(), [1; 16])
        .unwrap();
    store
        .writer(crate::test_operation())
        .create_collection(&Namespace::new("d", "x").unwrap(), DocBuf::new(), [1; 16])
        .unwrap();
    assert_eq!(store.list_databases().unwrap(), ["d", "db", "db2"]);
    let names: Vec<_> = store
        .list_collections("db")
        .unwrap()
        .into_iter()
        .map(|e| e.name)
        .collect();
    assert_eq!(names, ["a", "b", "c.d"]);
    assert_eq!(
        store
            .writer(crate::test_operation())
            .create_collection(&ns("a"), DocBuf::new(), [0; 16])
            .err()
            .unwrap()
            .code(),
        48
    );
    assert_eq!(
        store
            .writer(crate::test_operation())
            .drop_collection(&ns("a"))
            .unwrap(),
        Some(1)
    );
    assert_eq!(
        store
            .writer(crate::test_operation())
            .drop_collection(&ns("a"))
            .unwrap(),
        None
    );
    assert_eq!(
        store
            .writer(crate::test_operation())
            .drop_database("db")
            .unwrap(),
        2
    );
    assert_eq!(store.list_databases().unwrap(), ["d", "db2"]);
}

#[test]
fn dropped_collections_come_back_empty_and_their_readers_stop() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(&engine);
    // Fewer and more keys than are deleted one by one.
    for count in [10, 3000] {
        let c = collection(&store, "c");
        c.writer(crate::test_operation())
            .create_index(index("a_1", "a", false))
            .unwrap();
        let docs: Vec<_> = (0..count).map(|i| doc! { "_id": i, "a": i }).collect();
        c.writer(crate::test_operation())
            .insert(&docs.iter().map(|d| d.doc()).collect::<Vec<_>>(), true)
            .unwrap();
        let mut scan = c.scan(&ReadView::LATEST, false);
        scan.visit(1, &mut |_| true).unwrap();
        store
            .writer(crate::test_operation())
            .drop_collection(&ns("c"))
            .unwrap();
        assert_eq!(scan.visit(1, &mut |_| true).unwrap_err().code(), 175);
        assert_eq!(
            c.writer(crate::test_operation())
                .insert(&[docs[0].doc()], true)
                .unwrap_err()
                .code(),
            175
        );
        let again = collection(&store, "c");
        assert_eq!((again.count(), dump(&again, false).len()), (0, 0));
        store
            .writer(crate::test_operation())
            .drop_collection(&ns("c"))
            .unwrap();
        drop(open(&engine));
    }
}

#[test]
fn rename_keeps_everything() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(&engine);
    let c = collection(&store, "old");
    c.writer(crate::test_operation())
        .create_index(index("a_1", "a", true))
        .unwrap();
    c.writer(crate::test_operation())
        .insert(&[doc! { "_id": 1i32, "a": 1i32 }.doc()], true)
        .unwrap();
    collection(&store, "new");
    assert_eq!(
        store
            .writer(crate::test_operation())
            .rename_collection(&ns("old"), &ns("new"), false)
            .unwrap_err()
            .code(),
        48
    );
    store
        .writer(crate::test_operation())
        .rename_collection(&ns("old"), &ns("new"), true)
        .unwrap();
    assert!(store.collection(&ns("old")).unwrap().is_none());
    let c = store.collection(&ns("new")).unwrap().unwrap();
    assert_eq!((c.count(), c.indexes().len()), (1, 1));
    assert!(c.validate().unwrap().errors.is_empty());
    assert_eq!(
        store
            .writer(crate::test_operation())
            .rename_collection(&ns("nope"), &ns("x"), false)
            .unwrap_err()
            .code(),
        26
    );
}

#[test]
fn a_failed_build_leaves_nothing() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(&engine);
    let c = collection(&store, "c");
    let (d, e) = (
        doc! { "_id": 1i32, "a": 1i32 },
        doc! { "_id": 2i32, "a": 1i32 },
    );
    c.writer(crate::test_operation())
        .insert(&[d.doc(), e.doc()], true)
        .unwrap();
    assert_eq!(
        c.writer(crate::test_operation())
            .create_index(index("a_1", "a", true))
            .unwrap_err()
            .code(),
        11000
    );
    assert!(c.indexes().is_empty());
    c.writer(crate::test_operation())
        .create_index(index("a_1", "a", false))
        .unwrap();
    assert!(c.validate().unwrap().errors.is_empty());
    assert!(
        c.writer(crate::test_operation()).drop_index("a_1").unwrap()
            && !c.writer(crate::test_operation()).drop_index("a_1").unwrap()
    );
}

#[test]
fn idents_are_never_reused() {
    let engine = Arc::new(MemoryEngine::new());
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..3 {
        let store = open(&engine);
        for i in 0..5 {
            let name = format!("c{i}");
            collection(&store, &name);
            let entry = store
                .list_collections("db")
                .unwrap()
                .into_iter()
                .find(|e| e.name == name)
                .unwrap();
            assert!(
                seen.insert(entry.row.ident),
                "{} used twice",
                entry.row.ident
            );
            store
                .writer(crate::test_operation())
                .drop_collection(&ns(&name))
                .unwrap();
        }
    }
}

#[test]
fn newer_layout_is_refused_and_left_as_it_is() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(&engine);
    collection(&store, "c")
        .writer(crate::test_operation())
        .insert(&[doc! { "_id": 1i32 }.doc()], true)
        .unwrap();
    drop(store);
    let mut batch = WriteBatch::new();
    batch.put(Table::Meta, b"v", &99u32.to_be_bytes());
    engine.apply(&batch, Durability::Journaled).unwrap();
    let before = read_everything(&engine);
    let error = Store::open(engine.clone(), Arc::new(NoHooks))
        .err()
        .unwrap();
    assert_eq!(error.code(), 12);
    assert!(error.to_string().contains("99"), "{error}");
    assert_eq!(read_everything(&engine), before);
}

/// Every row of every table.
fn read_everything(engine: &MemoryEngine) -> Vec<(Table, Vec<u8>, Vec<u8>)> {
    let mut out = Vec::new();
    for table in Table::ALL {
        let mut cursor = engine
            .cursor(table, KeyRange::ALL, CursorOpts::default())
            .unwrap();
        let mut row = |key: &[u8], value: &[u8]| {
            out.push((table, key.to_vec(), value.to_vec()));
            true
        };
        while cursor.visit(100, &mut row).unwrap() {}
    }
    out
}
