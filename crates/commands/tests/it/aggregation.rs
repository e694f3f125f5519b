//! Pipelines through the command: tests beyond the recorded cases.

use crate::behaviour::{logging_store, send, serve};
use commands::{Config, Dispatcher};
use model::{DocBuf, Value, extjson};
use std::sync::Arc;

/// Sends a command given as extended JSON to the database `db` and returns the reply.
pub(crate) fn ask(s: &Arc<Dispatcher>, command: &str) -> DocBuf {
    ask_on(s, "db", command)
}

pub(crate) fn ask_on(s: &Arc<Dispatcher>, db: &str, command: &str) -> DocBuf {
    let json = serde_json::from_str(command).unwrap_or_else(|e| panic!("{e}: {command}"));
    let command = extjson::document(&json).unwrap_or_else(|e| panic!("{e:?}: {command}"));
    send(s, &mut s.connect("127.0.0.1:1"), db, command.doc())
}

/// The code of the error or of the first write error; 0 for success.
pub(crate) fn code(s: &Arc<Dispatcher>, command: &str) -> i64 {
    code_of(&ask(s, command))
}

fn code_of(reply: &DocBuf) -> i64 {
    let d = reply.doc();
    let first = d
        .field("writeErrors")
        .as_array()
        .and_then(|a| a.get(0))
        .and_then(|v| v.as_doc())
        .map(|d| d.field("code"));
    first.unwrap_or(d.field("code")).as_i64_exact().unwrap_or(0)
}

pub(crate) fn batch(reply: &DocBuf) -> Vec<DocBuf> {
    let cursor = reply
        .doc()
        .field("cursor")
        .as_doc()
        .unwrap_or_else(|| panic!("{reply:?}"));
    cursor
        .field("firstBatch")
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|v| v.as_doc().map(|d| d.to_buf()))
        .collect()
}

/// The names in a listing, sorted.
pub(crate) fn names(reply: &DocBuf) -> Vec<String> {
    let mut all: Vec<String> = batch(reply)
        .iter()
        .map(|d| d.doc().field("name").as_str().unwrap().to_owned())
        .collect();
    all.sort();
    all
}

/// The documents of a first batch as text; for an error, its code.
pub(crate) fn read_batch(s: &Arc<Dispatcher>, command: &str) -> Vec<String> {
    let reply = ask(s, command);
    match code_of(&reply) {
        0 => batch(&reply).iter().map(|d| format!("{d:?}")).collect(),
        n => vec![n.to_string()],
    }
}

/// The documents of a pipeline over `c`, as [`read_batch`].
fn run_pipeline(s: &Arc<Dispatcher>, pipeline: &str) -> Vec<String> {
    read_batch(
        s,
        &format!(r#"{{"aggregate": "c", "pipeline": {pipeline}, "cursor": {{}}}}"#),
    )
}

fn letters() -> Arc<Dispatcher> {
    let s = crate::protocol::service();
    ask(
        &s,
        r#"{"insert": "c", "documents": [{"_id": 1, "x": "a"}, {"_id": 2, "x": "A"}, {"_id": 3,
            "x": "b"}]}"#,
    );
    s
}

#[test]
fn views_over_views_share_a_collation() {
    let s = letters();
    let folded = r#""collation": {"locale": "en", "strength": 2}"#;
    assert_eq!(
        code(
            &s,
            &format!(r#"{{"create": "v1", "viewOn": "c", {folded}}}"#)
        ),
        0
    );
    assert_eq!(
        code(
            &s,
            &format!(
                r#"{{"create": "v2", "viewOn": "v1", "pipeline": [{{"$match": {{"x": "A"}}}}],
                    {folded}}}"#
            )
        ),
        0
    );
    let both = [r#"{ _id: 1, x: "a" }"#, r#"{ _id: 2, x: "A" }"#];
    assert_eq!(read_batch(&s, r#"{"find": "v2"}"#), both);
    assert_eq!(
        read_batch(
            &s,
            &format!(r#"{{"aggregate": "v2", "pipeline": [], "cursor": {{}}, {folded}}}"#)
        ),
        both
    );
    assert_eq!(
        read_batch(
            &s,
            r#"{"aggregate": "v2", "pipeline": [], "cursor": {}, "collation": {"locale": "fr"}}"#
        ),
        ["167"]
    );
    // A view has the kind and collation of its source, also in the stages of its pipeline.
    assert_eq!(code(&s, r#"{"create": "v3", "viewOn": "v1"}"#), 167);
    let looks = r#"{"create": "v3", "viewOn": "c", "pipeline": [{"$unionWith": "v1"}]}"#;
    assert_eq!(code(&s, looks), 167);
}

#[test]
fn variables_of_the_command_reach_inner_pipelines() {
    let s = letters();
    let with = |stages: &str| {
        read_batch(
            &s,
            &format!(
                r#"{{"aggregate": "c", "pipeline": [{{"$limit": 1}}, {stages}], "cursor": {{}},
                    "let": {{"k": 3}}}}"#
            ),
        )
    };
    let lookup = |vars: &str| {
        with(&format!(
            r#"{{"$lookup": {{"from": "c",
                {vars} "pipeline": [{{"$match": {{"$expr": {{"$eq": ["$_id", "$$k"]}}}}}},
                {{"$unset": "x"}}], "as": "j"}}}}"#
        ))
    };
    assert_eq!(lookup(""), [r#"{ _id: 1, x: "a", j: [ { _id: 3 } ] }"#]);
    assert_eq!(
        lookup(r#""let": {"k": "$_id"},"#),
        [r#"{ _id: 1, x: "a", j: [ { _id: 1 } ] }"#],
        "the inner one hides it"
    );
    let union = with(
        r#"{"$unionWith": {"coll": "c", "pipeline": [{"$match": {"$expr": {"$eq": ["$_id",
            "$$k"]}}}]}}"#,
    );
    assert_eq!(union, [r#"{ _id: 1, x: "a" }"#, r#"{ _id: 3, x: "b" }"#]);
    let merge = r#"{"$merge": {"into": "m", "let": {"z": "$x"},
        "whenMatched": [{"$set": {"z": "$$z", "k": "$$k"}}]}}"#;
    with(merge);
    with(merge);
    assert_eq!(
        read_batch(&s, r#"{"find": "m"}"#),
        [r#"{ _id: 1, x: "a", z: "a", k: 3 }"#]
    );
}

#[test]
fn a_missing_collection_gives_nothing_to_a_union() {
    let s = letters();
    let union = |inner: &str| {
        run_pipeline(
            &s,
            &format!(
                r#"[{{"$limit": 1}}, {{"$unionWith": {{"coll": "nope", "pipeline": [{inner}]}}}}]"#
            ),
        )
    };
    let alone = [r#"{ _id: 1, x: "a" }"#];
    assert_eq!(union(r#"{"$match": {"a": 1}}"#), alone);
    assert_eq!(
        union(r#"{"$group": {"_id": null, "n": {"$sum": 1}}}"#),
        alone
    );
    assert_eq!(
        union(r#"{"$unionWith": "c"}, {"$limit": 1}"#),
        [alone[0], alone[0]]
    );
    assert_eq!(union(r#"{"$nope": 1}"#), ["40324"], "it is still checked");
    let long = "x".repeat(300);
    assert_eq!(
        run_pipeline(
            &s,
            &format!(r#"[{{"$limit": 1}}, {{"$unionWith": "{long}"}}]"#)
        ),
        alone
    );
}

#[test]
fn samples_are_distinct_and_no_larger_than_the_collection() {
    let s = crate::protocol::service();
    let docs: Vec<String> = (0..200).map(|i| format!(r#"{{"_id": {i}}}"#)).collect();
    ask(
        &s,
        &format!(r#"{{"insert": "c", "documents": [{}]}}"#, docs.join(",")),
    );
    let sample = |n: u32| {
        run_pipeline(
            &s,
            &format!(
                r#"[{{"$sample": {{"size": {n}}}}}, {{"$group": {{"_id": "$_id"}}}},
                    {{"$count": "n"}}]"#
            ),
        )
    };
    assert_eq!(
        (sample(50), sample(200), sample(1000)),
        (
            vec!["{ n: 50 }".to_owned()],
            vec!["{ n: 200 }".to_owned()],
            vec!["{ n: 200 }".to_owned()]
        )
    );
    let order = || run_pipeline(&s, r#"[{"$sample": {"size": 20}}]"#);
    assert_ne!(
        order(),
        order(),
        "the same twenty in the same order by chance: one in 10^40"
    );
}

#[test]
fn results_past_16_megabytes_are_refused_at_the_end_only() {
    let s = crate::protocol::service();
    let big = "x".repeat(1 << 20);
    for i in 0..18 {
        assert_eq!(
            code(
                &s,
                &format!(r#"{{"insert": "c", "documents": [{{"_id": {i}, "s": "{big}"}}]}}"#)
            ),
            0
        );
    }
    let push = r#"{"$group": {"_id": null, "a": {"$push": "$s"}}}"#;
    assert_eq!(run_pipeline(&s, &format!(r#"[{push}]"#)), ["10334"]);
    assert_eq!(
        run_pipeline(
            &s,
            &format!(r#"[{push}, {{"$project": {{"n": {{"$size": "$a"}}}}}}]"#)
        ),
        ["{ _id: null, n: 18 }"]
    );
    assert_eq!(
        run_pipeline(
            &s,
            r#"[{"$facet": {"a": [{"$match": {}}]}}, {"$project": {"n": {"$size": "$a"}}}]"#
        ),
        ["10334"]
    );
    let lookup = r#"{"$limit": 1}, {"$lookup": {"from": "c", "pipeline": [], "as": "j"}}"#;
    assert_eq!(
        run_pipeline(
            &s,
            &format!(r#"[{lookup}, {{"$unwind": "$j"}}, {{"$count": "n"}}]"#)
        ),
        ["{ n: 18 }"]
    );
    // The cursor returns many documents, none of them too large.
    assert_eq!(
        run_pipeline(
            &s,
            r#"[{"$sort": {"s": 1, "_id": 1}}, {"$project": {"n": {"$strLenBytes": "$s"}}},
                {"$limit": 1}]"#
        ),
        ["{ _id: 0, n: 1048576 }"]
    );
}

#[test]
fn a_graph_is_walked_once_whatever_its_cycles() {
    let s = crate::protocol::service();
    ask(
        &s,
        r#"{"insert": "c", "documents": [{"_id": 1, "to": [2, 3]}, {"_id": 2, "to": [3]}, {"_id": 3,
            "to": [1]}, {"_id": 4, "to": [4]}]}"#,
    );
    let graph = |id: i32, more: &str| {
        run_pipeline(
            &s,
            &format!(
                r#"[{{"$match": {{"_id": {id}}}}}, {{"$graphLookup": {{"from": "c",
                    "startWith": "$to", "connectFromField": "to", "connectToField": "_id",
                    "as": "r", "depthField": "d" {more}}}}},
                {{"$unwind": "$r"}}, {{"$sort": {{"r._id": 1}}}}, {{"$project": {{"_id": "$r._id",
                    "d": "$r.d"}}}}]"#
            ),
        )
    };
    assert_eq!(
        graph(1, ""),
        ["{ _id: 1, d: 1 }", "{ _id: 2, d: 0 }", "{ _id: 3, d: 0 }"]
    );
    assert_eq!(graph(4, ""), ["{ _id: 4, d: 0 }"]);
    assert_eq!(
        graph(1, r#", "maxDepth": 0"#),
        ["{ _id: 2, d: 0 }", "{ _id: 3, d: 0 }"]
    );
    assert_eq!(
        graph(1, r#", "restrictSearchWithMatch": {"_id": {"$ne": 3}}"#),
        ["{ _id: 2, d: 0 }"]
    );
}

#[test]
fn dates_are_counted_by_the_calendar() {
    let s = crate::protocol::service();
    let at = |i: i32, day: &str| format!(r#"{{"_id": {i}, "t": {{"$date": "{day}T00:00:00Z"}}}}"#);
    let days = [
        "2024-01-31",
        "2024-02-10",
        "2024-02-29",
        "2024-03-01",
        "2024-03-31",
    ];
    let docs: Vec<String> = days.iter().zip(0..).map(|(d, i)| at(i, d)).collect();
    ask(
        &s,
        &format!(r#"{{"insert": "c", "documents": [{}]}}"#, docs.join(",")),
    );
    // A month before the last day of March is the last day of February.
    let window = r#"[{"$setWindowFields": {"sortBy": {"t": 1}, "output": {"s": {"$push": "$_id",
        "window": {"range": [-1, 0], "unit": "month"}}}}}, {"$unset": "t"}]"#;
    let want = [
        "{ _id: 0, s: [ 0 ] }",
        "{ _id: 1, s: [ 0, 1 ] }",
        "{ _id: 2, s: [ 0, 1, 2 ] }",
        "{ _id: 3, s: [ 1, 2, 3 ] }",
        "{ _id: 4, s: [ 2, 3, 4 ] }",
    ];
    assert_eq!(run_pipeline(&s, window), want);
    let dense = r#"[{"$match": {"_id": {"$in": [0, 4]}}}, {"$densify": {"field": "t",
        "range": {"step": 1, "unit": "month", "bounds": "full"}}},
        {"$project": {"_id": 0, "t": {"$dateToString": {"date": "$t", "format": "%Y-%m-%d"}}}}]"#;
    assert_eq!(
        run_pipeline(&s, dense),
        [
            r#"{ t: "2024-01-31" }"#,
            r#"{ t: "2024-02-29" }"#,
            r#"{ t: "2024-03-29" }"#,
            r#"{ t: "2024-03-31" }"#
        ]
    );
    // Interpolation uses the time, not the position.
    let fill = r#"[{"$set": {"v": {"$switch": {"branches": [{"case": {"$eq": ["$_id", 0]},
        "then": 0}, {"case": {"$eq": ["$_id", 4]}, "then": 60}], "default": null}}}},
        {"$fill": {"sortBy": {"t": 1}, "output": {"v": {"method": "linear"}}}},
            {"$project": {"v": 1}}]"#;
    assert_eq!(
        run_pipeline(&s, fill),
        [
            "{ _id: 0, v: 0 }",
            "{ _id: 1, v: 10.0 }",
            "{ _id: 2, v: 29.0 }",
            "{ _id: 3, v: 30.0 }",
            "{ _id: 4, v: 60 }"
        ]
    );
    assert_eq!(
        run_pipeline(
            &s,
            r#"[{"$densify": {"field": "t", "range": {"step": 1, "bounds": "full"}}}]"#
        ),
        ["6053600"]
    );
}

#[test]
fn buckets_get_their_bounds_from_preferred_numbers() {
    let s = crate::protocol::service();
    let values = [
        3.0, 7.0, 11.0, 25.0, 30.0, 44.0, 58.0, 66.0, 80.0, 95.0, 120.0, 0.5, 1000.0,
    ];
    let docs: Vec<String> = values
        .iter()
        .zip(0..)
        .map(|(v, i)| format!(r#"{{"_id": {i}, "p": {v:?}}}"#))
        .collect();
    ask(
        &s,
        &format!(r#"{{"insert": "c", "documents": [{}]}}"#, docs.join(",")),
    );
    let bounds = |granularity: &str| {
        run_pipeline(
            &s,
            &format!(
                r#"[{{"$bucketAuto": {{"groupBy": "$p", "buckets": 4,
                    "granularity": "{granularity}"}}}}, {{"$project": {{"_id": 0, "b": ["$_id.min",
                    "$_id.max", "$count"]}}}}]"#
            ),
        )
    };
    assert_eq!(
        bounds("POWERSOF2"),
        [
            "{ b: [ 0.25, 8, 3 ] }",
            "{ b: [ 8, 32, 3 ] }",
            "{ b: [ 32, 128, 6 ] }",
            "{ b: [ 128, 1024, 1 ] }"
        ]
    );
    assert_eq!(
        bounds("1-2-5"),
        [
            "{ b: [ 0.2, 10.0, 3 ] }",
            "{ b: [ 10.0, 50.0, 4 ] }",
            "{ b: [ 50.0, 100.0, 4 ] }",
            "{ b: [ 100.0, 2000.0, 2 ] }"
        ]
    );
}

#[test]
fn a_database_pipeline_answers_for_the_server() {
    let s = letters();
    let current = |db: &str, options: &str| {
        code_of(&ask_on(
            &s,
            db,
            &format!(
                r#"{{"aggregate": 1, "pipeline": [{{"$currentOp": {options}}}], "cursor": {{}}}}"#
            ),
        ))
    };
    assert_eq!(
        current(
            "admin",
            r#"{"allUsers": true, "idleConnections": true, "idleCursors": true,
                "idleSessions": true, "localOps": true}"#
        ),
        0
    );
    assert_eq!(current("admin", r#"{"idleConnections": 1}"#), 14);
    assert_eq!(current("admin", r#"{"nope": true}"#), 40415);
    assert_eq!(current("db", "{}"), 73);
    ask(&s, r#"{"find": "c", "batchSize": 1}"#);
    let idle = r#"{"aggregate": 1, "pipeline": [{"$currentOp": {"idleCursors": true}},
        {"$match": {"type": "idleCursor"}}, {"$project": {"_id": 0, "ns": 1,
        "n": "$cursor.nDocsReturned"}}], "cursor": {}}"#;
    let idle = batch(&ask_on(&s, "admin", idle));
    assert_eq!(idle, [model::doc! { "ns": "db.c", "n": 1i64 }]);
    let ops = |filter: &str| {
        ask_on(&s, "admin", &format!(r#"{{"currentOp": 1{filter}}}"#))
            .doc()
            .field("inprog")
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!(
        (
            ops(""),
            ops(r#", "active": true"#),
            ops(r#", "secs_running": {"$gt": 100}"#)
        ),
        (1, 1, 0)
    );
    for n in ["0", "2", "-1", "1.5"] {
        assert_eq!(
            code(
                &s,
                &format!(
                    r#"{{"aggregate": {n}, "pipeline": [{{"$documents": []}}], "cursor": {{}}}}"#
                )
            ),
            2,
            "{n}"
        );
    }
    let listed = ask_on(
        &s,
        "db",
        r#"{"aggregate": 1, "pipeline": [{"$listClusterCatalog": {}}], "cursor": {}}"#,
    );
    let first = batch(&listed).remove(0);
    assert_eq!(first.doc().field("ns").as_str(), Some("db.c"));
    assert!(matches!(
        first.doc().field("info").as_doc().unwrap().field("uuid"),
        Value::Binary(_)
    ));
}

#[test]
fn gridfs_files_have_checksums() {
    let s = crate::protocol::service();
    let chunk = |id: i32, file: i32, n: i32, data: &str| {
        ask(
            &s,
            &format!(
                r#"{{"insert": "fs.chunks", "documents": [{{"_id": {id}, "files_id": {file},
                    "n": {n}, "data": {{"$binary": {{"base64": "{data}", "subType": "00"}}}}}}]}}"#
            ),
        );
    };
    // The chunks "hello " and "world" in reverse order; then a file without its second chunk.
    chunk(1, 1, 1, "d29ybGQ=");
    chunk(2, 1, 0, "aGVsbG8g");
    chunk(3, 2, 0, "aGVsbG8g");
    chunk(4, 2, 2, "d29ybGQ=");
    let sum =
        |file: i32, more: &str| ask(&s, &format!(r#"{{"filemd5": {file}, "root": "fs"{more}}}"#));
    let whole = sum(1, "");
    assert_eq!(
        whole.doc().field("md5").as_str(),
        Some("5eb63bbbe01eeed093cb22bb8f5acdc3")
    );
    assert_eq!(whole.doc().field("numChunks").as_i64_exact(), Some(2));
    assert_eq!(code_of(&sum(2, "")), 10040);
    assert_eq!(
        sum(2, r#", "partialOk": true"#)
            .doc()
            .field("numChunks")
            .as_i64_exact(),
        Some(1)
    );
    assert_eq!(
        sum(3, "").doc().field("md5").as_str(),
        Some("d41d8cd98f00b204e9800998ecf8427e")
    );
}

#[test]
fn a_hint_of_a_partial_index_shows_what_the_index_has() {
    let s = crate::protocol::service();
    ask(
        &s,
        r#"{"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a_1",
            "partialFilterExpression": {"a": {"$gt": 5}}}]}"#,
    );
    ask(
        &s,
        r#"{"insert": "c", "documents": [{"_id": 1, "a": 3}, {"_id": 2, "a": 7}]}"#,
    );
    assert_eq!(
        read_batch(
            &s,
            r#"{"find": "c", "filter": {"a": {"$gt": 2}}, "hint": "a_1"}"#
        ),
        ["{ _id: 2, a: 7 }"]
    );
    assert_eq!(
        read_batch(&s, r#"{"find": "c", "filter": {"a": {"$gt": 2}}}"#),
        ["{ _id: 1, a: 3 }", "{ _id: 2, a: 7 }"]
    );
}

/// A default read concern only applies to pipelines that support it: stages that report the
/// server's current state run as without it, and refuse the level when the client gives it.
#[test]
fn a_default_read_concern_leaves_stages_of_the_server_alone() {
    let s = serve(Config::default(), logging_store());
    let set = r#"{"setDefaultRWConcern": 1, "defaultReadConcern": {"level": "majority"}}"#;
    assert_eq!(code_of(&ask_on(&s, "admin", set)), 0);
    let insert = r#"{"insert": "c", "documents": [{"a": 1}]}"#;
    assert_eq!(code(&s, insert), 0);
    for (db, source, stage) in [
        ("admin", "1", r#"{"$currentOp": {}}"#),
        ("db", "1", r#"{"$listLocalSessions": {}}"#),
        ("db", r#""c""#, r#"{"$planCacheStats": {}}"#),
        ("db", "1", r#"{"$listClusterCatalog": {}}"#),
        ("db", r#""c""#, r#"{"$match": {"a": 1}}"#),
    ] {
        let with = |more: &str| {
            let command = format!(
                r#"{{"aggregate": {source}, "pipeline": [{stage}], "cursor": {{}}{more}}}"#
            );
            code_of(&ask_on(&s, db, &command))
        };
        assert_eq!(with(""), 0, "{stage}");
        assert_eq!(with(r#", "readConcern": {}"#), 0, "{stage}");
        let given = with(r#", "readConcern": {"level": "majority"}"#);
        let permitted = stage.contains("$match");
        assert_eq!(given, if permitted { 0 } else { 72 }, "{stage}");
    }
}
