//! Replies to clients: errors, handshake, sessions.

use crate::behaviour::{send, serve, store};
use commands::{Config, Dispatcher, Outcome, Request, WaitFor};
use model::{DocBuf, Value, doc};
use std::sync::Arc;

pub(crate) fn service() -> Arc<Dispatcher> {
    serve(Config::default(), store())
}

fn code(d: &DocBuf) -> i64 {
    d.doc().field("code").as_i64_exact().unwrap_or(0)
}

#[test]
fn unknown_commands_and_arguments() {
    let s = service();
    let mut c = s.connect("127.0.0.1:1");
    let r = send(&s, &mut c, "admin", doc! { "atlasVersion": 1i32 }.doc());
    assert_eq!(
        r.doc().field("errmsg").as_str(),
        Some("no such command: 'atlasVersion'")
    );
    assert_eq!(r.doc().field("codeName").as_str(), Some("CommandNotFound"));
    assert_eq!(
        code(&send(&s, &mut c, "admin", doc! { "Ping": 1i32 }.doc())),
        59
    );
    assert_eq!(code(&send(&s, &mut c, "admin", doc! {}.doc())), 59);
    assert_eq!(
        code(&send(
            &s,
            &mut c,
            "admin",
            doc! { "ping": 1i32, "x": 1i32 }.doc()
        )),
        40415
    );
    assert_eq!(
        code(&send(
            &s,
            &mut c,
            "admin",
            doc! { "ping": 1i32, "comment": 1i32, "comment": 2i32 }.doc()
        )),
        40413
    );
    assert_eq!(
        code(&send(&s, &mut c, "a.b", doc! { "ping": 1i32 }.doc())),
        73
    );
    let mut reply = Vec::new();
    s.handle(
        &mut c,
        &Request::new(doc! { "ping": 1i32 }.doc()),
        &mut reply,
    );
    assert_eq!(code(&DocBuf::from_bytes(reply).unwrap()), 40571);
}

#[test]
fn replica_set_replies_carry_times() {
    let s = service();
    let mut c = s.connect("127.0.0.1:1");
    let r = send(&s, &mut c, "admin", doc! { "ping": 1i32 }.doc());
    let names: Vec<&str> = r.doc().iter().map(|(k, _)| k).collect();
    assert_eq!(names, ["ok", "$clusterTime", "operationTime"]);
    let alone = serve(
        Config {
            replica_set: None,
            ..Config::default()
        },
        store(),
    );
    let mut c = alone.connect("127.0.0.1:1");
    assert_eq!(
        send(&alone, &mut c, "admin", doc! { "ping": 1i32 }.doc()),
        doc! { "ok": 1.0 }
    );
    let r = send(&alone, &mut c, "admin", doc! { "hello": 1i32 }.doc());
    assert!(!r.doc().contains("setName") && r.doc().contains("isWritablePrimary"));
}

#[test]
fn hello_negotiates_and_waits() {
    let s = service();
    let mut c = s.connect("127.0.0.1:1");
    let r = send(
        &s,
        &mut c,
        "admin",
        doc! { "isMaster": 1i32, "helloOk": true, "compression": ["snappy", "none", "zstd"] }.doc(),
    );
    assert_eq!(r.doc().field("helloOk").as_bool(), Some(true));
    assert_eq!(r.doc().field("setName").as_str(), Some("rs0"));
    assert!(matches!(r.doc().field("maxWireVersion"), Value::Int32(27)));
    assert_eq!(c.compressors, ["snappy", "zstd"]);
    let version = r.doc().field("topologyVersion");
    let ask = doc! { "hello": 1i32, "topologyVersion": version, "maxAwaitTimeMS": 10_000i32,
    "$db": "admin" };
    let mut out = Vec::new();
    let request = Request {
        exhaust_allowed: true,
        ..Request::new(ask.doc())
    };
    let Outcome::Wait {
        until_us,
        on: WaitFor::Topology,
    } = s.handle(&mut c, &request, &mut out)
    else {
        panic!("must wait")
    };
    assert!(out.is_empty() && until_us >= s.service().clock.monotonic_us() + 9_000_000);
    assert_eq!(
        s.handle(
            &mut c,
            &Request {
                waited: true,
                ..request
            },
            &mut out
        ),
        Outcome::Exhaust
    );
    s.service().count_topology_change();
    assert_eq!(
        s.handle(&mut c, &request, &mut Vec::new()),
        Outcome::Exhaust
    );
    assert_eq!(
        code(&send(
            &s,
            &mut c,
            "admin",
            doc! { "hello": 1i32, "maxAwaitTimeMS": 1i32 }.doc()
        )),
        31368
    );
}

#[test]
fn more_to_come_is_never_answered() {
    let s = service();
    let mut c = s.connect("127.0.0.1:1");
    let mut out = Vec::new();
    for body in [
        doc! { "ping": 1i32, "$db": "admin" },
        doc! { "nothing": 1i32, "$db": "admin" },
    ] {
        let request = Request {
            more_to_come: true,
            ..Request::new(body.doc())
        };
        assert_eq!(s.handle(&mut c, &request, &mut out), Outcome::NoReply);
    }
    assert!(out.is_empty());
}

#[test]
fn malformed_bodies_are_answered() {
    let s = service();
    let mut c = s.connect("127.0.0.1:1");
    // A string whose declared length exceeds its document.
    let bytes = [
        20u8, 0, 0, 0, 2, b'p', 0, 99, 0, 0, 0, b'x', 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    let mut out = Vec::new();
    s.handle(
        &mut c,
        &Request::new(model::Doc::new(&bytes).unwrap()),
        &mut out,
    );
    assert_eq!(code(&DocBuf::from_bytes(out).unwrap()), 22);
}

#[test]
fn retried_writes_run_once() {
    let s = service();
    let mut c = s.connect("127.0.0.1:1");
    let lsid = doc! { "id": model::Binary { subtype: 4, bytes: &[7; 16] } };
    send(
        &s,
        &mut c,
        "db",
        doc! { "insert": "c", "documents": [{ "_id": 1i32, "n": 0i32 }] }.doc(),
    );
    let mut inc = |number: i64| {
        let u = doc! { "q": { "_id": 1i32 }, "u": { "$inc": { "n": 1i32 } } };
        send(
            &s,
            &mut c,
            "db",
            doc! { "update": "c", "updates": [&u], "lsid": &lsid, "txnNumber": number }.doc(),
        )
    };
    for _ in 0..2 {
        let r = inc(5);
        assert_eq!(r.doc().field("nModified").as_i64_exact(), Some(1), "{r:?}");
    }
    assert_eq!(code(&inc(4)), 225);
    inc(6);
    let found = send(&s, &mut c, "db", doc! { "find": "c", "filter": {} }.doc());
    let batch = found
        .doc()
        .field("cursor")
        .as_doc()
        .unwrap()
        .field("firstBatch")
        .as_array()
        .unwrap();
    assert_eq!(
        batch
            .get(0)
            .unwrap()
            .as_doc()
            .unwrap()
            .field("n")
            .as_i64_exact(),
        Some(2)
    );
    let r = send(
        &s,
        &mut c,
        "db",
        doc! { "find": "c", "lsid": &lsid, "txnNumber": 7i64,
        "autocommit": false, "startTransaction": true }
        .doc(),
    );
    assert_eq!(code(&r), 0, "a transaction follows retryable writes: {r:?}");
}

#[test]
fn cursors_over_the_protocol() {
    let s = service();
    let mut c = s.connect("127.0.0.1:1");
    let docs: Vec<DocBuf> = (0..5i32).map(|i| doc! { "_id": i }).collect();
    let insert = DocBuf::build(|w| {
        w.put("insert", "c");
        let mut a = w.array("documents");
        for d in &docs {
            a.push(d);
        }
    });
    assert_eq!(
        send(&s, &mut c, "db", insert.doc())
            .doc()
            .field("n")
            .as_i64_exact(),
        Some(5)
    );
    let found = send(
        &s,
        &mut c,
        "db",
        doc! { "find": "c", "batchSize": 2i32 }.doc(),
    );
    let id = found.doc().field("cursor").as_doc().unwrap().field("id");
    assert_eq!(
        code(&send(
            &s,
            &mut c,
            "db",
            doc! { "getMore": id, "collection": "d" }.doc()
        )),
        13
    );
    assert_eq!(
        code(&send(
            &s,
            &mut c,
            "db",
            doc! { "getMore": id, "collection": "c", "maxTimeMS": 5i32 }.doc()
        )),
        2
    );
    let more = send(
        &s,
        &mut c,
        "db",
        doc! { "getMore": id, "collection": "c" }.doc(),
    );
    let cursor = more.doc().field("cursor").as_doc().unwrap();
    assert_eq!(
        (
            cursor.field("nextBatch").as_array().unwrap().len(),
            cursor.field("id").as_i64_exact()
        ),
        (3, Some(0))
    );
    assert_eq!(
        code(&send(
            &s,
            &mut c,
            "db",
            doc! { "getMore": id, "collection": "c" }.doc()
        )),
        43
    );
    let found = send(
        &s,
        &mut c,
        "db",
        doc! { "find": "c", "batchSize": 2i32 }.doc(),
    );
    let id = found.doc().field("cursor").as_doc().unwrap().field("id");
    send(&s, &mut c, "db", doc! { "drop": "c" }.doc());
    assert_eq!(
        code(&send(
            &s,
            &mut c,
            "db",
            doc! { "getMore": id, "collection": "c" }.doc()
        )),
        175
    );
}

#[test]
fn fsync_holds_writes_back() {
    let s = service();
    let mut c = s.connect("127.0.0.1:1");
    send(
        &s,
        &mut c,
        "admin",
        doc! { "fsync": 1i32, "lock": true }.doc(),
    );
    let write = doc! { "insert": "c", "documents": [{ "_id": 1i32 }], "$db": "db" };
    let mut out = Vec::new();
    let held = s.handle(&mut c, &Request::new(write.doc()), &mut out);
    assert!(
        matches!(
            held,
            Outcome::Wait {
                on: WaitFor::Unlock,
                ..
            }
        ) && out.is_empty()
    );
    send(&s, &mut c, "admin", doc! { "fsyncUnlock": 1i32 }.doc());
    assert!(matches!(
        s.handle(&mut c, &Request::new(write.doc()), &mut out),
        Outcome::Durable(_)
    ));
}
