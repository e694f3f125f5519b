//! Unique builds while documents that share a key are changed; hashed entries of missing fields.

use crate::{collection, index};
use model::{DocBuf, Value, doc};
use std::cell::Cell;
use std::sync::Arc;
use storage::MemoryEngine;
use store::{Change, NoHooks, Store};

/// Document 99 shares its key with document 0. It is changed or deleted when the build has put the
/// entry of 0, or is about to, and not yet that of 99; this is repeated for each step of the build.
fn change_of_a_later_duplicate(change: fn() -> Change) {
    for step in 1..5 {
        let store = Store::open(Arc::new(MemoryEngine::new()), Arc::new(NoHooks)).unwrap();
        let c = collection(&store, "x");
        let docs: Vec<DocBuf> = (0..100i32)
            .map(|n| doc! { "_id": n, "k": if n == 99 { 0i32 } else { n } })
            .collect();
        let views: Vec<_> = docs.iter().map(|d| d.doc()).collect();
        assert_eq!(
            c.writer(crate::test_operation())
                .insert(&views, true)
                .unwrap()
                .count,
            100
        );
        let steps = Cell::new(0);
        let go_on = || {
            steps.set(steps.get() + 1);
            if steps.get() == step {
                let mut key = vec![];
                c.record_key(&Value::Int32(99), &mut key);
                c.writer(crate::test_operation())
                    .modify(&key, &mut |_| Ok(change()))
                    .unwrap();
            }
            Ok(())
        };
        let same = |_: model::Doc<'_>| Ok(false);
        let built = c.writer(crate::test_operation()).create_index_unless(
            index("k", "k", true),
            &same,
            &go_on,
        );
        if steps.get() < step {
            assert_eq!(built.map_err(|e| e.code()), Err(11000), "step {step}");
            continue;
        }
        built.unwrap();
        assert_eq!(c.validate().unwrap().errors, Vec::<String>::new());
        assert_eq!(
            c.writer(crate::test_operation())
                .insert(&[doc! { "_id": 500i32, "k": 0i32 }.doc()], true)
                .unwrap()
                .count,
            0
        );
    }
}

#[test]
fn updating_a_later_duplicate_keeps_the_entry_of_the_first() {
    change_of_a_later_duplicate(|| {
        Change::Replace(doc! { "_id": 99i32, "k": 1000i32 }.into_bytes())
    });
}

#[test]
fn deleting_a_later_duplicate_keeps_the_entry_of_the_first() {
    change_of_a_later_duplicate(|| Change::Delete);
}

#[test]
fn hashed_entries_of_missing_fields_are_found_as_null() {
    let spec = doc! { "key": { "a": "hashed" }, "name": "a" };
    let i = store::Index::open(1, spec, true, 0, &NoHooks).unwrap();
    let (mut set, mut null) = (store::index::KeySet::default(), vec![]);
    i.keys_of(doc! { "b": 1i32 }.doc(), &mut set).unwrap();
    i.encode_bound(0, &Value::Null, &mut null);
    assert!(set.contains(&null));
}

/// An entry that is gathered before its document changes, and written afterwards, stays only if the
/// document still has it; a document that takes a unique key meanwhile keeps it.
#[test]
fn changes_during_an_index_build_are_kept() {
    for (step, unique) in (1..5).flat_map(|s| [(s, false), (s, true)]) {
        let store = Store::open(Arc::new(MemoryEngine::new()), Arc::new(NoHooks)).unwrap();
        let c = collection(&store, "x");
        let docs: Vec<DocBuf> = (0..10i32)
            .map(|n| doc! { "_id": n, "k": [n * 2, n * 2 + 1] })
            .collect();
        let views: Vec<_> = docs.iter().map(|d| d.doc()).collect();
        c.writer(crate::test_operation())
            .insert(&views, true)
            .unwrap();
        let change = |id: i32, new: Option<DocBuf>| {
            let mut key = vec![];
            c.record_key(&Value::Int32(id), &mut key);
            let change = |_: model::Doc<'_>| match &new {
                Some(new) => Change::Replace(new.as_bytes().to_vec()),
                None => Change::Delete,
            };
            c.writer(crate::test_operation())
                .modify(&key, &mut |old| Ok(change(old)))
                .unwrap();
        };
        let insert = |d: DocBuf| {
            let done = c
                .writer(crate::test_operation())
                .insert(&[d.doc()], true)
                .unwrap();
            assert_eq!(done.count, 1, "{:?}", done.errors);
        };
        let steps = Cell::new(0);
        let go_on = || {
            steps.set(steps.get() + 1);
            if steps.get() == step {
                change(1, None);
                change(2, Some(doc! { "_id": 2i32, "k": [5i32, 100i32] }));
                change(3, None);
                insert(doc! { "_id": 3i32, "k": [7i32, 101i32] });
                // One key of a deleted document, and one that its document has no longer.
                insert(doc! { "_id": 20i32, "k": [2i32, 4i32, 6i32] });
            }
            Ok(())
        };
        let same = |_: model::Doc<'_>| Ok(false);
        c.writer(crate::test_operation())
            .create_index_unless(index("k", "k", unique), &same, &go_on)
            .unwrap();
        if steps.get() >= step {
            assert_eq!(c.validate().unwrap().errors, Vec::<String>::new(), "{step}");
        }
    }
}
