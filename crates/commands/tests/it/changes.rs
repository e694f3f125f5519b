//! The log of changes and change streams, as clients see them.

use crate::behaviour::{logging_store, serve};
use crate::interrupts::code;
use crate::tails::Client;
use commands::{Config, Dispatcher};
use model::{Doc, DocBuf, Value, doc};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn service() -> Arc<Dispatcher> {
    serve(Config::default(), logging_store())
}

pub(crate) fn cursor(reply: &DocBuf) -> Doc<'_> {
    let c = reply.doc().field("cursor").as_doc();
    c.unwrap_or_else(|| panic!("{reply:?}"))
}

pub(crate) fn id(reply: &DocBuf) -> i64 {
    cursor(reply).field("id").as_i64_exact().unwrap()
}

pub(crate) fn batch(reply: &DocBuf) -> Vec<DocBuf> {
    let c = cursor(reply);
    let list = c.field("firstBatch").as_array();
    let list = list.or(c.field("nextBatch").as_array()).unwrap();
    list.iter().map(|d| d.as_doc().unwrap().to_buf()).collect()
}

/// The resume token of a batch.
fn place(reply: &DocBuf) -> DocBuf {
    cursor(reply)
        .field("postBatchResumeToken")
        .as_doc()
        .unwrap()
        .to_buf()
}

fn token(event: &DocBuf) -> DocBuf {
    event.doc().field("_id").as_doc().unwrap().to_buf()
}

/// The operation type and key of each event.
fn short(events: &[DocBuf]) -> Vec<String> {
    events
        .iter()
        .map(|e| {
            let d = e.doc();
            let key = d.field("documentKey").as_doc();
            let key = key.map_or(String::new(), |k| {
                format!(" {:?}", k.field("_id").as_i64_exact())
            });
            format!("{}{key}", d.field("operationType").as_str().unwrap())
        })
        .collect()
}

fn watch(c: &mut Client, options: &DocBuf) -> DocBuf {
    c.send(&doc! { "aggregate": "c", "pipeline": [{ "$changeStream": options }], "cursor": {} })
}

fn watch_behind(c: &mut Client, how: &str, token: &DocBuf) -> DocBuf {
    let mut options = DocBuf::new();
    options.put(how, token);
    watch(c, &options)
}

/// Reads events until there are no more.
fn drain(c: &mut Client, opened: &DocBuf) -> Vec<DocBuf> {
    let mut all = batch(opened);
    let id = id(opened);
    if id == 0 {
        return all;
    }
    loop {
        let more = c.get_more(id, 10);
        let events = batch(&more);
        let last = events.is_empty() || self::id(&more) == 0;
        all.extend(events);
        if last {
            break;
        }
    }
    all
}

#[test]
fn events_come_in_order_and_a_stream_goes_on_behind_each() {
    let s = service();
    let mut c = Client::new(&s);
    let opened = watch(&mut c, &doc! {});
    for command in [
        r#"{"insert": "c", "documents": [{"_id": 1}, {"_id": 2}]}"#,
        r#"{"insert": "other", "documents": [{"_id": 9}]}"#,
        r#"{"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"a.b": 1}}}]}"#,
        r#"{"update": "c", "updates": [{"q": {"_id": 1}, "u": {"z": 1}}]}"#,
        r#"{"delete": "c", "deletes": [{"q": {"_id": 2}, "limit": 1}]}"#,
        r#"{"drop": "c"}"#,
    ] {
        assert_eq!(code(&c.run(command)), 0);
    }
    let all = drain(&mut c, &opened);
    let expected = [
        "insert Some(1)",
        "insert Some(2)",
        "update Some(1)",
        "replace Some(1)",
        "delete Some(2)",
        "drop",
        "invalidate",
    ];
    assert_eq!(short(&all), expected);
    assert_eq!(
        code(&c.get_more(id(&opened), 10)),
        43,
        "the stream has ended"
    );
    for (n, event) in all.iter().enumerate().take(6) {
        let resumed = watch_behind(&mut c, "resumeAfter", &token(event));
        assert_eq!(short(&drain(&mut c, &resumed)), expected[n + 1..]);
    }
    let last = token(&all[6]);
    assert_eq!(code(&watch_behind(&mut c, "resumeAfter", &last)), 260);
    c.run(r#"{"insert": "c", "documents": [{"_id": 3}]}"#);
    let again = watch_behind(&mut c, "startAfter", &last);
    assert_eq!(short(&drain(&mut c, &again)), ["insert Some(3)"]);
    let at = all[4].doc().field("clusterTime");
    let from = watch(&mut c, &doc! { "startAtOperationTime": at });
    assert_eq!(short(&drain(&mut c, &from))[..], expected[4..]);
}

#[test]
fn a_waiting_stream_is_woken_by_its_own_collection_only() {
    let s = service();
    let mut c = Client::new(&s);
    let opened = id(&watch(&mut c, &doc! {}));
    let mut other = Client::new(&s);
    let writer = std::thread::spawn(move || {
        // The stream is waiting when the other collection is created.
        std::thread::sleep(Duration::from_millis(200));
        for n in 0..50i32 {
            other.send(&doc! { "insert": "quiet", "documents": [{ "_id": n }] });
        }
        std::thread::sleep(Duration::from_millis(100));
        other.send(&doc! { "insert": "c", "documents": [{ "_id": 7i32 }] });
    });
    let began = Instant::now();
    let reply = c.get_more(opened, 20_000);
    assert_eq!(short(&batch(&reply)), ["insert Some(7)"]);
    assert!(began.elapsed() < Duration::from_secs(10));
    assert!(c.waits <= 2, "woken {} times", c.waits);
    writer.join().unwrap();
}

#[test]
fn an_empty_batch_has_a_place_that_moves_on() {
    let s = service();
    let mut c = Client::new(&s);
    let opened = watch(&mut c, &doc! {});
    let text = |d: &DocBuf| d.doc().field("_data").as_str().unwrap().to_owned();
    let first = place(&opened);
    c.run(r#"{"insert": "other", "documents": [{"_id": 1}]}"#);
    let later = place(&c.get_more(id(&opened), 1));
    assert!(text(&first) < text(&later));
    c.run(r#"{"insert": "c", "documents": [{"_id": 1}, {"_id": 2}]}"#);
    let one = c.send(&doc! { "getMore": id(&opened), "collection": "c", "batchSize": 1i32 });
    assert_eq!(text(&place(&one)), text(&token(&batch(&one)[0])));
    for from in [&first, &later] {
        let resumed = watch_behind(&mut c, "resumeAfter", from);
        assert_eq!(
            short(&drain(&mut c, &resumed)),
            ["insert Some(1)", "insert Some(2)"]
        );
    }
}

/// A statement of a transaction.
fn statement(db: &str, command: DocBuf, number: i64, start: bool) -> DocBuf {
    let session = model::Binary {
        subtype: 4,
        bytes: &[7; 16],
    };
    let mut d = command;
    d.put("$db", db);
    d.append(|w| _ = w.doc("lsid").put("id", session));
    d.put("txnNumber", number).put("autocommit", false);
    if start {
        d.put("startTransaction", true);
    }
    d
}

#[test]
fn transactions_are_seen_at_their_commit() {
    let s = service();
    let mut c = Client::new(&s);
    c.run(r#"{"create": "c"}"#);
    let opened = watch(&mut c, &doc! {});
    let insert = doc! { "insert": "c", "documents": [{ "_id": 1i32 }] };
    let change = doc! {
        "update": "c", "updates": [{ "q": { "_id": 1i32 }, "u": { "$inc": { "n": 1i32 } } }]
    };
    for (number, end) in [(1, "abortTransaction"), (2, "commitTransaction")] {
        let replies = [
            c.send(&statement("db", insert.clone(), number, true)),
            c.send(&statement("db", change.clone(), number, false)),
        ];
        assert!(replies.iter().all(|r| code(r) == 0), "{replies:?}");
        assert!(batch(&c.get_more(id(&opened), 1)).is_empty());
        let ended = c.send(&statement("admin", doc! { end: 1i32 }, number, false));
        assert_eq!(code(&ended), 0, "{ended:?}");
    }
    let all = drain(&mut c, &opened);
    assert_eq!(short(&all), ["insert Some(1)", "update Some(1)"]);
    assert!(
        all.iter()
            .all(|e| matches!(e.doc().field("txnNumber"), Value::Int64(2)))
    );
    let resumed = watch_behind(&mut c, "resumeAfter", &token(&all[0]));
    assert_eq!(short(&drain(&mut c, &resumed)), ["update Some(1)"]);
}

// Regression: its events had the times of its log entries, which are before the time of the commit.
#[test]
fn a_change_stream_reports_a_transaction_at_its_commit() {
    let s = service();
    let mut c = Client::new(&s);
    c.run(r#"{"create": "c"}"#);
    let (opened, quiet) = (watch(&mut c, &doc! {}), "q".repeat(7 << 20));
    for n in 0..5i32 {
        let insert = doc! { "insert": "c", "documents": [{ "_id": n, "q": quiet.as_str() }] };
        assert_eq!(code(&c.send(&statement("db", insert, 1, n == 0))), 0);
    }
    let update = doc! {
        "update": "c", "updates": [{ "q": { "_id": 0i32 }, "u": { "$set": { "n": 1i32 } } }]
    };
    assert_eq!(code(&c.send(&statement("db", update, 1, false))), 0);
    assert_eq!(
        code(&c.send(&statement(
            "admin",
            doc! { "commitTransaction": 1i32 },
            1,
            false
        ))),
        0
    );
    c.run(r#"{"insert": "c", "documents": [{"_id": 9}]}"#);
    let filter = doc! { "o.applyOps": { "$exists": true } };
    let find = doc! {
        "find": "oplog.rs", "$db": "local", "filter": &filter, "projection": { "o": 0i32 }
    };
    let links = batch(&c.send(&find));
    let time = |d: Doc<'_>, name: &str| match d.field(name) {
        Value::Timestamp(t) => t.as_u64(),
        v => panic!("{v:?}"),
    };
    let times: Vec<u64> = links.iter().map(|l| time(l.doc(), "ts")).collect();
    assert_eq!(times.len(), 3);
    for (n, link) in links.iter().enumerate() {
        let previous = link.doc().field("prevOpTime").as_doc().unwrap();
        let (ts, term) = if n == 0 { (0, -1) } else { (times[n - 1], 1) };
        assert_eq!(time(previous, "ts"), ts);
        assert_eq!(previous.field("t").as_i64_exact(), Some(term));
    }
    let expected: Vec<String> = (0..5)
        .map(|n| format!("insert Some({n})"))
        .chain(["update Some(0)".to_owned(), "insert Some(9)".to_owned()])
        .collect();
    let all = drain(&mut c, &opened);
    assert_eq!(short(&all), expected);
    for event in &all[..6] {
        assert_eq!(time(event.doc(), "clusterTime"), times[2]);
        assert!(matches!(event.doc().field("txnNumber"), Value::Int64(1)));
    }
    for (n, event) in all.iter().enumerate() {
        let resumed = watch_behind(&mut c, "resumeAfter", &token(event));
        assert_eq!(short(&drain(&mut c, &resumed)), expected[n + 1..]);
    }
    for time in [times[0], times[2]] {
        let time = model::Timestamp::from_u64(time);
        let from = watch(&mut c, &doc! { "startAtOperationTime": time });
        assert_eq!(short(&drain(&mut c, &from)), expected);
    }
}

#[test]
fn documents_before_and_after_changes() {
    let s = service();
    let mut c = Client::new(&s);
    c.run(r#"{"create": "c", "changeStreamPreAndPostImages": {"enabled": true}}"#);
    let modes = |mode: &str| doc! { "fullDocument": mode, "fullDocumentBeforeChange": mode };
    let (required, available) = (
        watch(&mut c, &modes("required")),
        watch(&mut c, &modes("whenAvailable")),
    );
    let lookup = watch(&mut c, &doc! { "fullDocument": "updateLookup" });
    c.run(r#"{"insert": "c", "documents": [{"_id": 1, "a": [1, 2]}]}"#);
    c.run(r#"{"update": "c", "updates": [{"q": {}, "u": {"$push": {"a": 3}}}]}"#);
    c.run(r#"{"delete": "c", "deletes": [{"q": {}, "limit": 0}]}"#);
    let all = drain(&mut c, &required);
    assert_eq!(all.len(), 3);
    let part = |e: &DocBuf, name: &str| format!("{:?}", e.doc().field(name).as_doc());
    assert_eq!(
        part(&all[1], "fullDocument"),
        "Some({ _id: 1, a: [ 1, 2, 3 ] })"
    );
    assert_eq!(
        part(&all[1], "fullDocumentBeforeChange"),
        "Some({ _id: 1, a: [ 1, 2 ] })"
    );
    assert_eq!(
        part(&all[2], "fullDocumentBeforeChange"),
        "Some({ _id: 1, a: [ 1, 2, 3 ] })"
    );
    let looked = drain(&mut c, &lookup);
    assert!(matches!(looked[1].doc().field("fullDocument"), Value::Null));
    let description = looked[1].doc().field("updateDescription").as_doc().unwrap();
    assert_eq!(
        format!("{description:?}"),
        "{ updatedFields: { a.2: 3 }, removedFields: [], truncatedArrays: [] }"
    );
    // Without stored images.
    c.run(r#"{"collMod": "c", "changeStreamPreAndPostImages": {"enabled": false}}"#);
    c.run(r#"{"insert": "c", "documents": [{"_id": 2}]}"#);
    c.run(r#"{"update": "c", "updates": [{"q": {}, "u": {"$set": {"a": 3}}}]}"#);
    let there = drain(&mut c, &available);
    let last = there.last().unwrap().doc();
    assert!(matches!(last.field("fullDocument"), Value::Null));
    assert!(matches!(
        last.field("fullDocumentBeforeChange"),
        Value::Null
    ));
    assert_eq!(code(&c.get_more(id(&required), 10)), 47);
}

#[test]
fn scopes_and_what_may_follow() {
    let s = service();
    let mut c = Client::new(&s);
    let mut open = |db: &str, target: Value<'_>, stages: &str| {
        let stages = crate::interrupts::json(&format!(r#"{{"p": {stages}}}"#));
        let list = stages.doc().field("p");
        c.send(&doc! { "aggregate": target, "pipeline": list, "cursor": {}, "$db": db })
    };
    let all = r#"[{"$changeStream": {"allChangesForCluster": true}}]"#;
    let deployment = open("admin", Value::Int32(1), all);
    let database = open("db", Value::Int32(1), r#"[{"$changeStream": {}}]"#);
    for (db, target, stages, expected) in [
        ("db", Value::Int32(1), all, 72),
        ("admin", Value::Int32(1), r#"[{"$changeStream": {}}]"#, 73),
        (
            "db",
            Value::String("c"),
            r#"[{"$changeStream": {}}, {"$group": {"_id": 1}}]"#,
            20,
        ),
        (
            "db",
            Value::String("c"),
            r#"[{"$match": {}}, {"$changeStream": {}}]"#,
            40_602,
        ),
        (
            "db",
            Value::String("c"),
            r#"[{"$changeStreamSplitLargeEvent": {}}]"#,
            7_182_800,
        ),
        (
            "db",
            Value::String("c"),
            r#"[{"$changeStream": {"resumeAfter": {"_data": "8"}}}]"#,
            9,
        ),
        (
            "db",
            Value::String("c"),
            r#"[{"$changeStream": {"fullDocument": "some"}}]"#,
            2,
        ),
    ] {
        assert_eq!(code(&open(db, target, stages)), expected, "{stages}");
    }
    let gone = model::Timestamp {
        time: 1,
        increment: 1,
    };
    let hidden = open(
        "db",
        Value::String("c"),
        r#"[{"$changeStream": {}}, {"$project": {"_id": 0}}]"#,
    );
    for db in ["db", "db2"] {
        let _ = c.send(&doc! { "insert": "c", "documents": [{ "_id": 1i32 }], "$db": db });
        c.send(&doc! { "dropDatabase": 1i32, "$db": db });
    }
    assert_eq!(code(&c.get_more(id(&hidden), 10)), 280);
    let more = |c: &mut Client, of: &DocBuf, db: &str| {
        c.send(&doc! {
            "getMore": id(of), "collection": "$cmd.aggregate", "maxTimeMS": 10i32, "$db": db
        })
    };
    let events = more(&mut c, &database, "db");
    assert_eq!(
        short(&batch(&events)),
        ["insert Some(1)", "drop", "dropDatabase", "invalidate"]
    );
    let events = more(&mut c, &deployment, "admin");
    assert_eq!(
        short(&batch(&events)),
        [
            "insert Some(1)",
            "drop",
            "dropDatabase",
            "insert Some(1)",
            "drop",
            "dropDatabase"
        ]
    );
    // A resume token from before the start of the log.
    let operation = s.service().own_operation();
    let store = &s.service().store;
    store.resize_log(&operation, Some(1), None).unwrap();
    let lost = watch(&mut c, &doc! { "startAtOperationTime": gone });
    assert_eq!(code(&lost), 286);
}

#[test]
fn a_large_event_comes_in_fragments() {
    let s = service();
    let mut c = Client::new(&s);
    c.run(r#"{"create": "c", "changeStreamPreAndPostImages": {"enabled": true}}"#);
    let (a, b) = ("a".repeat(9 << 20), "b".repeat(9 << 20));
    c.send(&doc! { "insert": "c", "documents": [{ "_id": 1i32, "t": a.as_str() }] });
    let stages = |resume: Option<&DocBuf>| {
        let mut options = doc! { "fullDocumentBeforeChange": "required" };
        if let Some(token) = resume {
            options.put("resumeAfter", token);
        }
        doc! {
            "aggregate": "c", "cursor": {},
            "pipeline": [{ "$changeStream": options.doc() }, { "$changeStreamSplitLargeEvent": {} }]
        }
    };
    let opened = c.send(&stages(None));
    c.send(&doc! {
        "update": "c", "updates": [{ "q": { "_id": 1i32 }, "u": { "t": b.as_str() } }]
    });
    c.run(r#"{"insert": "c", "documents": [{"_id": 2}]}"#);
    let all = drain(&mut c, &opened);
    let part = |e: &DocBuf| format!("{:?}", e.doc().field("splitEvent").as_doc());
    assert_eq!(all.len(), 3);
    assert_eq!(part(&all[0]), "Some({ fragment: 1, of: 2 })");
    assert_eq!(part(&all[1]), "Some({ fragment: 2, of: 2 })");
    assert!(all[1].doc().contains("fullDocumentBeforeChange"));
    let resumed = c.send(&stages(Some(&token(&all[0]))));
    let rest = drain(&mut c, &resumed);
    assert_eq!(rest.len(), 2);
    assert!(rest[0].doc().as_bytes() == all[1].doc().as_bytes());
}

#[test]
fn the_log_can_be_read_and_applied() {
    let s = service();
    let mut c = Client::new(&s);
    c.run(r#"{"insert": "c", "documents": [{"_id": 1, "n": 1}]}"#);
    c.run(r#"{"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}}]}"#);
    let mut find = |filter: &DocBuf, natural: i32| {
        let command = doc! {
            "find": "oplog.rs", "filter": filter, "sort": { "$natural": natural }, "$db": "local"
        };
        batch(&c.send(&command))
    };
    let all = find(&doc! {}, 1);
    let time = |d: &DocBuf| match d.doc().field("ts") {
        Value::Timestamp(t) => t,
        other => panic!("{other:?}"),
    };
    let ops: Vec<&str> = all
        .iter()
        .map(|d| d.doc().field("op").as_str().unwrap())
        .collect();
    assert_eq!(ops, ["n", "c", "i", "u"]);
    let behind = find(&doc! { "ts": { "$gt": time(&all[1]) } }, 1);
    assert!(behind[..] == all[2..]);
    let before = find(&doc! { "ts": { "$lte": time(&all[1]) } }, -1);
    assert_eq!(before.len(), 2);
    assert!(before[0] == all[1]);
    assert_eq!(
        code(&c.send(&doc! { "insert": "oplog.rs", "documents": [{}], "$db": "local" })),
        73
    );
    // The same changes on another server.
    let mut other = Client::new(&service());
    let command = DocBuf::build(|w| {
        let mut list = w.array("applyOps");
        all[1..].iter().for_each(|e| _ = list.push(e));
        drop(list);
        w.put("$db", "admin");
    });
    let applied = other.send(&command);
    assert!(
        matches!(applied.doc().field("applied"), Value::Int32(3)),
        "{applied:?}"
    );
    let found = other.run(r#"{"find": "c"}"#);
    assert_eq!(format!("{:?}", batch(&found)), "[{ _id: 1, n: 2 }]");
    // Sending it again has no effect.
    assert_eq!(code(&other.send(&command)), 0);
}

#[test]
fn a_standalone_server_has_no_streams() {
    let config = Config {
        replica_set: None,
        ..Config::default()
    };
    let s = serve(config, crate::behaviour::store());
    let mut c = Client::new(&s);
    assert_eq!(code(&watch(&mut c, &doc! {})), 40_573);
}

#[test]
fn status_counts_what_the_log_refers_to() {
    let s = service();
    let mut c = Client::new(&s);
    let counts = |c: &mut Client| {
        let status = c.send(&doc! { "serverStatus": 1i32, "$db": "admin" });
        let quarry = status.doc().field("quarry").as_doc().unwrap();
        let counts = quarry.field("logReferences").as_doc().unwrap();
        ["made", "saved", "followed"].map(|name| counts.field(name).as_i64_exact().unwrap())
    };
    let pad = "p".repeat(1000);
    c.send(&doc! { "insert": "c", "documents": [{ "_id": 1i32, "pad": pad.as_str() }] });
    let [made, saved, followed] = counts(&mut c);
    assert_eq!((made, saved), (1, 0));
    c.send(&doc! { "delete": "c", "deletes": [{ "q": {}, "limit": 0i32 }] });
    let inserts =
        doc! { "find": "oplog.rs", "filter": { "op": "i", "ns": "db.c" }, "$db": "local" };
    let found = batch(&c.send(&inserts));
    assert_eq!(found.len(), 1, "{found:?}");
    let o = found[0].doc().field("o").as_doc().unwrap();
    assert_eq!(o.field("pad").as_str(), Some(pad.as_str()));
    assert_eq!(counts(&mut c)[..2], [1, 1]);
    assert!(counts(&mut c)[2] > followed);
}
