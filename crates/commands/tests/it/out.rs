//! `$out` and `$merge` write all or nothing, readers see the old or the new collection, and no
//! temporary collection is left.

use crate::aggregation::{ask, code, names};
use crate::behaviour::serve;
use crate::behaviour::store;
use crate::protocol::service;
use commands::Config;
use model::Namespace;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn a_replaced_collection_keeps_options_and_indexes() {
    let s = service();
    ask(
        &s,
        r#"{"create": "t", "validator": {"v": {"$gt": 0}}, "collation": {"locale": "en",
            "strength": 2}}"#,
    );
    ask(
        &s,
        r#"{"createIndexes": "t", "indexes": [{"key": {"v": 1}, "name": "v_1", "unique": true}]}"#,
    );
    ask(&s, r#"{"insert": "t", "documents": [{"_id": 1, "v": 1}]}"#);
    ask(
        &s,
        r#"{"insert": "c", "documents": [{"_id": 7, "v": 7}, {"_id": 8, "v": 8}]}"#,
    );
    let options = ask(&s, r#"{"listCollections": 1, "filter": {"name": "t"}}"#)
        .doc()
        .field("cursor")
        .as_doc()
        .unwrap()
        .to_buf();
    assert_eq!(
        code(
            &s,
            r#"{"aggregate": "c", "pipeline": [{"$out": "t"}], "cursor": {}}"#
        ),
        0
    );
    let after = ask(&s, r#"{"listCollections": 1, "filter": {"name": "t"}}"#);
    let option = |d: &model::DocBuf| {
        d.doc()
            .field("firstBatch")
            .as_array()
            .unwrap()
            .get(0)
            .unwrap()
            .as_doc()
            .unwrap()
            .field("options")
            .to_owned_value()
    };
    assert_eq!(
        option(&options),
        option(&after.doc().field("cursor").as_doc().unwrap().to_buf())
    );
    assert_eq!(names(&ask(&s, r#"{"listIndexes": "t"}"#)), ["_id_", "v_1"]);
    assert_eq!(
        code(&s, r#"{"insert": "t", "documents": [{"_id": 9, "v": 8}]}"#),
        11000
    );
    assert_eq!(
        code(&s, r#"{"insert": "t", "documents": [{"_id": 9, "v": -8}]}"#),
        121
    );
}

#[test]
fn a_failure_midway_changes_nothing() {
    let s = service();
    ask(
        &s,
        r#"{"createIndexes": "t", "indexes": [{"key": {"v": 1}, "name": "v_1", "unique": true}]}"#,
    );
    ask(&s, r#"{"insert": "t", "documents": [{"_id": 1, "v": 1}]}"#);
    ask(
        &s,
        r#"{"insert": "c", "documents": [{"_id": 1, "v": 5}, {"_id": 2, "v": 5}]}"#,
    );
    let collections = names(&ask(&s, r#"{"listCollections": 1}"#));
    assert_eq!(
        code(
            &s,
            r#"{"aggregate": "c", "pipeline": [{"$out": "t"}], "cursor": {}}"#
        ),
        11000
    );
    let divide = r#"{"aggregate": "c", "pipeline": [{"$set": {"v": {"$divide": [1,
        {"$subtract": ["$_id", 2]}]}}}, {"$out": "t"}], "cursor": {}}"#;
    assert_eq!(code(&s, divide), 2);
    assert_eq!(
        code(
            &s,
            r#"{"aggregate": 1, "pipeline": [{"$documents": [{"_id": [1]}]}, {"$out": "t"}],
                "cursor": {}}"#
        ),
        53
    );
    assert_eq!(names(&ask(&s, r#"{"listCollections": 1}"#)), collections);
    assert_eq!(
        code(&s, r#"{"insert": "t", "documents": [{"_id": 9, "v": 1}]}"#),
        11000,
        "the old documents are there"
    );
}

#[test]
fn a_start_drops_what_a_crash_left() {
    let store = store();
    let left = Namespace::new("db", "tmp.agg_out.0123").unwrap();
    let operation = operation::Operation::new_detached(Arc::new(operation::SystemClock::default()));
    store
        .writer(&operation)
        .create_collection(&left, model::DocBuf::new(), [7; 16])
        .unwrap();
    store
        .set_setting(
            "temporaryCollections",
            &model::doc! { "names": ["db.tmp.agg_out.0123", "db.tmp.agg_out.renamed"] },
        )
        .unwrap();
    drop(serve(Config::default(), store.clone()));
    assert!(store.collection(&left).unwrap().is_none());
    let noted = store.setting("temporaryCollections").unwrap().unwrap();
    assert_eq!(noted, model::doc! { "names": [] });
}

#[test]
fn a_finished_out_leaves_its_name_for_the_next() {
    let store = store();
    let s = serve(Config::default(), store.clone());
    ask(&s, r#"{"insert": "c", "documents": [{"_id": 1}]}"#);
    let noted = |target: &str| {
        let stage = format!(
            r#"{{"aggregate": "c", "pipeline": [{{"$out": "{target}"}}], "cursor": {{}}}}"#
        );
        assert_eq!(code(&s, &stage), 0);
        store.setting("temporaryCollections").unwrap().unwrap()
    };
    let first = noted("t");
    let names = first.doc().field("names").as_array().unwrap();
    assert_eq!(names.iter().count(), 1);
    assert_eq!(noted("t"), first);
    // It would be dropped by the next start, so it must not be there.
    let left = names.iter().next().unwrap().as_str().unwrap().to_owned();
    let left = Namespace::parse(&left).unwrap();
    assert!(store.collection(&left).unwrap().is_none());
    // One that fails after it has begun gives it back, too.
    let fails = r#"{"aggregate": 1, "pipeline": [{"$documents": [{"_id": [1]}]}, {"$out": "t"}],
        "cursor": {}}"#;
    assert_eq!(code(&s, fails), 53);
    assert!(store.collection(&left).unwrap().is_none());
    assert_eq!(noted("other"), first);
}

/// Every version of the target has as many documents as its number says, so a mixture would be
/// detected.
#[test]
fn readers_see_the_old_or_the_new_collection() {
    let s = service();
    ask(
        &s,
        r#"{"createIndexes": "t", "indexes": [{"key": {"k": 1}, "name": "k_1"}]}"#,
    );
    ask(
        &s,
        r#"{"insert": "t", "documents": [{"_id": 0, "of": 1, "k": 1}]}"#,
    );
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut reads = 0;
                    while !done.load(Ordering::Acquire) {
                        let r = ask(
                            &s,
                            r#"{"aggregate": "t", "pipeline": [{"$group": {"_id": "$of",
                            "n": {"$sum": 1}}}], "cursor": {}}"#,
                        );
                        let groups = r
                            .doc()
                            .field("cursor")
                            .as_doc()
                            .unwrap_or_else(|| panic!("{r:?}"))
                            .field("firstBatch")
                            .as_array()
                            .unwrap();
                        assert_eq!(groups.len(), 1, "{r:?}");
                        let g = groups.get(0).unwrap().as_doc().unwrap().to_buf();
                        assert_eq!(
                            g.doc().field("_id").as_i64_exact(),
                            g.doc().field("n").as_i64_exact(),
                            "{r:?}"
                        );
                        for filter in [r#"{"_id": 0}"#, r#"{"k": 1}"#] {
                            let one = ask(
                                &s,
                                &format!(
                                    r#"{{"find": "t", "filter": {filter},
                                "limit": 1}}"#
                                ),
                            );
                            assert_eq!(
                                one.doc()
                                    .field("cursor")
                                    .as_doc()
                                    .unwrap()
                                    .field("firstBatch")
                                    .as_array()
                                    .unwrap()
                                    .len(),
                                1,
                                "{filter} {one:?}"
                            );
                        }
                        reads += 1;
                    }
                    reads
                })
            })
            .collect();
        for n in 1..60 {
            let make = format!(
                r#"{{"aggregate": 1,
                    "pipeline": [{{"$documents": {{"$map": {{"input": {{"$range": [0, {n}]}},
                    "in": {{"_id": "$$this", "of": {n}, "k": 1}}}}}}}}, {{"$out": "t"}}],
                    "cursor": {{}}}}"#
            );
            assert_eq!(code(&s, &make), 0);
        }
        done.store(true, Ordering::Release);
        assert!(readers.into_iter().map(|r| r.join().unwrap()).sum::<i32>() > 0);
    });
}

#[test]
fn a_cursor_over_the_replaced_collection_ends_with_an_error() {
    let s = service();
    let docs: Vec<String> = (0..300).map(|i| format!(r#"{{"_id": {i}}}"#)).collect();
    ask(
        &s,
        &format!(r#"{{"insert": "t", "documents": [{}]}}"#, docs.join(",")),
    );
    let r = ask(&s, r#"{"find": "t", "batchSize": 2}"#);
    let id = r
        .doc()
        .field("cursor")
        .as_doc()
        .unwrap()
        .field("id")
        .as_i64_exact()
        .unwrap();
    assert_eq!(
        code(
            &s,
            r#"{"aggregate": 1, "pipeline": [{"$documents": [{"_id": 0}]}, {"$out": "t"}],
                "cursor": {}}"#
        ),
        0
    );
    assert_eq!(
        code(
            &s,
            &format!(r#"{{"getMore": {{"$numberLong": "{id}"}}, "collection": "t"}}"#)
        ),
        175
    );
}

#[test]
fn merge_keeps_the_id_of_a_match() {
    let s = service();
    ask(
        &s,
        r#"{"createIndexes": "t", "indexes": [{"key": {"k": 1}, "name": "k_1", "unique": true}]}"#,
    );
    ask(
        &s,
        r#"{"insert": "t", "documents": [{"_id": 1, "k": "a", "v": 1}]}"#,
    );
    ask(
        &s,
        r#"{"insert": "c", "documents": [{"_id": 2, "k": "a", "v": 2}]}"#,
    );
    for mode in [r#""merge""#, r#""replace""#, r#"[{"$set": {"_id": 3}}]"#] {
        let merge = format!(
            r#"{{"aggregate": "c", "pipeline": [{{"$merge": {{"into": "t", "on": "k",
                "whenMatched": {mode}}}}}], "cursor": {{}}}}"#
        );
        assert_eq!(code(&s, &merge), 66, "{mode}");
    }
    let fine = r#"{"aggregate": "c", "pipeline": [{"$unset": "_id"}, {"$merge": {"into": "t",
        "on": "k"}}], "cursor": {}}"#;
    assert_eq!(code(&s, fine), 0);
    assert_eq!(
        crate::aggregation::read_batch(&s, r#"{"find": "t"}"#),
        [r#"{ _id: 1, k: "a", v: 2 }"#]
    );
}

#[test]
fn time_series_are_written_by_their_rules() {
    let s = service();
    ask(
        &s,
        r#"{"create": "t", "timeseries": {"timeField": "at", "metaField": "m"}}"#,
    );
    assert_eq!(code(&s, r#"{"insert": "t", "documents": [{"v": 1}]}"#), 2);
    assert_eq!(
        code(
            &s,
            r#"{"aggregate": 1, "pipeline": [{"$documents": [{"v": 1}]}, {"$out": "t"}],
                "cursor": {}}"#
        ),
        2
    );
    let at = r#"{"$date": {"$numberLong": "5"}}"#;
    let out = |more: &str| {
        format!(
            r#"{{"aggregate": 1, "pipeline": [{{"$documents": [{{"_id": 1, "at": {at}, "m": 3}}]}},
                {{"$out": {{"db": "db", "coll": "t"{more}}}}}], "cursor": {{}}}}"#
        )
    };
    assert_eq!(
        code(&s, &out(r#", "timeseries": {"timeField": "other"}"#)),
        7406103
    );
    assert_eq!(code(&s, &out("")), 0);
    assert_eq!(
        code(
            &s,
            &out(r#", "timeseries": {"timeField": "at", "metaField": "m"}"#)
        ),
        0
    );
    assert_eq!(
        code(
            &s,
            r#"{"update": "t", "updates": [{"q": {}, "u": {"$set": {"m": 4}}, "multi": true}]}"#
        ),
        0
    );
    assert_eq!(
        code(
            &s,
            r#"{"update": "t", "updates": [{"q": {}, "u": {"$set": {"at": 4}}, "multi": true}]}"#
        ),
        72
    );
    assert_eq!(
        code(
            &s,
            r#"{"aggregate": "t", "pipeline": [{"$merge": "t"}], "cursor": {}}"#
        ),
        166
    );
    ask(
        &s,
        &format!(r#"{{"insert": "t", "documents": [{{"_id": 2, "v": 1, "m": 4, "at": {at}}}]}}"#),
    );
    let read = [
        "{ at: new Date(5), m: 4, _id: 1 }",
        "{ at: new Date(5), m: 4, _id: 2, v: 1 }",
    ];
    assert_eq!(crate::aggregation::read_batch(&s, r#"{"find": "t"}"#), read);
}

#[test]
fn writers_meet_the_old_or_the_new_collection() {
    let s = service();
    ask(&s, r#"{"insert": "t", "documents": [{"_id": 0}]}"#);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..60 {
                assert_eq!(
                    code(
                        &s,
                        r#"{"aggregate": 1, "pipeline": [{"$documents": [{"_id": 0}]},
                    {"$out": "t"}], "cursor": {}}"#
                    ),
                    0
                );
            }
            done.store(true, Ordering::Release);
        });
        let mut n = 1;
        while !done.load(Ordering::Acquire) {
            n += 1;
            let insert = ask(
                &s,
                &format!(r#"{{"insert": "t", "documents": [{{"_id": {n}}}]}}"#),
            );
            assert_eq!(
                insert.doc().field("n").as_i64_exact(),
                Some(1),
                "{insert:?}"
            );
            let update = ask(
                &s,
                r#"{"update": "t", "updates": [{"q": {"_id": 0}, "u": {"$inc": {"k": 1}}}]}"#,
            );
            assert_eq!(
                update.doc().field("n").as_i64_exact(),
                Some(1),
                "{update:?}"
            );
        }
    });
}
