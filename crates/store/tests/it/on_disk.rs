//! The encoder writes the bytes of the examples in `docs/on-disk.md`.

use model::{Value, doc};
use store::format::keys::encode;

#[test]
fn documented_components_are_the_encoders() {
    let text = std::fs::read_to_string("../../docs/on-disk.md").unwrap();
    let (_, examples) = text.split_once("## Examples").unwrap();
    let a = doc! { "a": 1i32 };
    let values: &[(&str, Value<'_>)] = &[
        ("int 5", Value::Int32(5)),
        ("long -1", Value::Int64(-1)),
        ("double 1.5", Value::Double(1.5)),
        ("string \"ab\"", Value::String("ab")),
        ("{a: 1}", Value::Document(a.doc())),
        ("ascending null", Value::Null),
        ("date 0", Value::Date(0)),
    ];
    for (name, v) in values {
        let row = examples
            .lines()
            .find(|l| l.starts_with(&format!("| {name} |")))
            .unwrap_or_else(|| panic!("no row {name}"));
        let documented = row.rsplit('|').nth(1).unwrap().trim().to_owned();
        let mut out = Vec::new();
        encode(v, None, &mut out);
        let hex: Vec<String> = out.iter().map(|b| format!("{b:02X}")).collect();
        assert_eq!(documented, hex.join(" "), "{name}");
    }
}

#[test]
fn documented_session_rows_are_the_stores() {
    use storage::{MemoryEngine, Reader, Table};
    let text = std::fs::read_to_string("../../docs/on-disk.md").unwrap();
    let documented = |name: &str| {
        let row = text
            .lines()
            .find(|l| l.starts_with(&format!("| {name} |")))
            .unwrap_or_else(|| panic!("no row {name}"));
        let hex = row.rsplit('|').nth(1).unwrap().trim();
        hex.split(' ')
            .map(|b| u8::from_str_radix(b, 16).unwrap())
            .collect::<Vec<u8>>()
    };
    let engine = std::sync::Arc::new(MemoryEngine::new());
    let store = crate::open(&engine);
    let c = crate::collection(&store, "c");
    let mut record = store::SessionRecord::new([7; 16]);
    assert_eq!(
        store.begin_retryable(&mut record, 300).unwrap(),
        store::NumberOrder::New
    );
    let key = documented("key of session 07 07 ...");
    let (one, two) = (doc! { "_id": 1i32 }, doc! { "_id": 2i32 });
    let mut log = store::StatementLog {
        record: &mut record,
        ids: &[0, 1],
        keep: store::RetryImage::Fact,
    };
    assert_eq!(
        c.writer(crate::test_operation())
            .insert_logged(&[one.doc(), two.doc()], true, Some(&mut log))
            .unwrap()
            .count,
        2
    );
    let mut value = vec![];
    assert!(engine.get(Table::Meta, &key, &mut value).unwrap());
    assert_eq!(value, documented("txnNumber 300, two documents inserted"));
    let mut log = store::StatementLog {
        record: &mut record,
        ids: &[5],
        keep: store::RetryImage::Fact,
    };
    let mut row = vec![];
    c.record_key(&Value::Int32(1), &mut row);
    c.writer(crate::test_operation())
        .modify_logged(&row, &mut |_| Ok(store::Change::Delete), Some(&mut log))
        .unwrap();
    engine.get(Table::Meta, &key, &mut value).unwrap();
    assert_eq!(value, documented("the same, then statement 5 deleted"));
    assert_eq!(record.find(5), Some(&store::Effect::Deleted));
}

#[test]
fn documented_rows_of_buckets_are_the_stores() {
    use storage::{MemoryEngine, Reader, Table};
    let text = std::fs::read_to_string("../../docs/on-disk.md").unwrap();
    let documented = |name: &str| {
        let row = text
            .lines()
            .find(|l| l.starts_with(&format!("| {name} |")))
            .unwrap_or_else(|| panic!("no row {name}"));
        let hex = row.rsplit('|').nth(1).unwrap().trim();
        hex.split(' ')
            .map(|b| u8::from_str_radix(b, 16).unwrap())
            .collect::<Vec<u8>>()
    };
    let engine = std::sync::Arc::new(MemoryEngine::new());
    let store = crate::open(&engine);
    let ns = model::Namespace::new("db", "s").unwrap();
    let options = doc! { "timeseries": { "timeField": "t", "metaField": "m",
    "granularity": "seconds", "bucketMaxSpanSeconds": 3600i32 } };
    let c = store
        .writer(crate::test_operation())
        .create_collection(&ns, options, [7; 16])
        .unwrap();
    let measured = doc! { "t": Value::Date(0), "m": "x", "_id": 1i32 };
    c.writer(crate::test_operation())
        .insert(&[measured.doc()], true)
        .unwrap();
    let mut key = Vec::new();
    c.record_key(&Value::Null, &mut key);
    key.truncate(4);
    key.extend(documented("key of the bucket"));
    let mut value = Vec::new();
    assert!(engine.get(Table::Doc, &key, &mut value).unwrap());
    assert_eq!(value, documented("head, open, metadata \"x\""));
}
