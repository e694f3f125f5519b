//! Options of `find` and the lifetime of its cursors.

use crate::behaviour::send;
use crate::interrupts::{code, fill, json};
use crate::protocol::service;
use commands::Dispatcher;
use model::{Doc, DocBuf, Value, doc};
use std::time::Duration;

fn run(s: &Dispatcher, command: &str) -> DocBuf {
    run_doc(s, json(command).doc())
}

fn run_doc(s: &Dispatcher, command: Doc<'_>) -> DocBuf {
    let mut c = s.connect("127.0.0.1:1");
    send(s, &mut c, "db", command)
}

fn cursor(d: &DocBuf) -> (i64, Vec<String>) {
    let c = d
        .doc()
        .field("cursor")
        .as_doc()
        .unwrap_or_else(|| panic!("{d:?}"));
    let batch = c
        .field("firstBatch")
        .as_array()
        .or(c.field("nextBatch").as_array())
        .unwrap();
    (
        c.field("id").as_i64_exact().unwrap(),
        batch
            .iter()
            .map(|d| format!("{:?}", d.as_doc().unwrap()))
            .collect(),
    )
}

fn find_documents(s: &Dispatcher, command: &str) -> Vec<String> {
    let (id, batch) = cursor(&run(s, command));
    assert_eq!(id, 0, "{command}");
    batch
}

fn numbers(s: &Dispatcher) {
    let insert = r#"{"insert": "c", "documents": [
        {"_id": 3, "a": 1, "b": "x"}, {"_id": 1, "a": 2, "b": "y"}, {"_id": 2, "a": 2, "b": "z"},
        {"_id": 5, "a": [7, 3], "b": "v"}, {"_id": 4, "b": "w"}]}"#;
    assert_eq!(code(&run(s, insert)), 0);
}

#[test]
fn batches_and_limits() {
    let s = service();
    fill(&s, 500);
    let ids = |d: &DocBuf| {
        let (id, docs) = cursor(d);
        (id != 0, docs.len())
    };
    // By default the first batch has 101 documents, and later ones have as many as fit.
    let first = run(&s, r#"{"find": "c"}"#);
    assert_eq!(ids(&first), (true, 101));
    let more = |d: &DocBuf, size: Option<i64>| {
        let mut get = doc! { "getMore": cursor(d).0, "collection": "c" };
        if let Some(n) = size {
            get.put("batchSize", n);
        }
        run_doc(&s, get.doc())
    };
    assert_eq!(ids(&more(&first, None)), (false, 399));
    for (find, expected) in [
        (r#"{"find": "c", "batchSize": 0}"#, (true, 0)),
        (r#"{"find": "c", "batchSize": 500}"#, (true, 500)),
        (r#"{"find": "c", "batchSize": 501}"#, (false, 500)),
        (
            r#"{"find": "c", "limit": 500, "batchSize": 500}"#,
            (false, 500),
        ),
        (r#"{"find": "c", "limit": 7}"#, (false, 7)),
        (r#"{"find": "c", "limit": 7, "batchSize": 7}"#, (false, 7)),
        (r#"{"find": "c", "limit": 7, "batchSize": 3}"#, (true, 3)),
        (
            r#"{"find": "c", "batchSize": 3, "singleBatch": true}"#,
            (false, 3),
        ),
        (
            r#"{"find": "c", "limit": 7, "batchSize": 3, "singleBatch": true}"#,
            (false, 3),
        ),
        (
            r#"{"find": "c", "batchSize": 0, "singleBatch": true}"#,
            (false, 0),
        ),
        (r#"{"find": "c", "skip": 498}"#, (false, 2)),
        (r#"{"find": "c", "skip": 600}"#, (false, 0)),
        (
            r#"{"find": "c", "sort": {"b": 1}, "skip": 490, "limit": 7, "batchSize": 5}"#,
            (true, 5),
        ),
    ] {
        assert_eq!(ids(&run(&s, find)), expected, "{find}");
    }
    // The limit applies across batches.
    let first = run(&s, r#"{"find": "c", "limit": 10, "batchSize": 4}"#);
    assert_eq!(ids(&more(&first, Some(4))), (true, 4));
    assert_eq!(ids(&more(&first, Some(4))), (false, 2));
    assert_eq!(code(&more(&first, None)), 43);
    // A batch has at most sixteen megabytes.
    let heavy = DocBuf::build(|w| {
        w.put("insert", "heavy");
        let mut all = w.array("documents");
        for i in 0..20i32 {
            all.doc()
                .put("_id", i)
                .put("s", "x".repeat(1 << 20).as_str());
        }
    });
    run_doc(&s, heavy.doc());
    let first = run(&s, r#"{"find": "heavy", "batchSize": 1000}"#);
    let (id, docs) = cursor(&first);
    assert!(id != 0 && docs.len() == 15, "{}", docs.len());
    let rest = run_doc(&s, doc! { "getMore": id, "collection": "heavy" }.doc());
    assert_eq!(ids(&rest), (false, 5));
}

#[test]
fn natural_order_both_ways() {
    let s = service();
    numbers(&s);
    let project = r#""projection": {"_id": 1}"#;
    let up = [
        "{ _id: 3 }",
        "{ _id: 1 }",
        "{ _id: 2 }",
        "{ _id: 5 }",
        "{ _id: 4 }",
    ];
    let down: Vec<&str> = up.iter().rev().copied().collect();
    for (option, expected) in [
        (r#""sort": {"$natural": 1}"#, &up[..]),
        (r#""sort": {"$natural": -1}"#, &down[..]),
        (r#""hint": {"$natural": 1}"#, &up[..]),
        (r#""hint": {"$natural": -1}"#, &down[..]),
        (
            r#""sort": {"$natural": -1}, "skip": 1, "limit": 2"#,
            &down[1..3],
        ),
    ] {
        assert_eq!(
            find_documents(&s, &format!(r#"{{"find": "c", {project}, {option}}}"#)),
            expected,
            "{option}"
        );
    }
    assert_eq!(
        code(&run(
            &s,
            r#"{"find": "c", "sort": {"$natural": 1, "a": 1}}"#
        )),
        2
    );
    assert_eq!(
        code(&run(&s, r#"{"find": "c", "hint": {"$natural": 2}}"#)),
        2
    );
    // Also when the collection changes between batches.
    let (id, first) = cursor(&run(
        &s,
        r#"{"find": "c", "sort": {"$natural": -1}, "batchSize": 2, "projection": {"_id": 1}}"#,
    ));
    assert_eq!(first, ["{ _id: 4 }", "{ _id: 5 }"]);
    run(
        &s,
        r#"{"delete": "c", "deletes": [{"q": {"_id": 2}, "limit": 1}]}"#,
    );
    run(&s, r#"{"insert": "c", "documents": [{"_id": 0}]}"#);
    assert_eq!(
        cursor(&run_doc(
            &s,
            doc! { "getMore": id, "collection": "c" }.doc()
        ))
        .1,
        ["{ _id: 1 }", "{ _id: 3 }"]
    );
}

#[test]
fn min_and_max_are_index_bounds() {
    let s = service();
    numbers(&s);
    run(
        &s,
        r#"{"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a_1"}, {"key": {"a": 1,
            "b": -1}, "name": "ab"}]}"#,
    );
    let find = |options: &str| format!(r#"{{"find": "c", "projection": {{"_id": 1}}, {options}}}"#);
    for (options, expected) in [
        (r#""min": {"a": 2}, "hint": {"a": 1}"#, vec![1, 2, 5]),
        (r#""max": {"a": 2}, "hint": "a_1""#, vec![4, 3]),
        (
            r#""min": {"a": 1}, "max": {"a": 3}, "hint": {"a": 1}"#,
            vec![3, 1, 2],
        ),
        (
            r#""min": {"a": 1}, "max": {"a": 2}, "hint": {"a": 1}"#,
            vec![3],
        ),
        (
            r#""min": {"a": 1}, "max": {"a": 8}, "hint": {"a": 1}, "filter": {"b": {"$gt": "w"}},
                "sort": {"_id": -1}"#,
            vec![3, 2, 1],
        ),
        // b is descending: z comes before y.
        (
            r#""min": {"a": 2, "b": "z"}, "max": {"a": 2, "b": "y"}, "hint": {"a": 1, "b": -1}"#,
            vec![2],
        ),
        (
            r#""min": {"_id": 2}, "max": {"_id": 5}, "hint": {"_id": 1}"#,
            vec![2, 3, 4],
        ),
    ] {
        let expected: Vec<String> = expected.iter().map(|i| format!("{{ _id: {i} }}")).collect();
        assert_eq!(find_documents(&s, &find(options)), expected, "{options}");
    }
    for (options, expected) in [
        (r#""min": {"a": 2}"#, 51_173),
        (r#""min": {"b": 2}, "hint": {"a": 1}"#, 51_174),
        (
            r#""min": {"b": 2, "a": 1}, "hint": {"a": 1, "b": -1}"#,
            51_174,
        ),
        (
            r#""min": {"a": 3}, "max": {"a": 3}, "hint": {"a": 1}"#,
            51_175,
        ),
        (
            r#""min": {"a": 2, "b": "y"}, "max": {"a": 2, "b": "z"}, "hint": {"a": 1, "b": -1}"#,
            51_175,
        ),
        (
            r#""min": {"a": 3}, "max": {"b": 3}, "hint": {"a": 1}"#,
            51_176,
        ),
        (r#""min": {"a": 3}, "hint": {"z": 1}"#, 2),
    ] {
        assert_eq!(code(&run(&s, &find(options))), expected, "{options}");
    }
}

#[test]
fn return_key_and_record_ids() {
    let s = service();
    numbers(&s);
    run(
        &s,
        r#"{"createIndexes": "c", "indexes": [{"key": {"a": 1, "b": 1}, "name": "ab"}]}"#,
    );
    for (options, expected) in [
        (
            r#""filter": {"a": 2}, "returnKey": true"#,
            vec![r#"{ a: 2, b: "y" }"#, r#"{ a: 2, b: "z" }"#],
        ),
        (
            r#""filter": {"a": 7}, "returnKey": true"#,
            vec![r#"{ a: 7, b: "v" }"#],
        ),
        (
            r#""filter": {"a": null}, "returnKey": true, "hint": "ab""#,
            vec![r#"{ a: null, b: "w" }"#],
        ),
        (r#""filter": {"b": "x"}, "returnKey": true"#, vec!["{}"]),
        (
            r#""filter": {"_id": {"$gt": 3}}, "returnKey": true"#,
            vec!["{ _id: 4 }", "{ _id: 5 }"],
        ),
        (
            r#""filter": {"_id": 3}, "showRecordId": true"#,
            vec![r#"{ _id: 3, a: 1, b: "x", $recordId: 1 }"#],
        ),
        (
            r#""filter": {"a": 2}, "sort": {"b": -1}, "projection": {"b": 1, "_id": 0},
                "showRecordId": true"#,
            vec![r#"{ b: "z", $recordId: 3 }"#, r#"{ b: "y", $recordId: 2 }"#],
        ),
        (
            r#""filter": {"a": 1}, "returnKey": true, "showRecordId": true"#,
            vec![r#"{ a: 1, b: "x" }"#],
        ),
    ] {
        assert_eq!(
            find_documents(&s, &format!(r#"{{"find": "c", {options}}}"#)),
            expected,
            "{options}"
        );
    }
    let reply = run(
        &s,
        r#"{"find": "c", "filter": {"_id": 3}, "showRecordId": true}"#,
    );
    let id = reply
        .doc()
        .field("cursor")
        .as_doc()
        .and_then(|c| c.field("firstBatch").as_array())
        .and_then(|a| a.get(0));
    assert!(matches!(
        id.and_then(|d| d.as_doc().map(|d| d.field("$recordId"))),
        Some(Value::Int64(1))
    ));
}

#[test]
fn big_sorts_spill_or_fail() {
    let s = service();
    fill(&s, 3000);
    let mut c = s.connect("127.0.0.1:1");
    let set = |name: &str, v: Value<'_>| {
        let mut c = s.connect("127.0.0.1:1");
        let mut d = doc! { "setParameter": 1i32 };
        d.put(name, v);
        assert_eq!(code(&send(&s, &mut c, "admin", d.doc())), 0);
    };
    set(
        "internalQueryMaxBlockingSortMemoryUsageBytes",
        Value::Int64(50_000),
    );
    let sort =
        |allow: &str| format!(r#"{{"find": "c", "sort": {{"b": 1}}, "batchSize": 100000{allow}}}"#);
    let ids = |d: &DocBuf| -> Vec<i64> {
        let batch = d
            .doc()
            .field("cursor")
            .as_doc()
            .and_then(|c| c.field("firstBatch").as_array())
            .unwrap_or_else(|| panic!("{d:?}"));
        batch
            .iter()
            .map(|d| {
                d.as_doc()
                    .and_then(|d| d.field("_id").as_i64_exact())
                    .unwrap()
            })
            .collect()
    };
    let falling: Vec<i64> = (0..3000).rev().collect();
    assert_eq!(ids(&run(&s, &sort(r#", "allowDiskUse": true"#))), falling);
    assert_eq!(
        ids(&run(&s, &sort(""))),
        falling,
        "by default files may be used"
    );
    assert_eq!(code(&run(&s, &sort(r#", "allowDiskUse": false"#))), 292);
    assert_eq!(
        ids(&run(&s, &sort(r#", "allowDiskUse": false, "limit": 5"#))),
        falling[..5],
        "the first few fit"
    );
    set("allowDiskUseByDefault", Value::Bool(false));
    assert_eq!(code(&run(&s, &sort(""))), 292);
    let aggregate = r#"{"aggregate": "c", "pipeline": [{"$sort": {"b": 1}}], "cursor": {}}"#;
    assert_eq!(code(&run(&s, aggregate)), 292);
    // Spilled rows are returned across batches.
    let first = run(
        &s,
        r#"{"find": "c", "sort": {"b": 1}, "batchSize": 10, "allowDiskUse": true}"#,
    );
    let rest = send(
        &s,
        &mut c,
        "db",
        doc! { "getMore": cursor(&first).0, "collection": "c" }.doc(),
    );
    let (id, docs) = cursor(&rest);
    assert_eq!((id, docs.len()), (0, 2990));
}

#[test]
fn idle_cursors_end_unless_no_timeout_or_a_session_keeps_them() {
    let s = service();
    fill(&s, 10);
    let lsid = doc! { "id": model::Binary { subtype: 4, bytes: &[3; 16] } };
    let mut c = s.connect("127.0.0.1:1");
    let mut open = |extra: &str, session: bool| {
        let mut find = json(&format!(r#"{{"find": "c", "batchSize": 1{extra}}}"#));
        if session {
            find.put("lsid", &lsid);
        }
        cursor(&send(&s, &mut c, "db", find.doc())).0
    };
    let (plain, kept, bound) = (
        open("", false),
        open(r#", "noCursorTimeout": true"#, false),
        open("", true),
    );
    commands::workers::run_shared_once(s.service());
    assert_eq!(
        s.service().cursors.counts().open,
        3,
        "ten minutes have not passed"
    );
    let mut c = s.connect("127.0.0.1:1");
    assert_eq!(
        code(&send(
            &s,
            &mut c,
            "admin",
            doc! { "setParameter": 1i32, "cursorTimeoutMillis": 1i32 }.doc()
        )),
        0
    );
    std::thread::sleep(Duration::from_millis(10));
    commands::workers::run_shared_once(s.service());
    assert_eq!(
        (
            s.service().cursors.counts().open,
            s.service().cursors.counts().timed_out,
            s.service().cursors.counts().no_timeout
        ),
        (2, 1, 1)
    );
    let mut more = |id: i64, session: bool| {
        let mut get = doc! { "getMore": id, "collection": "c", "batchSize": 1i32 };
        if session {
            get.put("lsid", &lsid);
        }
        code(&send(&s, &mut c, "db", get.doc()))
    };
    assert_eq!(
        (more(plain, false), more(kept, false), more(bound, true)),
        (43, 0, 0)
    );
    // A cursor ends when its session ends, for whatever reason.
    assert_eq!((more(bound, false), more(kept, true)), (50_737, 50_736));
    let mut c = s.connect("127.0.0.1:1");
    send(&s, &mut c, "admin", doc! { "endSessions": [&lsid] }.doc());
    let mut get = doc! { "getMore": bound, "collection": "c" };
    get.put("lsid", &lsid);
    assert_eq!(code(&send(&s, &mut c, "db", get.doc())), 43);
    assert_eq!(s.service().cursors.counts().open, 1);
}

#[test]
fn idle_cursors_are_listed_on_request() {
    let s = service();
    fill(&s, 10);
    let mut c = s.connect("127.0.0.1:1");
    let (id, _) = cursor(&send(
        &s,
        &mut c,
        "db",
        json(r#"{"find": "c", "batchSize": 3}"#).doc(),
    ));
    let ops = |s: &Dispatcher, stage: &str| {
        let pipeline = format!(
            r#"{{"aggregate": 1, "cursor": {{}}, "pipeline": [{{"$currentOp": {stage}}},
                {{"$match": {{"type": "idleCursor"}}}}]}}"#
        );
        let mut c = s.connect("127.0.0.1:2");
        cursor(&send(s, &mut c, "admin", json(&pipeline).doc())).1
    };
    assert!(ops(&s, "{}").is_empty());
    let idle = ops(&s, r#"{"idleCursors": true}"#);
    assert_eq!(idle.len(), 1);
    assert!(
        idle[0].contains(&format!("cursorId: {id}"))
            && idle[0].contains("nDocsReturned: 3")
            && idle[0].contains(r#"ns: "db.c""#),
        "{idle:?}"
    );
    // The command shows itself, and a condition excludes other operations.
    let seen = send(
        &s,
        &mut c,
        "admin",
        doc! { "currentOp": 1i32, "command.currentOp": 1i32 }.doc(),
    );
    let own = seen.doc().field("inprog").as_array().unwrap();
    assert_eq!(own.len(), 1);
    let own = own.get(0).and_then(|d| d.as_doc()).unwrap();
    assert_eq!(
        (own.field("op").as_str(), own.field("active").as_bool()),
        (Some("command"), Some(true))
    );
    let none = send(
        &s,
        &mut c,
        "admin",
        json(r#"{"currentOp": 1, "secs_running": {"$gt": 100}}"#).doc(),
    );
    assert_eq!(
        none.doc().field("inprog").as_array().map(|a| a.len()),
        Some(0)
    );
}

#[test]
fn an_array_inside_of_an_array_is_found_with_an_index_as_without() {
    let s = service();
    let ask = |command: &str| run(&s, command);
    ask(
        r#"{"insert": "c", "documents": [{"_id": 1, "a": [[5]]}, {"_id": 2, "a": [5]},
        {"_id": 3, "a": [[1], [9]]}]}"#,
    );
    let find = r#"{"find": "c", "filter": {"a": {"$elemMatch": {"$elemMatch": {"$gte": 4}}}},
        "projection": {"_id": 1}, "sort": {"_id": 1}}"#;
    let without = cursor(&ask(find)).1;
    assert_eq!(without.len(), 2, "{without:?}");
    ask(r#"{"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a_1"}]}"#);
    assert_eq!(cursor(&ask(find)).1, without);
}
