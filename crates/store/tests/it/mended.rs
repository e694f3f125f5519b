//! Repair of damaged data: the test damages the rows themselves, in each way; afterwards every
//! readable document is there, everything that cannot stay was handed over, and nothing is wrong
//! any more.

use crate::{index, open};
use model::{Doc, DocBuf, Namespace, Value, doc};
use std::sync::Arc;
use storage::{CursorOpts, Durability, Engine, KeyRange, MemoryEngine, Reader, Table, WriteBatch};
use store::{Collection, DamagedRow, NoHooks, RepairReport, SalvageSink};

/// What the repair handed over and reported.
#[derive(Default)]
pub(crate) struct SalvageLog {
    documents: Vec<(String, DocBuf)>,
    /// Namespace and readable part of each row.
    rows: Vec<(String, DocBuf)>,
    lines: Vec<String>,
    /// Number of items handed over and not made durable yet.
    loose: usize,
    uuids: u8,
}

impl SalvageSink for SalvageLog {
    fn document(&mut self, ns: &Namespace, doc: Doc<'_>, _: &str) -> model::Result<()> {
        self.loose += 1;
        self.documents.push((ns.to_string(), doc.to_buf()));
        Ok(())
    }
    fn row(&mut self, row: &DamagedRow<'_>) -> model::Result<()> {
        self.loose += 1;
        let ns = row.ns.map_or_else(String::new, ToString::to_string);
        self.rows.push((ns, row.readable.to_buf()));
        Ok(())
    }
    fn keep(&mut self) -> model::Result<()> {
        self.loose = 0;
        Ok(())
    }
    fn report_defect(&mut self, line: &str) {
        self.lines.push(line.to_owned());
    }
    fn new_uuid(&mut self) -> [u8; 16] {
        self.uuids += 1;
        [self.uuids; 16]
    }
}

fn ns(name: &str) -> Namespace {
    Namespace::new("db", name).unwrap()
}

/// A store with the collection `c`: `count` documents, an index on `a` and a unique one on `u`.
fn fill_engine(count: i32) -> Arc<MemoryEngine> {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(&engine);
    let c = crate::collection(&store, "c");
    let writer = c.writer(crate::test_operation());
    writer.create_index(index("a_1", "a", false)).unwrap();
    writer.create_index(index("u_1", "u", true)).unwrap();
    let docs: Vec<DocBuf> = (0..count).map(document).collect();
    let docs: Vec<Doc<'_>> = docs.iter().map(DocBuf::doc).collect();
    writer.insert(&docs, true).unwrap();
    engine
}

fn document(n: i32) -> DocBuf {
    doc! { "_id": n, "a": [n % 7, n], "u": format!("u{n}").as_str(), "text": "some text" }
}

fn key_of(engine: &Arc<MemoryEngine>, id: i32) -> Vec<u8> {
    let store = open(engine);
    let c = store.collection(&ns("c")).unwrap().unwrap();
    let mut key = Vec::new();
    c.record_key(&Value::Int32(id), &mut key);
    key
}

fn get(engine: &MemoryEngine, table: Table, key: &[u8]) -> Vec<u8> {
    let mut value = Vec::new();
    assert!(engine.get(table, key, &mut value).unwrap());
    value
}

fn put(engine: &MemoryEngine, table: Table, key: &[u8], value: Option<&[u8]>) {
    let mut batch = WriteBatch::new();
    match value {
        Some(value) => batch.put(table, key, value),
        None => batch.delete(table, key),
    }
    engine.apply(&batch, Durability::Buffered).unwrap();
}

fn read_rows(engine: &MemoryEngine, table: Table) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    let mut cursor = engine
        .cursor(table, KeyRange::ALL, CursorOpts::default())
        .unwrap();
    let each = &mut |key: &[u8], value: &[u8]| {
        rows.push((key.to_vec(), value.to_vec()));
        true
    };
    while cursor.visit(1024, each).unwrap() {}
    rows
}

/// The key of a row of `meta` that begins with this byte.
fn meta_row(engine: &MemoryEngine, tag: u8) -> Vec<u8> {
    let rows = read_rows(engine, Table::Meta);
    rows.into_iter().find(|(key, _)| key[0] == tag).unwrap().0
}

fn repair_store(engine: &Arc<MemoryEngine>) -> (RepairReport, SalvageLog) {
    let mut apart = SalvageLog::default();
    let shared: Arc<dyn Engine> = engine.clone();
    let done = store::repair(&shared, Arc::new(NoHooks), &mut apart).unwrap();
    assert_eq!(apart.loose, 0, "taken and not kept");
    (done, apart)
}

/// Checks that nothing is wrong and that the documents are these.
fn check(engine: &Arc<MemoryEngine>, name: &str, expected: &[DocBuf]) -> Arc<Collection> {
    let (again, apart) = repair_store(engine);
    assert!(again.is_clean(), "a second repair found {:?}", apart.lines);
    let mut apart = SalvageLog::default();
    let told = store::check_catalog(engine.as_ref(), &NoHooks, &mut apart).unwrap();
    assert!(told.is_clean(), "{:?}", apart.lines);
    let told = store::check_log(engine.as_ref(), &mut apart).unwrap();
    assert!(told.is_clean(), "{:?}", apart.lines);
    let store = open(engine);
    let c = store.collection(&ns(name)).unwrap().unwrap();
    let v = c.validate().unwrap();
    assert_eq!(v.errors, Vec::<String>::new());
    let mut found = crate::dump(&c, false);
    found.sort_by(|a, b| model::compare(&a.doc().field("_id"), &b.doc().field("_id")));
    assert_eq!(found, expected);
    c
}

fn documents(of: impl IntoIterator<Item = i32>) -> Vec<DocBuf> {
    of.into_iter().map(document).collect()
}

#[test]
fn nothing_is_done_to_sound_data() {
    let engine = fill_engine(300);
    let before = Table::ALL.map(|table| read_rows(&engine, table));
    let (done, apart) = repair_store(&engine);
    assert!(
        done.is_clean() && apart.lines.is_empty(),
        "{:?}",
        apart.lines
    );
    assert_eq!((done.collections, done.documents), (1, 300));
    assert_eq!(Table::ALL.map(|table| read_rows(&engine, table)), before);
}

#[test]
fn flipped_bits_in_a_record_cost_at_most_that_document() {
    let whole = fill_engine(1);
    let length = get(&whole, Table::Doc, &key_of(&whole, 0)).len();
    let mut kept = 0;
    for at in 0..length {
        for bit in [0, 3, 6] {
            let engine = fill_engine(3);
            let key = key_of(&engine, 1);
            let mut value = get(&engine, Table::Doc, &key);
            value[at] ^= 1 << bit;
            put(&engine, Table::Doc, &key, Some(&value));
            let (done, apart) = repair_store(&engine);
            let store = open(&engine);
            let c = store.collection(&ns("c")).unwrap().unwrap();
            assert_eq!(
                c.validate().unwrap().errors,
                Vec::<String>::new(),
                "byte {at}"
            );
            let there = crate::dump(&c, false);
            for n in [0, 2] {
                assert!(
                    there.contains(&document(n)),
                    "byte {at}, bit {bit}: {n} is gone"
                );
            }
            // The damaged document is there, changed, or was handed over with its readable part.
            let apart_all = done.documents_apart + done.rows_apart;
            assert_eq!(
                there.len() as u64 + apart_all,
                3,
                "byte {at}: {:?}",
                apart.lines
            );
            kept += there.len() - 2;
            drop((c, store));
            let (again, apart) = repair_store(&engine);
            assert!(again.is_clean(), "byte {at}, bit {bit}: {:?}", apart.lines);
        }
    }
    assert!(kept > 0 && kept < length * 3, "{kept}");
}

#[test]
fn readable_parts_of_a_damaged_document_are_set_aside() {
    let engine = fill_engine(5);
    let key = key_of(&engine, 3);
    let mut value = get(&engine, Table::Doc, &key);
    // Damages the type of the last field.
    let text = value.windows(6).position(|w| w == b"\x02text\0").unwrap();
    value[text] = 0x66;
    put(&engine, Table::Doc, &key, Some(&value));
    let (done, apart) = repair_store(&engine);
    assert_eq!((done.rows_apart, done.documents), (1, 4));
    // Three entries in a_1 (0, 3 twice is one), one in u_1.
    assert!(done.entries_removed >= 2, "{done:?}");
    let readable = doc! { "_id": 3i32, "a": [3i32, 3i32], "u": "u3" };
    assert_eq!(apart.rows, [("db.c".to_owned(), readable)]);
    check(&engine, "c", &documents([0, 1, 2, 4]));
}

#[test]
fn a_damaged_header_and_a_wrong_key_are_put_right() {
    let engine = fill_engine(5);
    let key = key_of(&engine, 2);
    let mut value = get(&engine, Table::Doc, &key);
    value[0] ^= 0x20;
    put(&engine, Table::Doc, &key, Some(&value));
    // Stores another document under the key of an _id that is not its own.
    let (right, mut wrong) = (key_of(&engine, 4), key_of(&engine, 4));
    let value = get(&engine, Table::Doc, &right);
    *wrong.last_mut().unwrap() ^= 0x40;
    put(&engine, Table::Doc, &right, None);
    put(&engine, Table::Doc, &wrong, Some(&value));
    let (done, apart) = repair_store(&engine);
    assert_eq!(
        done.documents_apart + done.rows_apart,
        0,
        "{:?}",
        apart.lines
    );
    check(&engine, "c", &documents(0..5));
}

#[test]
fn entries_that_are_missing_wrong_or_too_many_are_rebuilt() {
    let engine = fill_engine(200);
    let entries = read_rows(&engine, Table::Idx);
    let (mut lost, mut changed, mut orphans) = (0, 0, 0);
    for (n, (key, value)) in entries.iter().enumerate() {
        match n % 10 {
            0 => {
                put(&engine, Table::Idx, key, None);
                lost += 1;
            }
            1 => {
                put(
                    &engine,
                    Table::Idx,
                    key,
                    Some(&[value.as_slice(), b"x"].concat()),
                );
                changed += 1;
            }
            2 => {
                let mut orphan = key.clone();
                let at = orphan.len() - 3;
                orphan[at] ^= 0x08;
                if !entries.iter().any(|(k, _)| *k == orphan) {
                    put(&engine, Table::Idx, &orphan, Some(value));
                    orphans += 1;
                }
            }
            _ => {}
        }
    }
    let store = open(&engine);
    let c = store.collection(&ns("c")).unwrap().unwrap();
    assert!(!c.validate().unwrap().errors.is_empty());
    drop((c, store));
    let (done, apart) = repair_store(&engine);
    assert_eq!(done.entries_put, lost + changed, "{:?}", apart.lines);
    assert_eq!(done.entries_removed, orphans, "{:?}", apart.lines);
    assert_eq!(done.documents_apart + done.rows_apart, 0);
    assert_eq!(read_rows(&engine, Table::Idx), entries);
    check(&engine, "c", &documents(0..200));
}

#[test]
fn counters_and_marks_are_put_right() {
    let engine = fill_engine(50);
    put(
        &engine,
        Table::Meta,
        &meta_row(&engine, b'n'),
        Some(&storage::counter_encode([7, 7])),
    );
    put(&engine, Table::Meta, &meta_row(&engine, b'm'), None);
    put(&engine, Table::Meta, b"i", Some(&[0, 0]));
    put(&engine, Table::Meta, b"v", None);
    put(&engine, Table::Meta, b"wsetting", Some(b"no document"));
    let (done, apart) = repair_store(&engine);
    assert_eq!((done.mended, done.rows_apart), (4, 1), "{:?}", apart.lines);
    check(&engine, "c", &documents(0..50));
    // New identifiers are not in use.
    let store = open(&engine);
    let other = crate::collection(&store, "other");
    other
        .writer(crate::test_operation())
        .insert(&[document(1).doc()], true)
        .unwrap();
    assert_eq!(store.collection(&ns("c")).unwrap().unwrap().count(), 50);
}

#[test]
fn a_damaged_mark_of_the_order_is_refused_and_put_right() {
    for damaged in [&[0xFF; 8][..], &[1, 2], &[]] {
        let engine = fill_engine(20);
        let store = open(&engine);
        let c = store.collection(&ns("c")).unwrap().unwrap();
        let early = doc! { "_id": -1, "a": 1, "u": "early" };
        c.writer(crate::test_operation())
            .insert(&[early.doc()], true)
            .unwrap();
        drop((c, store));
        put(
            &engine,
            Table::Meta,
            &meta_row(&engine, b'o'),
            Some(damaged),
        );
        let store = open(&engine);
        let refused = store.collection(&ns("c")).err().unwrap();
        assert_eq!(refused.code(), model::code::DATA_CORRUPTION_DETECTED);
        assert!(refused.to_string().contains("db.c"), "{refused}");
        drop(store);
        let (done, apart) = repair_store(&engine);
        assert_eq!((done.mended, done.rows_apart), (1, 0), "{:?}", apart.lines);
        let expected: Vec<DocBuf> = [early].into_iter().chain(documents(0..20)).collect();
        let c = check(&engine, "c", &expected);
        // The next document is the last one in the order of insertion.
        let late = doc! { "_id": -2, "a": 1, "u": "late" };
        c.writer(crate::test_operation())
            .insert(&[late.doc()], true)
            .unwrap();
        assert_eq!(crate::dump(&c, false).last(), Some(&late));
    }
}

#[test]
fn a_damaged_last_document_does_not_restart_the_order() {
    let engine = fill_engine(20);
    let last = key_of(&engine, 19);
    put(&engine, Table::Doc, &last, Some(&[0xFF; 12]));
    let store = open(&engine);
    let c = store.collection(&ns("c")).unwrap().unwrap();
    let next = doc! { "_id": 20, "a": 1, "u": "next" };
    c.writer(crate::test_operation())
        .insert(&[next.doc()], true)
        .unwrap();
    drop((c, store));
    let (done, apart) = repair_store(&engine);
    // Only the damaged row, the entries that led to it, and the counter: the new number was free.
    assert_eq!((done.mended, done.rows_apart), (1, 1), "{:?}", apart.lines);
    let expected: Vec<DocBuf> = documents(0..19).into_iter().chain([next]).collect();
    let c = check(&engine, "c", &expected);
    assert_eq!(crate::dump(&c, false), expected);
}

#[test]
fn a_unique_index_is_given_up_before_a_document() {
    let engine = fill_engine(10);
    // Its entry in u_1 is lost, and another document has taken the key meanwhile.
    let entries = read_rows(&engine, Table::Idx);
    let unique = entries
        .iter()
        .rfind(|(key, _)| key.windows(2).any(|w| w == b"u3"));
    put(&engine, Table::Idx, &unique.unwrap().0, None);
    let store = open(&engine);
    let c = store.collection(&ns("c")).unwrap().unwrap();
    let twin = doc! { "_id": 70i32, "a": 1i32, "u": "u3" };
    c.writer(crate::test_operation())
        .insert(&[twin.doc()], true)
        .unwrap();
    drop((c, store));
    let (done, apart) = repair_store(&engine);
    assert_eq!(
        done.documents_apart + done.rows_apart,
        0,
        "{:?}",
        apart.lines
    );
    let [(of, spec)] = apart.documents.as_slice() else {
        panic!("{:?}", apart.documents);
    };
    assert_eq!(of, "db.system.indexes");
    let spec = spec.doc().field("spec").as_doc().unwrap();
    assert_eq!(spec.field("name").as_str(), Some("u_1"));
    let mut left = documents(0..10);
    left.push(twin);
    let c = check(&engine, "c", &left);
    let names: Vec<String> = c.indexes().iter().map(|i| i.name().to_owned()).collect();
    assert_eq!(names, ["a_1"]);
}

#[test]
fn a_damaged_row_of_the_catalog_is_read_as_far_as_it_goes() {
    let sound = fill_engine(20);
    let key = meta_row(&sound, b'c');
    let length = get(&sound, Table::Meta, &key).len();
    for at in 0..length {
        let engine = fill_engine(20);
        let mut row = get(&engine, Table::Meta, &key);
        row[at] ^= 0x55;
        put(&engine, Table::Meta, &key, Some(&row));
        repair_store(&engine);
        let (again, apart) = repair_store(&engine);
        assert!(again.is_clean(), "byte {at}: {:?}", apart.lines);
        // The collection has its name, or a name for documents whose collection is unknown.
        let store = open(&engine);
        let mut found = Vec::new();
        for db in store.list_databases().unwrap() {
            for entry in store.list_collections(&db).unwrap() {
                let ns = Namespace::new(&db, &entry.name).unwrap();
                let c = store.collection(&ns).unwrap().unwrap();
                if c.is_view() {
                    continue;
                }
                assert_eq!(
                    c.validate().unwrap().errors,
                    Vec::<String>::new(),
                    "byte {at}"
                );
                found.extend(crate::dump(&c, false));
            }
        }
        found.sort_by(|a, b| model::compare(&a.doc().field("_id"), &b.doc().field("_id")));
        assert_eq!(found, documents(0..20), "byte {at}");
    }
}

#[test]
fn documents_without_a_catalog_row_are_found_again() {
    let engine = fill_engine(20);
    let key = meta_row(&engine, b'c');
    put(&engine, Table::Meta, &key, None);
    let (done, apart) = repair_store(&engine);
    // The documents have a name, and the index entries without an owner are gone.
    assert_eq!(done.documents, 20, "{:?}", apart.lines);
    let store = open(&engine);
    let names = store.list_collections("lost_and_found").unwrap();
    assert_eq!(names.len(), 1);
    let found = Namespace::new("lost_and_found", &names[0].name).unwrap();
    let c = store.collection(&found).unwrap().unwrap();
    assert_eq!(crate::dump(&c, false), documents(0..20));
    drop((c, store));
    assert!(repair_store(&engine).0.is_clean());
    assert!(read_rows(&engine, Table::Idx).is_empty());
}

#[test]
fn the_order_of_a_capped_collection_is_put_right() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(&engine);
    let options = doc! { "capped": true, "size": 100_000i32 };
    let c = store
        .writer(crate::test_operation())
        .create_collection(&ns("c"), options, [7; 16])
        .unwrap();
    let docs = documents(0..30);
    let borrowed: Vec<Doc<'_>> = docs.iter().map(DocBuf::doc).collect();
    c.writer(crate::test_operation())
        .insert(&borrowed, true)
        .unwrap();
    drop((c, store));
    let places = read_rows(&engine, Table::Cap);
    put(&engine, Table::Cap, &places[4].0, None);
    let mut orphan = places[4].0.clone();
    orphan[5] = 9;
    put(&engine, Table::Cap, &orphan, Some(&places[4].1));
    let (done, apart) = repair_store(&engine);
    assert_eq!(done.mended, 2, "{:?}", apart.lines);
    assert_eq!(read_rows(&engine, Table::Cap), places);
    let c = check(&engine, "c", &docs);
    assert_eq!(crate::dump(&c, false), docs);
}

#[test]
fn an_end_in_the_middle_can_be_gone_on_from() {
    use storage::StorageError;
    use storage::observe::{Fault, FaultInjector, ObservedEngine};
    let damaged = || {
        let engine = fill_engine(60);
        for (n, (key, _)) in read_rows(&engine, Table::Idx).iter().enumerate() {
            if n % 4 == 0 {
                put(&engine, Table::Idx, key, None);
            }
        }
        for n in [5, 25, 45] {
            let key = key_of(&engine, n);
            let mut value = get(&engine, Table::Doc, &key);
            let at = value.len() - 12;
            value[at] ^= 0x80;
            value[4] ^= 0x10;
            put(&engine, Table::Doc, &key, Some(&value));
        }
        let counter = meta_row(&engine, b'n');
        put(&engine, Table::Meta, &counter, Some(&[1, 2, 3]));
        engine
    };
    let left = documents((0..60).filter(|n| ![5, 25, 45].contains(n)));
    for after_calls in 0..80 {
        let memory = damaged();
        let engine = Arc::new(ObservedEngine::new(
            memory.clone(),
            FaultInjector::default(),
        ));
        engine.observer().plan(Some(Fault {
            after_calls,
            error: StorageError::Closed,
            lasting: true,
            work_is_done: after_calls % 2 == 0,
            writes_only: true,
        }));
        let shared: Arc<dyn Engine> = engine;
        let mut first = SalvageLog::default();
        let ended = store::repair(&shared, Arc::new(NoHooks), &mut first);
        let (_, second) = repair_store(&memory);
        // Everything removed before the interruption was handed over before.
        assert!(
            first.rows.len() + second.rows.len() >= 3,
            "after {after_calls}"
        );
        check(&memory, "c", &left);
        if ended.is_ok() {
            assert!(after_calls > 10);
            return;
        }
    }
    panic!("a repair makes more commits than were tried");
}
