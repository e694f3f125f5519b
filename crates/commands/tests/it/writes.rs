//! Options of writing commands: validation, write concerns, hints, sorts, constants, cursors of
//! bulkWrite.

use crate::behaviour::{send, serve, store};
use crate::protocol::service;
use commands::{Config, Connection, Dispatcher};
use model::{Doc, DocBuf, Value, doc};
use std::sync::Arc;

struct Client {
    service: Arc<Dispatcher>,
    conn: Connection,
}

impl Client {
    fn new() -> Client {
        Client::of(service())
    }
    fn of(service: Arc<Dispatcher>) -> Client {
        let conn = service.connect("127.0.0.1:1");
        Client { service, conn }
    }
    fn run(&mut self, command: DocBuf) -> DocBuf {
        let db = if command.doc().contains("bulkWrite") {
            "admin"
        } else {
            "db"
        };
        send(&self.service, &mut self.conn, db, command.doc())
    }
    fn ok(&mut self, command: DocBuf) -> DocBuf {
        let r = self.run(command);
        assert_eq!(r.doc().field("ok").as_f64(), Some(1.0), "{r:?}");
        assert!(!r.doc().contains("writeErrors"), "{r:?}");
        r
    }
    fn docs(&mut self, coll: &str) -> Vec<DocBuf> {
        let r = self.ok(doc! { "find": coll, "sort": { "_id": 1i32 } });
        batch(r.doc(), "firstBatch")
    }
}

fn batch(reply: Doc<'_>, name: &str) -> Vec<DocBuf> {
    let cursor = reply.field("cursor").as_doc().unwrap();
    cursor
        .field(name)
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v.as_doc().unwrap().to_buf())
        .collect()
}

fn write_error(r: &DocBuf) -> DocBuf {
    r.doc()
        .field("writeErrors")
        .as_array()
        .and_then(|a| a.get(0))
        .and_then(|v| v.as_doc())
        .unwrap_or(Doc::EMPTY)
        .to_buf()
}

#[test]
fn a_document_of_more_than_180_levels_is_not_inserted() {
    let mut client = Client::new();
    let nested = |levels: i32| {
        let innermost = doc! { "a": 1i32 };
        (1..levels).fold(innermost, |inner, _| doc! { "a": &inner })
    };
    client.ok(doc! { "insert": "c", "documents": [&nested(180)] });
    let refused = client.run(doc! { "insert": "c", "documents": [&nested(181)] });
    let error = write_error(&refused);
    assert_eq!(
        error.doc().field("code").as_f64(),
        Some(15.0),
        "{refused:?}"
    );
    assert_eq!(
        error.doc().field("errmsg").as_str(),
        Some("cannot insert document because it exceeds 180 levels of nesting")
    );
    let replacement = doc! { "q": {}, "u": &nested(181) };
    let refused = client.run(doc! { "update": "c", "updates": [&replacement] });
    let error = write_error(&refused);
    assert_eq!(
        error.doc().field("code").as_f64(),
        Some(15.0),
        "{refused:?}"
    );
    assert_eq!(client.docs("c").len(), 1);
}

#[test]
fn validators_explain_log_and_are_bypassed() {
    let mut c = Client::new();
    c.ok(doc! { "create": "v", "validator": { "a": { "$gt": 0i32 } } });
    let bad = || doc! { "insert": "v", "documents": [{ "_id": 1i32, "a": -1i32 }] };
    let e = write_error(&c.run(bad()));
    let info = doc! { "failingDocumentId": 1i32, "details": { "operatorName": "$gt",
    "specifiedAs": { "a": { "$gt": 0i32 } }, "reason": "comparison failed",
    "consideredValue": -1i32 } };
    assert_eq!(
        e,
        doc! { "index": 0i32, "code": 121i32, "errInfo": &info, "errmsg": "Document failed \
        validation" }
    );
    let mut bypass = bad();
    bypass.put("bypassDocumentValidation", 1.5);
    c.ok(bypass);
    // An update of a document that is already invalid: refused when strict, allowed when moderate.
    let touch = |n: i32| {
        doc! { "update": "v", "updates": [{ "q": { "_id": 1i32 },
        "u": { "$set": { "n": n } } }] }
    };
    assert_eq!(
        write_error(&c.run(touch(1)))
            .doc()
            .field("code")
            .as_i64_exact(),
        Some(121)
    );
    c.ok(doc! { "collMod": "v", "validationLevel": "moderate" });
    c.ok(touch(2));
    // Pipelines that write.
    c.ok(doc! { "collMod": "v", "validationLevel": "strict" });
    c.ok(doc! { "insert": "from", "documents": [{ "_id": 9i32, "a": -9i32 }] });
    for stage in [doc! { "$merge": { "into": "v" } }, doc! { "$out": "v" }] {
        let merge = |bypass: bool| {
            doc! { "aggregate": "from", "pipeline": [&stage], "cursor": {},
            "bypassDocumentValidation": bypass }
        };
        assert_eq!(
            c.run(merge(false)).doc().field("code").as_i64_exact(),
            Some(121),
            "{stage:?}"
        );
        c.ok(merge(true));
    }
    // First only warnings, then both warnings and errors.
    c.ok(doc! { "collMod": "v", "validationAction": "warn" });
    c.ok(doc! { "insert": "v", "documents": [{ "_id": 70i32, "a": -7i32 }] });
    let logged = |c: &mut Client| {
        format!(
            "{:?}",
            send(
                &c.service,
                &mut c.conn,
                "admin",
                doc! { "getLog": "global" }.doc()
            )
        )
        .matches("would fail validation")
        .count()
    };
    assert_eq!(logged(&mut c), 1);
    c.ok(doc! { "collMod": "v", "validationAction": "errorAndLog" });
    let r = c.run(doc! { "insert": "v", "documents": [{ "_id": 71i32, "a": -7i32 }] });
    assert_eq!(
        write_error(&r).doc().field("code").as_i64_exact(),
        Some(121)
    );
    assert_eq!(logged(&mut c), 2);
}

#[test]
fn write_concerns_no_single_member_can_satisfy() {
    let mut c = Client::new();
    let mut n = 0;
    let mut with = |c: &mut Client, wc: DocBuf| {
        n += 1;
        c.run(doc! { "insert": "c", "documents": [{ "_id": n }], "writeConcern": &wc })
    };
    for (wc, code, name) in [
        (
            doc! { "w": 2i32, "wtimeout": 50i32 },
            100,
            "UnsatisfiableWriteConcern",
        ),
        (
            doc! { "w": { "dc": 1i32 } },
            100,
            "UnsatisfiableWriteConcern",
        ),
        (
            doc! { "w": "unknown", "j": true },
            79,
            "UnknownReplWriteConcern",
        ),
        (doc! { "w": "" }, 79, "UnknownReplWriteConcern"),
    ] {
        let r = with(&mut c, wc.clone());
        assert_eq!(
            r.doc().field("n").as_i64_exact(),
            Some(1),
            "the write is done: {r:?}"
        );
        let e = r.doc().field("writeConcernError").as_doc().unwrap();
        assert_eq!(
            (e.field("code").as_i64_exact(), e.field("codeName").as_str()),
            (Some(code), Some(name))
        );
        let given = e
            .field("errInfo")
            .as_doc()
            .unwrap()
            .field("writeConcern")
            .as_doc()
            .unwrap();
        assert_eq!(given.field("provenance").as_str(), Some("clientSupplied"));
    }
    for wc in [
        doc! { "w": 1i32 },
        doc! { "w": "majority", "wtimeout": 1i32 },
        doc! { "w": 0i32 },
        doc! { "w": 1i32, "j": true },
    ] {
        let r = with(&mut c, wc);
        assert!(
            !r.doc().contains("writeConcernError") && r.doc().field("ok").as_f64() == Some(1.0),
            "{r:?}"
        );
    }
    assert_eq!(c.docs("c").len(), 8);
    // Refused as a whole: not a set member, or not a write concern.
    assert_eq!(
        with(&mut c, doc! { "w": 51i32 })
            .doc()
            .field("code")
            .as_i64_exact(),
        Some(9)
    );
    let alone = serve(
        Config {
            replica_set: None,
            ..Config::default()
        },
        store(),
    );
    let mut alone = Client::of(alone);
    for wc in [doc! { "w": 2i32 }, doc! { "w": "unknown" }] {
        assert_eq!(
            with(&mut alone, wc).doc().field("code").as_i64_exact(),
            Some(2)
        );
    }
    assert!(alone.docs("c").is_empty());
    let r = with(&mut c, doc! { "w": Value::Null });
    assert!(!r.doc().contains("writeConcernError"), "the default: {r:?}");
    assert_eq!(r.doc().field("n").as_i64_exact(), Some(1), "{r:?}");
}

#[test]
fn updates_take_sort_hint_let_and_constants() {
    let mut c = Client::new();
    c.ok(
        doc! { "insert": "c", "documents": [{ "_id": 1i32, "k": 1i32, "a": [1i32, 5i32] },
        { "_id": 2i32, "k": 2i32, "a": [7i32] }] },
    );
    c.ok(doc! { "createIndexes": "c", "indexes": [{ "key": { "k": 1i32 }, "name": "k_1" }] });
    c.ok(
        doc! { "update": "c", "updates": [{ "q": {}, "u": { "$set": { "last": true } },
        "sort": { "k": -1i32 }, "hint": "k_1" }] },
    );
    c.ok(
        doc! { "update": "c", "let": { "x": 1i32, "y": 4i32 }, "updates": [
        { "q": { "$expr": { "$eq": ["$k", "$$x"] } }, "u": [{ "$set": { "sum": { "$add": ["$$y",
            "$$z"] } } }], "c": { "z": 10i32 } }] },
    );
    c.ok(doc! { "update": "c", "updates": [{ "q": { "_id": 1i32 },
    "u": { "$set": { "a.$[big]": 0i32 } }, "arrayFilters": [{ "big": { "$gt": 3i32 } }] }] });
    assert_eq!(
        c.docs("c"),
        [
            doc! { "_id": 1i32, "k": 1i32, "a": [1i32, 0i32], "sum": 14i32 },
            doc! { "_id": 2i32, "k": 2i32, "a": [7i32], "last": true },
        ]
    );
    for command in [
        doc! { "update": "c", "updates": [{ "q": {}, "u": { "$set": { "n": 1i32 } },
        "hint": "none" }] },
        doc! { "delete": "c", "deletes": [{ "q": {}, "limit": 1i32, "hint": { "zz": 1i32 } }] },
    ] {
        assert_eq!(
            write_error(&c.run(command))
                .doc()
                .field("code")
                .as_i64_exact(),
            Some(2)
        );
    }
    let fam = c.run(doc! { "findAndModify": "c", "query": {}, "remove": true, "hint": "none" });
    assert_eq!(fam.doc().field("code").as_i64_exact(), Some(2));
    let collation = doc! { "delete": "c", "deletes": [{ "q": { "s": "A" }, "limit": 0i32,
    "collation": { "locale": "en", "strength": 2i32 } }] };
    c.ok(doc! { "insert": "c", "documents": [{ "_id": 3i32, "s": "a" }] });
    assert_eq!(c.ok(collation).doc().field("n").as_i64_exact(), Some(1));
}

#[test]
fn bulk_write_hands_out_large_results_in_batches() {
    let mut c = Client::new();
    // Twenty results of a megabyte each do not fit into one reply.
    let id = |n: usize| format!("{n:02}{}", "x".repeat(1 << 20));
    let bulk = |errors_only: bool| {
        DocBuf::build(|w| {
            w.put("bulkWrite", 1i32)
                .put("errorsOnly", errors_only)
                .put("ordered", false);
            w.array("nsInfo").doc().put("ns", "db.big");
            let mut ops = w.array("ops");
            for n in 0..20 {
                let mut op = ops.doc();
                op.put("update", 0i32).put("upsert", true);
                op.doc("filter").put("_id", id(n).as_str());
                op.doc("updateMods").doc("$inc").put("n", 1i32);
            }
            ops.doc()
                .put("insert", 0i32)
                .doc("document")
                .put("_id", "00")
                .put("n", 0i32);
            ops.doc()
                .put("insert", 0i32)
                .doc("document")
                .put("_id", "00");
        })
    };
    let r = c.ok(bulk(false));
    assert_eq!(r.doc().field("nUpserted").as_i64_exact(), Some(20));
    let mut seen = batch(r.doc(), "firstBatch");
    assert!(
        !seen.is_empty()
            && seen.len() < 20
            && r.as_bytes().len() <= model::bson::MAX_DOCUMENT_BYTES + 16 * 1024
    );
    let mut cursor = r
        .doc()
        .field("cursor")
        .as_doc()
        .unwrap()
        .field("id")
        .as_i64_exact()
        .unwrap();
    while cursor != 0 {
        let r = send(
            &c.service,
            &mut c.conn,
            "admin",
            doc! { "getMore": cursor, "collection": "$cmd.bulkWrite" }.doc(),
        );
        seen.extend(batch(r.doc(), "nextBatch"));
        cursor = r
            .doc()
            .field("cursor")
            .as_doc()
            .unwrap()
            .field("id")
            .as_i64_exact()
            .unwrap();
    }
    let places: Vec<i64> = seen
        .iter()
        .filter_map(|d| d.doc().field("idx").as_i64_exact())
        .collect();
    assert_eq!(places, (0..22).collect::<Vec<_>>());
    // Only the errors: now both inserts.
    let r = c.ok(bulk(true));
    let failed = batch(r.doc(), "firstBatch");
    assert_eq!(
        failed
            .iter()
            .map(|d| d.doc().field("code").as_i64_exact())
            .collect::<Vec<_>>(),
        [Some(11000), Some(11000)]
    );
    assert_eq!(
        (
            r.doc().field("nModified").as_i64_exact(),
            r.doc().field("nErrors").as_i64_exact()
        ),
        (Some(20), Some(2))
    );
}
