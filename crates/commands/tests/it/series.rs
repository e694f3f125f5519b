//! Time-series collections, as tools see them: the listed options are accepted by create, and
//! buckets are read and restored under `system.buckets.NAME`.

use crate::aggregation::{ask, ask_on, batch, code, read_batch};
use crate::protocol::service;
use commands::Dispatcher;
use model::{Doc, DocBuf, Value, extjson};
use std::sync::Arc;

const HOUR: i64 = 3_600_000;

fn entry(s: &Arc<Dispatcher>, name: &str) -> DocBuf {
    let filter = format!(r#"{{"listCollections": 1, "filter": {{"name": "{name}"}}}}"#);
    let reply = ask(s, &filter);
    let cursor = reply.doc().field("cursor").as_doc().unwrap();
    let batch = cursor.field("firstBatch").as_array().unwrap();
    batch.get(0).unwrap().as_doc().unwrap().to_buf()
}

fn documents(s: &Arc<Dispatcher>, command: &str) -> Vec<DocBuf> {
    let reply = ask(s, command);
    let cursor = reply.doc().field("cursor").as_doc().unwrap();
    let batch = cursor.field("firstBatch").as_array().unwrap();
    batch.iter().map(|v| v.as_doc().unwrap().to_buf()).collect()
}

fn json(d: Doc<'_>) -> String {
    extjson::from_document(d, extjson::Mode::Canonical).to_string()
}

fn at(ms: i64) -> String {
    format!(r#"{{"$date": {{"$numberLong": "{ms}"}}}}"#)
}

/// Measurements of two sensors for three hours; their `_id` values are numbers.
fn fill(s: &Arc<Dispatcher>, coll: &str) {
    let docs: Vec<String> = (0..300)
        .map(|i| {
            let sensor = i % 2;
            let time = at(1_700_000_000_000 + i * 36_000);
            format!(
                r#"{{"_id": {i}, "t": {time}, "m": {{"sensor": {sensor}}}, "v": {}.5,
                    "n": {{"a": {i}}}}}"#,
                i % 10
            )
        })
        .collect();
    let insert = format!(
        r#"{{"insert": "{coll}", "documents": [{}]}}"#,
        docs.join(",")
    );
    assert_eq!(code(s, &insert), 0);
}

fn create(s: &Arc<Dispatcher>, coll: &str) {
    let options = r#""timeseries": {"timeField": "t", "metaField": "m"}"#;
    assert_eq!(code(s, &format!(r#"{{"create": "{coll}", {options}}}"#)), 0);
}

#[test]
fn the_options_printed_are_accepted() {
    let s = service();
    let forms = [
        r#""timeseries": {"timeField": "t"}"#,
        r#""timeseries": {"timeField": "t", "metaField": "m", "granularity": "minutes"}"#,
        r#""timeseries": {"timeField": "t", "granularity": "hours"}, "expireAfterSeconds": 3600"#,
        r#""timeseries": {"timeField": "t", "bucketMaxSpanSeconds": 600,
            "bucketRoundingSeconds": 600}"#,
    ];
    for form in forms {
        assert_eq!(code(&s, &format!(r#"{{"create": "c", {form}}}"#)), 0);
        let printed = entry(&s, "c");
        let options = printed.doc().field("options").as_doc().unwrap().to_buf();
        let again = |name: &str, options: &DocBuf| {
            let command = DocBuf::build(|w| _ = w.put("create", name).put_all(options.doc()));
            assert_eq!(code(&s, &json(command.doc())), 0, "{}", json(command.doc()));
        };
        again("copy", &options);
        assert_eq!(
            entry(&s, "copy").doc().field("options").as_doc(),
            printed.doc().field("options").as_doc()
        );
        // The listed options of the buckets create the collection as well.
        let buckets = entry(&s, "system.buckets.c");
        let shown = buckets.doc().field("options").as_doc().unwrap().to_buf();
        assert_eq!(buckets.doc().field("type").as_str(), Some("collection"));
        assert_eq!(shown.doc().field("clusteredIndex").as_bool(), Some(true));
        again("system.buckets.third", &shown);
        assert_eq!(
            entry(&s, "third").doc().field("options").as_doc(),
            printed.doc().field("options").as_doc()
        );
        for coll in ["c", "copy", "third"] {
            assert_eq!(code(&s, &format!(r#"{{"drop": "{coll}"}}"#)), 0);
        }
    }
    // A span that differs from the granularity's is refused.
    let other = r#"{"create": "c", "timeseries": {"timeField": "t", "granularity": "hours",
        "bucketMaxSpanSeconds": 3600}}"#;
    assert_eq!(code(&s, other), 72);
}

#[test]
fn buckets_are_shown_and_restored() {
    let s = service();
    create(&s, "c");
    fill(&s, "c");
    let buckets = documents(&s, r#"{"find": "system.buckets.c", "batchSize": 1000}"#);
    assert!(buckets.len() >= 6, "{}", buckets.len());
    for b in &buckets {
        let (b, part) = (b.doc(), |name: &str| b.doc().field(name).as_doc().unwrap());
        assert!(matches!(b.field("_id"), Value::ObjectId(_)));
        assert_eq!(
            part("control").field("version").as_i64_exact(),
            Some(i64::from(1))
        );
        let limits = |name: &str| part("control").field(name).as_doc().unwrap().to_buf();
        let (min, max) = (limits("min"), limits("max"));
        assert!(part("meta").contains("sensor") && !min.doc().contains("m"));
        for (name, column) in part("data").iter() {
            for (_, v) in column.as_doc().unwrap().iter().filter(|_| name != "n") {
                assert!(model::compare(&min.doc().field(name), &v).is_le());
                assert!(model::compare(&max.doc().field(name), &v).is_ge());
            }
        }
    }
    // The buckets are counted and read in every way.
    let number = i32::try_from(buckets.len()).unwrap();
    let counted = ask(&s, r#"{"count": "system.buckets.c"}"#);
    assert_eq!(
        counted.doc().field("n").as_i64_exact(),
        Some(i64::from(number))
    );
    let grouped = documents(
        &s,
        r#"{"aggregate": "system.buckets.c", "pipeline": [{"$match": {"meta.sensor": 1}},
            {"$count": "n"}], "cursor": {}}"#,
    );
    assert!(grouped[0].doc().field("n").as_i64_exact().unwrap() < i64::from(number));

    create(&s, "d");
    let list: Vec<String> = buckets.iter().map(|b| json(b.doc())).collect();
    let restore = format!(
        r#"{{"insert": "system.buckets.d", "documents": [{}], "bypassDocumentValidation": true}}"#,
        list.join(",")
    );
    let reply = ask(&s, &restore);
    assert_eq!(
        reply.doc().field("n").as_i64_exact(),
        Some(i64::from(number))
    );
    let all = |coll: &str| read_batch(&s, &format!(r#"{{"find": "{coll}", "batchSize": 1000}}"#));
    assert_eq!(all("c").len(), 300);
    assert_eq!(all("c"), all("d"));
    assert_eq!(
        documents(&s, r#"{"find": "system.buckets.d", "batchSize": 1000}"#).len(),
        buckets.len()
    );
}

#[test]
fn compressed_buckets_are_restored() {
    let s = service();
    create(&s, "c");
    // Three times at intervals of a second (a second difference, then two zeros), and ints 7, 8,
    // missing.
    let column = |bytes: &[u8]| {
        DocBuf::build(|w| {
            w.put("", model::Binary { subtype: 7, bytes });
        })
    };
    let word = |n: u64| n.to_le_bytes();
    let time = [
        &[9, 0][..],
        &5000i64.to_le_bytes(),
        &[0x80],
        &word(13 | 2000 << 4),
        &[0],
    ]
    .concat();
    let none = (1u64 << 30) - 1;
    let int = [
        &[0x10, 0, 7, 0, 0, 0, 0x80][..],
        &word(13 | 2 << 4 | none << 34),
        &[0],
    ]
    .concat();
    let (time, int) = (column(&time), column(&int));
    let bucket = model::doc! {
        "_id": model::ObjectId([0; 12]),
        "control": { "version": 2i32, "min": {}, "max": {}, "count": 3i32 },
        "meta": "x",
        "data": { "t": time.doc().field(""), "v": int.doc().field("") }
    };
    let restore = |b: &DocBuf| {
        let insert = format!(
            r#"{{"insert": "system.buckets.c", "documents": [{}]}}"#,
            json(b.doc())
        );
        code(&s, &insert)
    };
    assert_eq!(restore(&bucket), 0);
    let rows = documents(&s, r#"{"find": "c"}"#);
    let wanted = [
        model::doc! { "t": Value::Date(5000), "m": "x", "v": 7i32 },
        model::doc! { "t": Value::Date(6000), "m": "x", "v": 8i32 },
        model::doc! { "t": Value::Date(7000), "m": "x" },
    ];
    let plain: Vec<DocBuf> = rows
        .iter()
        .map(|d| {
            DocBuf::build(|w| {
                for e in d.doc().elements().filter(|e| e.name != b"_id") {
                    w.put_element(&e);
                }
            })
        })
        .collect();
    assert_eq!(plain, wanted);
    // A document that is not a bucket is refused and leaves no data.
    assert_eq!(restore(&model::doc! { "_id": 1i32, "v": 1i32 }), 2);
    assert_eq!(documents(&s, r#"{"find": "c"}"#).len(), 3);
}

#[test]
fn the_index_of_metadata_and_time_is_there_already() {
    let s = service();
    create(&s, "c");
    let again = r#"{"createIndexes": "c", "indexes": [{"key": {"m": 1, "t": 1},
        "name": "m_1_t_1"}]}"#;
    let reply = ask(&s, again);
    assert_eq!(
        reply.doc().field("note").as_str(),
        Some("all indexes already exist")
    );
    let names = crate::aggregation::names(&ask(&s, r#"{"listIndexes": "c"}"#));
    assert_eq!(names, ["m_1_t_1"]);
}

#[test]
fn buckets_are_unpacked_by_a_stage() {
    let s = service();
    create(&s, "c");
    fill(&s, "c");
    let unpacked = read_batch(
        &s,
        r#"{"aggregate": "system.buckets.c", "pipeline": [{"$_internalUnpackBucket":
            {"timeField": "t", "metaField": "m", "bucketMaxSpanSeconds": 3600}}],
            "cursor": {"batchSize": 1000}}"#,
    );
    assert_eq!(
        unpacked,
        read_batch(&s, r#"{"find": "c", "batchSize": 1000}"#)
    );
    let only = r#"{"aggregate": "system.buckets.c", "pipeline": [{"$_internalUnpackBucket":
        {"timeField": "t", "metaField": "m", "include": ["v"]}}, {"$limit": 1}], "cursor": {}}"#;
    assert_eq!(read_batch(&s, only), ["{ v: 0.5 }"]);
}

#[test]
fn one_id_may_come_twice() {
    let s = service();
    create(&s, "c");
    let one = format!(r#"{{"_id": 1, "t": {}, "m": 1}}"#, at(5000));
    let insert = format!(r#"{{"insert": "c", "documents": [{one}, {one}]}}"#);
    assert_eq!(code(&s, &insert), 0);
    assert_eq!(code(&s, &insert), 0);
    assert_eq!(
        read_batch(&s, r#"{"find": "c", "filter": {"_id": 1}}"#).len(),
        4
    );
    let delete = r#"{"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 1}]}"#;
    assert_eq!(code(&s, delete), 0);
    let count = ask(&s, r#"{"count": "c", "query": {"_id": 1}}"#);
    assert_eq!(count.doc().field("n").as_i64_exact(), Some(i64::from(3)));
}

#[test]
fn reads_unpack_the_buckets_they_need() {
    let s = service();
    create(&s, "c");
    fill(&s, "c");
    assert_eq!(code(&s, r#"{"compact": "c"}"#), 0);
    let stats = ask(&s, r#"{"collStats": "c"}"#);
    let metrics = stats.doc().field("timeseries").as_doc().unwrap().to_buf();
    let metric = |name: &str| metrics.doc().field(name).as_i64_exact().unwrap();
    let buckets = metric("bucketCount");
    let listed = documents(&s, r#"{"find": "system.buckets.c", "batchSize": 1000}"#);
    assert_eq!(buckets, listed.len() as i64);
    assert_eq!(metric("numMeasurementsCommitted"), 300);
    assert_eq!(metric("numBucketInserts"), buckets);
    assert!(metric("avgBucketSize") > 0);
    let explain = |filter: &str| {
        let command = format!(
            r#"{{"explain": {{"find": "c", "filter": {filter}}}, "verbosity": "executionStats"}}"#
        );
        let reply = ask(&s, &command);
        let stats = reply.doc().field("executionStats").as_doc().unwrap();
        let stages = stats.field("executionStages").as_doc().unwrap();
        let n = |name: &str| stages.field(name).as_i64_exact().unwrap_or(-1);
        let returned = stats.field("nReturned").as_i64_exact().unwrap();
        let stage = stages.field("stage").as_str().unwrap().to_owned();
        (stage, returned, n("bucketsUnpacked"))
    };
    assert_eq!(explain("{}"), ("COLLSCAN".to_owned(), 300, buckets));
    // An hour of both sensors: the buckets that begin in it, and those that extend into it.
    let from = 1_700_000_000_000 + HOUR;
    let hour = format!(
        r#"{{"t": {{"$gte": {}, "$lt": {}}}}}"#,
        at(from),
        at(from + 360_000)
    );
    let (stage, returned, unpacked) = explain(&hour);
    assert_eq!((stage.as_str(), returned), ("COLLSCAN", 10));
    assert!(unpacked <= 4, "{unpacked}");
    let sensor = r#"{"m": {"sensor": 1}}"#;
    let (stage, returned, unpacked) = explain(sensor);
    assert_eq!(
        (stage.as_str(), returned, unpacked),
        ("FETCH", 150, buckets / 2)
    );
    let valid = ask(&s, r#"{"validate": "c"}"#);
    assert_eq!(valid.doc().field("valid").as_bool(), Some(true));
}

#[test]
fn metadata_is_changed_and_measurements_are_deleted() {
    let s = service();
    create(&s, "c");
    fill(&s, "c");
    let update = r#"{"update": "c", "updates": [{"q": {"m.sensor": 1},
        "u": {"$set": {"m.sensor": 7}}, "multi": true}]}"#;
    let reply = ask(&s, update);
    assert_eq!(
        reply.doc().field("nModified").as_i64_exact(),
        Some(i64::from(150))
    );
    let again = r#"{"update": "c", "updates": [{"q": {}, "u": {"$inc": {"m.sensor": 1}},
        "multi": true}]}"#;
    assert_eq!(
        ask(&s, again).doc().field("nModified").as_i64_exact(),
        Some(i64::from(300))
    );
    let distinct = ask(&s, r#"{"distinct": "c", "key": "m.sensor"}"#);
    assert_eq!(
        format!("{:?}", distinct.doc().field("values")),
        "Array([ 1, 8 ])"
    );
    let delete = r#"{"delete": "c", "deletes": [{"q": {"m.sensor": 8}, "limit": 0}]}"#;
    assert_eq!(
        ask(&s, delete).doc().field("n").as_i64_exact(),
        Some(i64::from(150))
    );
    let valid = ask(&s, r#"{"validate": "c"}"#);
    assert_eq!(valid.doc().field("valid").as_bool(), Some(true));
    assert_eq!(
        read_batch(&s, r#"{"find": "c", "batchSize": 1000}"#).len(),
        150
    );
}

#[test]
fn uses_are_listed_of_the_index_of_metadata_and_time_alone() {
    let s = service();
    create(&s, "c");
    let stats = r#"{"aggregate": "c", "pipeline": [{"$indexStats": {}}], "cursor": {}}"#;
    let listed = documents(&s, stats);
    let names: Vec<_> = listed.iter().map(|d| d.doc().field("name")).collect();
    assert!(matches!(names[..], [Value::String("m_1_t_1")]), "{names:?}");
}

#[test]
fn raw_data_is_buckets() {
    let s = service();
    create(&s, "c");
    fill(&s, "c");
    let listed = documents(&s, r#"{"find": "system.buckets.c", "batchSize": 1000}"#);
    let raw = documents(&s, r#"{"find": "c", "rawData": true, "batchSize": 1000}"#);
    assert_eq!(raw, listed);
    assert!(raw.iter().all(|b| b.doc().contains("control")));
    let off = documents(&s, r#"{"find": "c", "rawData": false, "batchSize": 1000}"#);
    assert_eq!(off.len(), 300);
    let n = |command: &str| ask(&s, command).doc().field("n").as_i64_exact();
    let buckets = Some(listed.len() as i64);
    assert_eq!(n(r#"{"count": "c", "rawData": true}"#), buckets);
    let metas = ask(
        &s,
        r#"{"distinct": "c", "key": "meta.sensor", "rawData": true}"#,
    );
    let metas = metas.doc().field("values").as_array().unwrap();
    assert_eq!(metas.len(), 2);
    let counted = documents(
        &s,
        r#"{"aggregate": "c", "pipeline": [{"$group": {"_id": "$meta.sensor"}}], "cursor": {},
            "rawData": true}"#,
    );
    assert_eq!(counted.len(), 2);
    // A bucket that was read can be inserted into another collection under its name.
    create(&s, "copy");
    for bucket in &raw {
        let insert = DocBuf::build(|w| {
            w.put("insert", "copy").put("rawData", true);
            w.array("documents").push(bucket);
        });
        assert_eq!(code(&s, &json(insert.doc())), 0);
    }
    assert_eq!(n(r#"{"count": "copy"}"#), Some(300));
    // Buckets cannot be changed individually, and such commands fail.
    for write in [
        r#"{"delete": "c", "deletes": [{"q": {}, "limit": 0}], "rawData": true}"#,
        r#"{"delete": "system.buckets.c", "deletes": [{"q": {}, "limit": 0}]}"#,
        r#"{"update": "c", "updates": [{"q": {}, "u": {"$set": {"meta": 1}}, "upsert": true}],
            "rawData": true}"#,
        r#"{"update": "system.buckets.c", "updates": [{"q": {}, "u": {"$set": {"meta": 1}},
            "upsert": true}]}"#,
        r#"{"findAndModify": "c", "query": {}, "remove": true, "rawData": true}"#,
        // Commands on which the option would have no effect refuse it.
        r#"{"listIndexes": "c", "rawData": true}"#,
        r#"{"createIndexes": "c", "indexes": [{"key": {"meta": 1}, "name": "m"}],
            "rawData": true}"#,
    ] {
        let reply = ask(&s, write);
        let first = reply.doc().field("writeErrors").as_array();
        let first = first.and_then(|e| e.get(0)?.as_doc()?.field("code").as_i64_exact());
        let whole = reply.doc().field("code").as_i64_exact();
        assert_eq!(first.or(whole), Some(20), "{write} {reply:?}");
    }
    let bulk = r#"{"bulkWrite": 1, "ops": [{"delete": 0, "filter": {}}], "rawData": true,
        "nsInfo": [{"ns": "db.c"}]}"#;
    let reply = ask_on(&s, "admin", bulk);
    let first = batch(&reply)[0].doc().field("code").as_i64_exact();
    assert_eq!(first, Some(20), "{reply:?}");
    assert_eq!(n(r#"{"count": "c"}"#), Some(300));
    // For any other collection, the option has no effect.
    assert_eq!(
        code(
            &s,
            r#"{"insert": "p", "documents": [{"_id": 1}], "rawData": true}"#
        ),
        0
    );
    assert_eq!(n(r#"{"count": "p", "rawData": true}"#), Some(1));
}

#[test]
fn a_collection_is_changed_and_dropped_by_the_name_of_its_buckets() {
    let s = service();
    create(&s, "c");
    fill(&s, "c");
    let change = r#"{"collMod": "system.buckets.c", "expireAfterSeconds": 1000000000}"#;
    assert_eq!(code(&s, change), 0);
    let options = entry(&s, "c");
    let options = options.doc().field("options").as_doc().unwrap();
    assert_eq!(
        options.field("expireAfterSeconds").as_i64_exact(),
        Some(1_000_000_000)
    );
    let dropped = ask(&s, r#"{"drop": "system.buckets.c"}"#);
    assert_eq!(
        dropped.doc().field("ns").as_str(),
        Some("db.system.buckets.c")
    );
    assert!(documents(&s, r#"{"listCollections": 1}"#).is_empty());
}

/// Only the fields that projection, sort and filter need are unpacked; the result is the same.
#[test]
fn a_projection_leaves_the_same_as_of_a_plain_collection() {
    let s = service();
    create(&s, "c");
    fill(&s, "c");
    fill(&s, "plain");
    assert_eq!(code(&s, r#"{"compact": "c"}"#), 0);
    for what in [
        r#""projection": {"v": 1}"#,
        r#""projection": {"_id": 0, "v": 1}"#,
        r#""projection": {"_id": 0, "n.a": 1, "t": 1}"#,
        r#""projection": {"m": 1}, "filter": {"v": {"$gt": 5}}"#,
        r#""projection": {"m": 1}, "filter": {"n.a": {"$lt": 40}, "m.sensor": 1}"#,
        r#""projection": {"t": 1}, "filter": {"$expr": {"$gt": ["$v", 3]}}"#,
        r#""projection": {"t": 1}, "filter": {"$or": [{"v": 1.5}, {"n.a": 7}]}"#,
        r#""projection": {"v": {"$add": ["$v", "$n.a"]}}"#,
        r#""projection": {"v": 0}"#,
        r#""projection": {"_id": 1}"#,
        r#""projection": {"absent": 1}"#,
    ] {
        let of = |coll: &str, sort: &str| {
            documents(
                &s,
                &format!(r#"{{"find": "{coll}", {what}, "sort": {sort}, "batchSize": 1000}}"#),
            )
        };
        for sort in [r#"{"_id": 1}"#, r#"{"v": 1, "_id": -1}"#, r#"{"n.a": -1}"#] {
            let (series, plain) = (of("c", sort), of("plain", sort));
            assert!(!plain.is_empty());
            let sorted = |docs: Vec<DocBuf>| -> Vec<String> {
                docs.iter()
                    .map(|d| {
                        let mut fields: Vec<String> =
                            d.doc().iter().map(|(n, v)| format!("{n}: {v:?}")).collect();
                        // The time comes first in a measurement.
                        fields.sort();
                        fields.join(", ")
                    })
                    .collect()
            };
            assert_eq!(sorted(series), sorted(plain), "{what} {sort}");
        }
    }
}

/// Regression: tools validate every collection that listCollections returns, but the buckets were
/// not found.
#[test]
fn buckets_are_validated_under_their_name() {
    let s = service();
    create(&s, "c");
    fill(&s, "c");
    let stats = ask(&s, r#"{"collStats": "c"}"#);
    let stats = stats.doc().field("timeseries").as_doc().unwrap().to_buf();
    let buckets = stats.doc().field("bucketCount").as_i64_exact().unwrap();
    for (name, records, indexes) in [("c", 300, 2), ("system.buckets.c", buckets, 1)] {
        let r = ask(&s, &format!(r#"{{"validate": "{name}"}}"#));
        let d = r.doc();
        assert_eq!(d.field("valid").as_bool(), Some(true), "{r:?}");
        assert_eq!(
            d.field("ns").as_str(),
            Some(&*format!("db.{name}")),
            "{r:?}"
        );
        assert_eq!(d.field("nrecords").as_i64_exact(), Some(records), "{r:?}");
        assert_eq!(d.field("nIndexes").as_i64_exact(), Some(indexes), "{r:?}");
        let keys = d.field("keysPerIndex").as_doc().unwrap();
        assert_eq!(keys.field("m_1_t_1").as_i64_exact(), Some(buckets), "{r:?}");
        assert_eq!(keys.contains("_id_"), indexes == 2);
    }
    assert_eq!(code(&s, r#"{"validate": "system.buckets.d"}"#), 26);
}
