//! The log by reference (ADR 0051): what is written once, what is saved, and that nothing is lost.
//! A random comparison with a log by copies is in `crates/proof`.

use crate::log::{open, try_open};
use crate::test_operation;
use model::{Doc, DocBuf, Namespace, Timestamp, Value, doc};
use std::sync::Arc;
use storage::{CursorOpts, Durability, Engine, KeyRange, MemoryEngine, Reader, Table, WriteBatch};
use store::{Change, Collection, Store, VisitResult};

const LOG_BYTES: u64 = 60_000;

/// A store, which is opened again and again.
struct Side {
    engine: Arc<MemoryEngine>,
    store: Store,
}

fn ns(name: &str) -> Namespace {
    Namespace::new("db", name).unwrap()
}

impl Side {
    fn new() -> Side {
        let engine = Arc::new(MemoryEngine::new());
        let store = open(&engine, LOG_BYTES).0;
        Side { engine, store }
    }

    fn reopen(&mut self) {
        self.store = open(&self.engine, LOG_BYTES).0;
    }

    fn collection(&self, name: &str) -> Arc<Collection> {
        let found = self.store.collection(&ns(name)).unwrap();
        found.unwrap_or_else(|| {
            let writer = self.store.writer(test_operation());
            writer
                .create_collection(&ns(name), DocBuf::new(), [9; 16])
                .unwrap()
        })
    }

    fn insert(&self, name: &str, docs: &[DocBuf]) {
        let docs: Vec<Doc<'_>> = docs.iter().map(DocBuf::doc).collect();
        let c = self.collection(name);
        c.writer(test_operation()).insert(&docs, false).unwrap();
    }

    fn modify(&self, name: &str, ids: &[i32], new: Option<&str>) {
        let c = self.collection(name);
        let keys: Vec<Vec<u8>> = ids.iter().map(|id| key(&c, *id)).collect();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        c.writer(test_operation())
            .modify_many(
                &keys,
                &mut |_, old| Ok(change_pad(old, new)),
                &mut |_, _| {},
            )
            .unwrap();
    }

    fn entries(&self, from: u64) -> Vec<DocBuf> {
        let mut reader = self.store.read_log(Timestamp::from_u64(from)).unwrap();
        let mut all = Vec::new();
        loop {
            let read = reader.visit(3, &mut |_, doc| {
                all.push(doc.to_buf());
                true
            });
            match read.unwrap() {
                VisitResult::More => {}
                VisitResult::End => return all,
                VisitResult::Lost => panic!("the log was cut meanwhile"),
            }
        }
    }

    /// Numbers of rows of references, and of saved documents.
    fn rows(&self) -> (usize, usize) {
        let mut cursor = self
            .engine
            .cursor(Table::Log, KeyRange::ALL, CursorOpts::default())
            .unwrap();
        let (mut references, mut images) = (0, 0);
        let each = &mut |key: &[u8], value: &[u8]| {
            match key.starts_with(&[0; 4]) {
                true => images += 1,
                false => references += usize::from(value.starts_with(&[1, 2])),
            }
            true
        };
        while cursor.visit(100, each).unwrap() {}
        (references, images)
    }
}

fn key(c: &Arc<Collection>, id: i32) -> Vec<u8> {
    let mut key = Vec::new();
    c.record_key(&Value::Int32(id), &mut key);
    key
}

fn change_pad(old: Doc<'_>, pad: Option<&str>) -> Change {
    match pad {
        Some(pad) => {
            let new = doc! { "_id": old.field("_id"), "pad": pad };
            Change::Replace(new.into_bytes())
        }
        None => Change::Delete,
    }
}

#[test]
fn a_document_that_is_not_changed_is_written_once() {
    let side = Side::new();
    let pad = "z".repeat(1000);
    let docs = [doc! { "_id": 1i32, "pad": pad.as_str() }];
    side.insert("a", &docs);
    assert_eq!(side.rows(), (1, 0));
    side.modify("a", &[1], Some("first"));
    assert_eq!(side.rows(), (1, 1), "its first change saves it");
    side.modify("a", &[1], Some("second"));
    side.modify("a", &[1], None);
    assert_eq!(side.rows(), (1, 1), "later ones do not");
    let all = side.entries(0);
    let inserted = all
        .iter()
        .find(|e| e.doc().field("op").as_str() == Some("i"));
    let o = inserted.and_then(|e| e.doc().field("o").as_doc().map(|o| o.to_buf()));
    assert_eq!(o.as_ref(), Some(&docs[0]));
    let counts = side.store.log().unwrap().reference_counts();
    assert_eq!((counts.made, counts.saved, counts.followed), (1, 1, 1));
}

#[test]
fn a_drop_while_documents_are_referred_to_keeps_their_entries() {
    let mut side = Side::new();
    let pad = "w".repeat(500);
    let docs: Vec<DocBuf> = (0..2000i32)
        .map(|n| doc! { "_id": n, "pad": pad.as_str() })
        .collect();
    side.insert("a", &docs[..1000]);
    side.reopen();
    side.insert("a", &docs[1000..]);
    let before = side.entries(0);
    let dropped = side
        .store
        .writer(test_operation())
        .drop_collection(&ns("a"))
        .unwrap();
    assert_eq!(dropped, Some(1));
    assert_eq!(side.rows().1, 0, "the drop itself saves nothing");
    let is_there = |entries: &[DocBuf]| entries.get(..before.len()) == Some(before.as_slice());
    assert!(is_there(&side.entries(0)));
    assert_eq!(side.store.sweep_dropped().unwrap(), 1, "the log needs them");
    side.reopen();
    assert_eq!(side.store.sweep_unowned(&|| Ok(())).unwrap(), 0);
    assert_eq!(side.store.sweep_dropped().unwrap(), 1);
    assert!(is_there(&side.entries(0)));
    let stop = || Err(model::MongoError::new(11601, "stop"));
    assert_eq!(side.store.save_references(&stop).unwrap_err().code(), 11601);
    assert!(is_there(&side.entries(0)));
    assert_eq!(side.store.save_references(&|| Ok(())).unwrap(), 1);
    assert_eq!(side.rows().1, 2000, "another call saves them");
    assert_eq!(side.store.save_references(&|| Ok(())).unwrap(), 0);
    assert_eq!(
        side.store.sweep_dropped().unwrap(),
        0,
        "the records are gone"
    );
    side.reopen();
    assert!(is_there(&side.entries(0)));
    assert!(side.store.truncate_log().unwrap());
    let (references, images) = side.rows();
    // The log is cut between rows, which have up to 128 entries.
    assert!(references < 20 && images < 128 * 3, "{references} {images}");
}

/// Its keys are in two tables.
#[test]
fn a_collection_that_was_capped_later_keeps_its_entries_when_it_is_dropped() {
    let mut side = Side::new();
    let pad = "u".repeat(500);
    let docs: Vec<DocBuf> = (0..30i32)
        .map(|n| doc! { "_id": n, "pad": pad.as_str() })
        .collect();
    side.insert("a", &docs);
    let capped = doc! { "capped": true, "size": 1_000_000i64 };
    let c = side.collection("a");
    c.writer(test_operation())
        .set_options(capped, None)
        .unwrap();
    let before = side.entries(0);
    let writer = side.store.writer(test_operation());
    writer.drop_collection(&ns("a")).unwrap();
    drop(c);
    side.reopen();
    assert_eq!(side.store.sweep_dropped().unwrap(), 2);
    assert_eq!(side.store.save_references(&|| Ok(())).unwrap(), 1);
    assert_eq!(side.store.sweep_dropped().unwrap(), 0);
    assert_eq!(side.rows().1, 30);
    side.reopen();
    assert_eq!(side.store.sweep_unowned(&|| Ok(())).unwrap(), 0);
    assert_eq!(side.entries(0).get(..before.len()), Some(before.as_slice()));
}

#[test]
fn validate_follows_references() {
    let side = Side::new();
    let pad = "v".repeat(500);
    side.insert("a", &[doc! { "_id": 1i32, "pad": pad.as_str() }]);
    let ns = Namespace::new("local", "oplog.rs").unwrap();
    let log = side.store.collection(&ns).unwrap().unwrap();
    assert_eq!(log.validate().unwrap().errors, Vec::<String>::new());
    let mut lost = WriteBatch::new();
    lost.delete(Table::Doc, &key(&side.collection("a"), 1));
    side.engine.apply(&lost, Durability::Buffered).unwrap();
    assert_eq!(log.validate().unwrap().errors.len(), 1);
}

/// Damages the last row of a new log, which must then be refused until it is repaired.
fn check_damaged(damage: fn(&mut Vec<u8>, &mut Vec<u8>)) {
    let side = Side::new();
    side.insert("a", &[doc! { "_id": 1i32 }]);
    let (mut key, mut value) = (Vec::new(), Vec::new());
    let opts = CursorOpts::default();
    let mut cursor = side.engine.cursor(Table::Log, KeyRange::ALL, opts).unwrap();
    let each = &mut |last: &[u8], row: &[u8]| {
        (key, value) = (last.to_vec(), row.to_vec());
        true
    };
    while cursor.visit(100, each).unwrap() {}
    drop(cursor);
    damage(&mut key, &mut value);
    let mut batch = WriteBatch::new();
    batch.put(Table::Log, &key, &value);
    side.engine.apply(&batch, Durability::Buffered).unwrap();
    let refused = try_open(&side.engine, LOG_BYTES);
    assert_eq!(refused.map_err(|e| e.code()), Err(301));
    let shared: Arc<dyn Engine> = side.engine.clone();
    let mut apart = crate::mended::SalvageLog::default();
    store::repair(&shared, Arc::new(store::NoHooks), &mut apart).unwrap();
    try_open(&side.engine, LOG_BYTES).unwrap();
}

/// Found by fuzzing stored rows (seed 60, input 90728): the time after it cannot be counted.
#[test]
fn a_row_with_an_impossible_time_is_refused_and_repaired() {
    check_damaged(|key, _| key[4..].fill(0xFF));
}

#[test]
fn a_row_with_impossible_totals_is_refused_and_repaired() {
    check_damaged(|_, value| value[6..22].fill(0xFF));
}
