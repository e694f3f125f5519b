//! Values restored from index entries equal those of the documents, byte for byte.

use crate::{collection, open};
use model::{
    Binary, Decimal128, Doc, DocBuf, DocWriter, Namespace, ObjectId, Regex, Timestamp, Value, doc,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use storage::{CursorOpts, Engine, KeyRange, MemoryEngine, Reader, Table};
use store::catalog::CatalogRow;
use store::{Change, Collection, KeyInterval, ReadView};

/// Writes value number `n` of a list with every kind of value, and with different values of equal
/// keys.
fn put(w: &mut DocWriter<'_>, name: &str, n: u8) {
    let decimal = |t: &str| Value::Decimal128(Decimal128::parse(t).unwrap());
    match n {
        0 => {}
        1 => _ = w.put(name, 5i32),
        2 => _ = w.put(name, 5i64),
        3 => _ = w.put(name, 5.0),
        4 => _ = w.put(name, decimal("5")),
        5 => _ = w.put(name, decimal("5.00")),
        6 => _ = w.put(name, 0.0),
        7 => _ = w.put(name, -0.0),
        8 => _ = w.put(name, 0i64),
        9 => _ = w.put(name, f64::NAN),
        10 => _ = w.put(name, f64::from_bits(0xFFF8_0000_0000_0001)),
        11 => _ = w.put(name, decimal("NaN")),
        12 => _ = w.put(name, f64::NEG_INFINITY),
        13 => _ = w.put(name, i64::MIN),
        14 => _ = w.put(name, i64::MIN as f64),
        15 => _ = w.put(name, i64::MAX),
        16 => _ = w.put(name, i64::MAX as f64),
        17 => _ = w.put(name, 1.1),
        18 => _ = w.put(name, decimal("1.1")),
        19 => _ = w.put(name, -12_345.625),
        20 => _ = w.put(name, 1e300),
        21 => _ = w.put(name, 5e-324),
        22 => _ = w.put(name, decimal("-1E-6000")),
        23 => _ = w.put(name, decimal("-0E+3")),
        24 => _ = w.put(name, Value::Null),
        25 => _ = w.put(name, Value::Undefined),
        26 => _ = w.put(name, "text\0more"),
        27 => _ = w.put(name, Value::Symbol("text\0more")),
        28 => _ = w.put(name, ObjectId([7; 12])),
        29 => _ = w.put(name, true),
        30 => _ = w.put(name, Value::Date(-1)),
        31 => _ = w.put(name, Value::Timestamp(Timestamp::from_u64(9))),
        32 => {
            let bytes = b"\0\xFF";
            w.put(name, Value::Binary(Binary { subtype: 4, bytes }));
        }
        33 => {
            let (pattern, options) = ("^a", "i");
            w.put(name, Value::Regex(Regex { pattern, options }));
        }
        34 => _ = w.put(name, Value::Code("f()")),
        35 => _ = w.put(name, Value::MinKey),
        36 => _ = w.put(name, Value::MaxKey),
        37 => _ = w.put(name, &doc! { "x": 1i64, "y": { "z": 2.0 } }),
        38 => _ = w.array(name),
        39 => _ = w.array(name).push(5i64).push(5.0),
        40 => _ = w.put(name, ""),
        _ => _ = w.put(name, i32::from(n) - 300),
    }
}

/// The numbers of values that can be an `_id`: no arrays, regular expressions and undefined values.
const ID_KINDS: [u8; 16] = [1, 3, 4, 6, 9, 13, 15, 17, 18, 24, 26, 28, 30, 32, 37, 60];

#[derive(Clone, Debug)]
struct Shape {
    id: u8,
    a: u8,
    b: u8,
    turned: bool,
}

fn shape() -> impl Strategy<Value = Shape> {
    (0..16u8, 0..45u8, 0..45u8, any::<bool>()).prop_map(|(id, a, b, turned)| Shape {
        id: ID_KINDS[id as usize],
        a,
        b,
        turned,
    })
}

fn document(s: &Shape) -> DocBuf {
    DocBuf::build(|w| {
        put(w, "_id", s.id);
        w.put("pad", "x");
        let fields = [("a", s.a), ("b", s.b)];
        let (first, second) = if s.turned { (1, 0) } else { (0, 1) };
        put(w, fields[first].0, fields[first].1);
        put(w, fields[second].0, fields[second].1);
    })
}

/// The fields of these names, in their order in the document, or all of them.
fn only(doc: Doc<'_>, names: Option<&[&str]>) -> DocBuf {
    DocBuf::build(|w| {
        let is_wanted = |name: &str| names.is_none_or(|n| n.contains(&name));
        let wanted = doc.elements().filter(|e| is_wanted(e.name_str()));
        wanted.for_each(|e| _ = w.put_element(&e));
    })
}

/// Compares the values of entries with the documents; returns how many documents had to be read.
fn compare(c: &Arc<Collection>, index: &str, names: &[&str]) -> u64 {
    compare_fields(c, index, Some(names)).unwrap_or(0)
}

/// As `compare`, for whole documents without names; `None` when the entries do not contain them.
fn compare_fields(c: &Arc<Collection>, index: &str, names: Option<&[&str]>) -> Option<u64> {
    let indexes = c.indexes();
    let index = indexes.iter().find(|i| i.name() == index).unwrap();
    let owned = names.map(|all| all.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>());
    let wanted = c.select_fields(index, owned.as_deref())?;
    let all = vec![KeyInterval {
        lower: vec![],
        upper: vec![0xFF],
    }];
    let bits = index.multikey_bits();
    let mut scan = c.scan_index(&ReadView::LATEST, index, bits, all.into(), false);
    let (mut said, mut read) = (BTreeMap::new(), 0);
    while scan
        .visit_covered(&wanted, 3, &mut read, &mut |row| {
            said.insert(row.key.to_vec(), only(row.doc, names));
            true
        })
        .unwrap()
    {
        scan.pause();
    }
    let mut there = BTreeMap::new();
    c.scan(&ReadView::LATEST, false)
        .visit(1000, &mut |row| {
            there.insert(row.key.to_vec(), only(row.doc, names));
            true
        })
        .unwrap();
    let shown = |m: BTreeMap<Vec<u8>, DocBuf>| -> Vec<(String, Vec<u8>)> {
        let one = |d: DocBuf| (d.to_string(), d.into_bytes());
        m.into_values().map(one).collect()
    };
    let (mut said, mut there) = (shown(said), shown(there));
    if index.is_sparse() || index.is_partial() {
        // The index does not have all documents.
        there.retain(|d| said.contains(d));
        said.sort();
        there.sort();
    }
    assert_eq!(said, there, "{} {names:?}", index.name());
    Some(read)
}

/// Indexes whose entries store documents, or some of their fields.
fn clustering_specs() -> [DocBuf; 5] {
    [
        doc! { "name": "whole", "key": { "b": 1i32, "a": -1i32 }, "clustering": true },
        doc! { "name": "whole_unique", "key": { "a": 1i32, "_id": 1i32 }, "unique": true,
        "clustering": true },
        doc! { "name": "whole_sparse", "key": { "b": 1i32 }, "sparse": true,
        "clustering": true },
        doc! { "name": "some", "key": { "a": 1i32 }, "clustering": ["pad", "none"] },
        doc! { "name": "some_unique", "key": { "b": 1i32, "_id": -1i32 }, "unique": true,
        "clustering": ["a"] },
    ]
}

fn compare_carried(c: &Arc<Collection>) {
    for whole in ["whole", "whole_unique", "whole_sparse"] {
        assert_eq!(compare_fields(c, whole, None), Some(0));
        assert_eq!(compare_fields(c, whole, Some(&["pad", "b"])), Some(0));
    }
    for (some, names) in [
        ("some", ["_id", "pad", "a"]),
        ("some_unique", ["a", "b", "_id"]),
    ] {
        assert_eq!(compare_fields(c, some, None), None);
        assert_eq!(compare_fields(c, some, Some(&names)), Some(0));
    }
    assert_eq!(compare_fields(c, "some", Some(&["b"])), None);
}

fn specs() -> [DocBuf; 4] {
    [
        doc! { "name": "a", "key": { "a": 1i32 } },
        doc! { "name": "ab", "key": { "a": 1i32, "b": -1i32 } },
        doc! { "name": "b_id", "key": { "b": -1i32, "_id": 1i32 } },
        doc! { "name": "all", "key": { "a": -1i32, "b": 1i32, "_id": -1i32 }, "unique": true },
    ]
}

fn compare_all(c: &Arc<Collection>) {
    for (index, names) in [
        ("a", &["a"][..]),
        ("a", &["_id", "a"]),
        ("ab", &["b"]),
        ("ab", &["a", "b"]),
        ("ab", &["_id", "a", "b"]),
        ("b_id", &["_id", "b"]),
        ("all", &["_id", "a", "b"]),
    ] {
        compare(c, index, names);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn entries_say_what_documents_have(
        docs in proptest::collection::vec(shape(), 1..20),
        changes in proptest::collection::vec(shape(), 0..20),
        built_after in any::<bool>(),
    ) {
        let store = open(&Arc::new(MemoryEngine::new()));
        let c = collection(&store, "c");
        let all = || specs().into_iter().chain(clustering_specs());
        let build = || all().try_for_each(|s| c.writer(crate::test_operation()).create_index(s));
        if !built_after {
            build().unwrap();
        }
        for d in &docs {
            // Inserts fail for some documents, which share their `_id` or have two arrays.
            let _ = c.writer(crate::test_operation()).insert(&[document(d).doc()], true);
        }
        for change in &changes {
            let (new, mut key) = (document(change), vec![]);
            c.record_key(&new.doc().field("_id"), &mut key);
            let _ = c.writer(crate::test_operation()).modify(&key, &mut |old| {
                let id = old.field("_id");
                Ok(Change::Replace(DocBuf::build(|w| {
                    w.put("_id", id);
                    new.doc().elements().skip(1).for_each(|e| _ = w.put_element(&e));
                }).into_bytes()))
            });
        }
        if built_after && build().is_err() {
            return Ok(());
        }
        compare_all(&c);
        compare_carried(&c);
        let errors = c.validate().unwrap().errors;
        prop_assert!(errors.is_empty(), "{errors:?}");
    }
}

/// Kinds of values for which the document has to be read: undefined, symbol, regular expression,
/// code, document.
#[test]
fn plain_values_need_no_document() {
    let mut read = Vec::new();
    let kinds = || (0..38).chain([40, 41]);
    for (n, id) in kinds().map(|n| (n, 1)).chain(kinds().map(|n| (n, 2))) {
        let store = open(&Arc::new(MemoryEngine::new()));
        let c = collection(&store, "c");
        c.writer(crate::test_operation())
            .create_index(specs()[0].clone())
            .unwrap();
        let doc = DocBuf::build(|w| {
            put(w, "_id", id);
            put(w, "a", n);
        });
        assert_eq!(
            c.writer(crate::test_operation())
                .insert(&[doc.doc()], true)
                .unwrap()
                .count,
            1,
            "{n}"
        );
        if compare(&c, "a", &["_id", "a"]) > 0 {
            read.push(n);
        }
    }
    assert_eq!(read, [25, 27, 33, 34, 37, 25, 27, 33, 34, 37]);
}

/// Indexes as version 3 of the layout has left them: entries without marks, catalog rows without
/// the field for them. They are used and maintained, but values are not restored from their
/// entries.
#[test]
fn indexes_of_layout_3_are_usable_but_not_covering() {
    let engine = Arc::new(MemoryEngine::new());
    let shapes: Vec<Shape> = (0..16)
        .map(|n| Shape {
            id: ID_KINDS[n],
            a: n as u8 + 1,
            b: 20 + n as u8,
            turned: n % 2 == 0,
        })
        .collect();
    {
        let c = collection(&open(&engine), "c");
        specs()
            .into_iter()
            .for_each(|s| c.writer(crate::test_operation()).create_index(s).unwrap());
        for s in &shapes {
            let _ = c
                .writer(crate::test_operation())
                .insert(&[document(s).doc()], true);
        }
    }
    let mut batch = storage::WriteBatch::new();
    let (key, mut row) = (store::format::meta::catalog("db", "c"), Vec::new());
    assert!(engine.get(Table::Meta, &key, &mut row).unwrap());
    let mut row = CatalogRow::decode(&row).unwrap();
    for index in &mut row.indexes {
        index.marked = false;
        let (lower, upper) = (index.ident.to_be_bytes(), (index.ident + 1).to_be_bytes());
        let range = KeyRange::new(&lower, &upper);
        let mut cursor = engine
            .cursor(Table::Idx, range, CursorOpts::default())
            .unwrap();
        let unique = index.spec.doc().field("unique").truthy();
        cursor
            .visit(1000, &mut |key, value| {
                // The id comes before the marks and their number.
                let marks = if unique {
                    usize::from(value[value.len() - 1]) + 1
                } else {
                    0
                };
                let old = if unique {
                    &value[..value.len() - marks]
                } else {
                    &[0][..]
                };
                batch.put(Table::Idx, key, old);
                true
            })
            .unwrap();
    }
    batch.put(Table::Meta, &key, row.encode().as_bytes());
    batch.put(Table::Meta, b"v", &3u32.to_be_bytes());
    engine.apply(&batch, storage::Durability::Buffered).unwrap();
    let store = open(&engine);
    let ns = Namespace::new("db", "c").unwrap();
    let c = store.collection(&ns).unwrap().unwrap();
    let is_clean = || assert_eq!(c.validate().unwrap().errors, Vec::<String>::new());
    is_clean();
    let names = ["a".to_owned()];
    assert!(
        c.indexes()
            .iter()
            .all(|i| c.select_fields(i, Some(&names)).is_none())
    );
    // Entries of the unique index still lead to their documents.
    let own = doc! { "_id": "other", "a": 5i64, "b": "text\0more" };
    assert_eq!(
        c.writer(crate::test_operation())
            .insert(&[own.doc()], true)
            .unwrap()
            .count,
        1
    );
    for s in &shapes {
        let mut key = vec![];
        c.record_key(&document(s).doc().field("_id"), &mut key);
        let _ = c
            .writer(crate::test_operation())
            .modify(&key, &mut |_| Ok(Change::Delete));
    }
    is_clean();
    c.writer(crate::test_operation()).drop_index("ab").unwrap();
    c.writer(crate::test_operation())
        .create_index(specs()[1].clone())
        .unwrap();
    assert_eq!(compare(&c, "ab", &["a", "b"]), 0);
    is_clean();
}
