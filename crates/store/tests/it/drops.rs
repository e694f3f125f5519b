//! Drops: how many commits a client waits for.

use crate::{collection, index, open};
use model::{Doc, DocBuf, doc};
use std::sync::Arc;
use storage::{CursorOpts, Engine, KeyRange, MemoryEngine, Reader, Table};

/// On LMDB each commit is a flush, for which a client waits.
#[test]
fn a_small_collection_is_dropped_in_two_commits() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(&engine);
    let c = collection(&store, "c");
    for name in ["a", "b"] {
        let writer = c.writer(crate::test_operation());
        writer.create_index(index(name, name, false)).unwrap();
    }
    let docs: Vec<DocBuf> = (0..50).map(|n| doc! { "_id": n, "a": n, "b": n }).collect();
    let docs: Vec<Doc<'_>> = docs.iter().map(DocBuf::doc).collect();
    c.writer(crate::test_operation())
        .insert(&docs, true)
        .unwrap();
    let before = engine.last_pos().0;
    let catalog = store.writer(crate::test_operation());
    catalog.drop_collection(c.ns()).unwrap();
    // The row of the catalog goes in the first, all keys in the second.
    assert_eq!(engine.last_pos().0 - before, 2);
    let opts = CursorOpts::default();
    for table in [Table::Doc, Table::Idx] {
        let mut cursor = engine.cursor(table, KeyRange::ALL, opts).unwrap();
        let each = &mut |_: &[u8], _: &[u8]| panic!("a key is left in {table:?}");
        cursor.visit(1, each).unwrap();
    }
}
