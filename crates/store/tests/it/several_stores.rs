//! The reads that decide a write are in one unit with it. Several stores share one engine that
//! detects conflicts: the data that decided a write is unchanged when it commits, or the write is
//! decided again. The locks of one store do not affect another.

use crate::index;
use model::{Doc, DocBuf, Namespace, Value, doc};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use storage::observe::{Call, ObservedEngine, Observer};
use storage::{Caps, MemoryEngine, StorageError, Table};
use store::{Change, Collection, NoHooks, ReadView, Store};

const STORES: i32 = 3;
const DOCUMENTS: i32 = 400;

/// The same collection in several stores.
fn collections(indexes: &[DocBuf]) -> Vec<Arc<Collection>> {
    let engine = Arc::new(MemoryEngine::new_checked());
    let ns = Namespace::new("db", "c").unwrap();
    let open = || Store::open(engine.clone(), Arc::new(NoHooks)).unwrap();
    let first = open()
        .writer(crate::test_operation())
        .create_collection(&ns, DocBuf::new(), [7; 16])
        .unwrap();
    for spec in indexes {
        first
            .writer(crate::test_operation())
            .create_index(spec.clone())
            .unwrap();
    }
    let others = (1..STORES).map(|_| open().collection(&ns).unwrap().unwrap());
    std::iter::once(first.clone()).chain(others).collect()
}

/// Runs `f` for each store on a thread of its own.
fn on_all<T: Send>(
    all: &[Arc<Collection>],
    f: impl Fn(i32, &Arc<Collection>) -> T + Sync,
) -> Vec<T> {
    std::thread::scope(|s| {
        let f = &f;
        let threads = all.iter().enumerate();
        let threads: Vec<_> = threads
            .map(|(who, c)| s.spawn(move || f(who as i32, c)))
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    })
}

fn documents(c: &Arc<Collection>) -> Vec<DocBuf> {
    let mut found = Vec::new();
    let mut scan = c.scan_keys(&ReadView::LATEST, None, None, false);
    while scan
        .visit(1000, &mut |row| {
            found.push(row.doc.to_buf());
            true
        })
        .unwrap()
    {}
    found
}

/// Inserts in chunks of this length; returns how many were refused, all as duplicates.
fn insert_all(c: &Arc<Collection>, docs: &[DocBuf], chunk: usize) -> usize {
    let mut written = 0;
    for docs in docs.chunks(chunk) {
        let docs: Vec<Doc<'_>> = docs.iter().map(DocBuf::doc).collect();
        let done = c
            .writer(crate::test_operation())
            .insert(&docs, false)
            .unwrap();
        assert!(
            done.errors.iter().all(|(_, e)| e.code() == 11000),
            "{done:?}"
        );
        assert_eq!(done.count + done.errors.len(), docs.len());
        written += done.count;
    }
    written
}

#[test]
fn an_id_is_inserted_by_one_of_them() {
    for chunk in [1, 7, 200] {
        let all = collections(&[index("a", "a", false)]);
        let written = on_all(&all, |who, c| {
            let docs: Vec<DocBuf> = (0..DOCUMENTS)
                .map(|i| doc! { "_id": i, "a": who })
                .collect();
            insert_all(c, &docs, chunk)
        });
        assert_eq!(written.iter().sum::<usize>(), DOCUMENTS as usize);
        assert_eq!(documents(&all[0]).len(), DOCUMENTS as usize);
    }
}

#[test]
fn a_unique_value_is_inserted_by_one_of_them() {
    for chunk in [1, 7, 200] {
        let all = collections(&[index("k", "k", true)]);
        let written = on_all(&all, |who, c| {
            let docs: Vec<DocBuf> = (0..DOCUMENTS)
                .map(|i| doc! { "_id": i * STORES + who, "k": i })
                .collect();
            insert_all(c, &docs, chunk)
        });
        assert_eq!(written.iter().sum::<usize>(), DOCUMENTS as usize);
        let found = documents(&all[1]);
        let values: BTreeMap<i64, usize> = found
            .iter()
            .filter_map(|d| d.doc().field("k").as_i64_exact())
            .map(|k| (k, 1))
            .collect();
        assert_eq!(
            (found.len(), values.len()),
            (DOCUMENTS as usize, DOCUMENTS as usize)
        );
    }
}

#[test]
fn no_change_of_another_store_is_lost() {
    let all = collections(&[index("n", "n", true)]);
    let first = doc! { "_id": 1i32, "n": 0i32 };
    all[0]
        .writer(crate::test_operation())
        .insert(&[first.doc()], true)
        .unwrap();
    on_all(&all, |_, c| {
        let mut key = Vec::new();
        c.record_key(&Value::Int32(1), &mut key);
        for _ in 0..DOCUMENTS {
            let add = &mut |old: Doc<'_>| {
                let n = old.field("n").as_i64_exact().unwrap_or(0) as i32 + 1;
                Ok(Change::Replace(doc! { "_id": 1i32, "n": n }.into_bytes()))
            };
            c.writer(crate::test_operation()).modify(&key, add).unwrap();
        }
    });
    let found = documents(&all[0]);
    assert_eq!(found.len(), 1);
    assert_eq!(
        found[0].doc().field("n").as_i64_exact(),
        Some(i64::from(STORES * DOCUMENTS))
    );
    // Each document has its entry once, and each store sees the current state.
    let entries = all[2].validate().unwrap().index_entries;
    assert_eq!(entries, [("n".to_owned(), 1)]);
}

/// Counts reads of index entries by keys.
#[derive(Default)]
struct EntryReads(AtomicUsize);

impl Observer for EntryReads {
    fn before_call(&self, call: &Call<'_>, _: &Caps) -> Result<(), StorageError> {
        let (Call::Get { table, .. } | Call::MultiGet { table, .. }) = call else {
            return Ok(());
        };
        if *table == Table::Idx {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

#[test]
fn the_unique_entries_of_a_chunk_are_looked_up_in_one_call() {
    let engine = Arc::new(ObservedEngine::new(
        Arc::new(MemoryEngine::new()),
        EntryReads::default(),
    ));
    let store = Store::open(engine.clone(), Arc::new(NoHooks)).unwrap();
    let c = crate::collection(&store, "c");
    c.writer(crate::test_operation())
        .create_index(index("a", "a", true))
        .unwrap();
    c.writer(crate::test_operation())
        .create_index(index("b", "b", true))
        .unwrap();
    let insert = |from: i32, a: i32| {
        let docs: Vec<DocBuf> = (from..from + 100)
            .map(|i| doc! { "_id": i, "a": if i == from + 50 { a } else { i }, "b": [i, -i - 1] })
            .collect();
        let docs: Vec<Doc<'_>> = docs.iter().map(DocBuf::doc).collect();
        let before = engine.observer().0.load(Ordering::Relaxed);
        let done = c
            .writer(crate::test_operation())
            .insert(&docs, false)
            .unwrap();
        let refused: Vec<usize> = done.errors.iter().map(|(n, _)| *n).collect();
        (
            refused,
            engine.observer().0.load(Ordering::Relaxed) - before,
        )
    };
    assert_eq!(insert(0, 50), (vec![], 1));
    // One key is in the collection, one belongs to another document of the same chunk.
    assert_eq!(insert(1000, 7), (vec![50], 1));
    assert_eq!(insert(2000, 2003), (vec![50], 1));
}
