//! Retryable writes: a retry is answered from the session's record, also after a restart of the
//! server.

use crate::behaviour::send;
use commands::{Clock, Config, Connection, Dispatcher, Service, StoreHooks, SystemClock, registry};
use model::{Binary, DocBuf, Value, doc};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use storage::MemoryEngine;
use store::Store;

/// A clock that the test moves.
#[derive(Debug, Default)]
struct ManualClock(AtomicI64);

impl Clock for ManualClock {
    fn now_ms(&self) -> i64 {
        1_700_000_000_000 + self.0.load(Ordering::Relaxed)
    }
    fn monotonic_us(&self) -> u64 {
        self.0.load(Ordering::Relaxed) as u64 * 1000
    }
}

/// A server over data that survives its process.
struct Server {
    engine: Arc<MemoryEngine>,
    clock: Arc<ManualClock>,
    service: Arc<Dispatcher>,
    conn: Connection,
}

impl Server {
    fn new() -> Server {
        Server::start_on(Arc::new(MemoryEngine::new()))
    }
    fn start_on(engine: Arc<MemoryEngine>) -> Server {
        let clock = Arc::new(ManualClock::default());
        let store = Store::open(
            engine.clone(),
            Arc::new(StoreHooks::new(Arc::new(SystemClock::default())).with_log(1 << 30)),
        )
        .unwrap();
        let service = Arc::new(registry::dispatcher(
            Service::new(Config::default(), clock.clone(), Arc::new(store)).into_shared(),
        ));
        let conn = service.connect("127.0.0.1:1");
        Server {
            engine,
            clock,
            service,
            conn,
        }
    }
    /// The process ends: its memory is lost, the engine's content stays.
    fn restart(self) -> Server {
        Server::start_on(self.engine)
    }
    fn run(&mut self, command: DocBuf) -> DocBuf {
        let db = if command.doc().contains("bulkWrite") {
            "admin"
        } else {
            "db"
        };
        let mut r = send(&self.service, &mut self.conn, db, command.doc());
        r = DocBuf::build(|w| {
            for (k, v) in r.doc().iter().filter(|(k, _)| {
                !matches!(*k, "$clusterTime" | "operationTime" | "codeName" | "cursor")
            }) {
                w.put(k, v);
            }
        });
        r
    }
    fn session(&mut self, number: i64, mut command: DocBuf) -> DocBuf {
        command.put(
            "lsid",
            &doc! { "id": Binary { subtype: 4, bytes: &[9; 16] } },
        );
        command.put("txnNumber", number);
        self.run(command)
    }
    fn docs(&mut self) -> Vec<String> {
        let r = send(
            &self.service,
            &mut self.conn,
            "db",
            doc! { "find": "c", "sort": { "_id": 1i32 } }.doc(),
        );
        let batch = r
            .doc()
            .field("cursor")
            .as_doc()
            .unwrap()
            .field("firstBatch")
            .as_array()
            .unwrap();
        batch
            .iter()
            .map(|v| format!("{:?}", v.as_doc().unwrap().to_buf()))
            .collect()
    }
    fn code(&mut self, number: i64, command: DocBuf) -> i64 {
        let r = self.session(number, command);
        let first = r
            .doc()
            .field("writeErrors")
            .as_array()
            .and_then(|a| a.get(0));
        let d = first.as_ref().and_then(Value::as_doc).unwrap_or(r.doc());
        d.field("code").as_i64_exact().unwrap_or(0)
    }
}

fn update(list: Vec<DocBuf>) -> DocBuf {
    DocBuf::build(|w| {
        w.put("update", "c");
        let mut a = w.array("updates");
        for u in &list {
            a.push(u);
        }
    })
}

fn inc(id: i32) -> DocBuf {
    doc! { "q": { "_id": id }, "u": { "$inc": { "n": 1i32 } } }
}

#[test]
fn a_retry_runs_only_what_was_not_done() {
    let mut s = Server::new();
    let insert = |from: i32, to: i32| {
        DocBuf::build(|w| {
            w.put("insert", "c");
            let mut a = w.array("documents");
            for i in from..to {
                a.doc().put("_id", i).put("n", 0i32);
            }
        })
    };
    assert_eq!(s.session(1, insert(0, 2)), doc! { "n": 2i32, "ok": 1.0 });
    // The third document is new: the driver sends the same statement numbers and one more.
    let again = doc! { "n": 3i32, "retriedStmtIds": [0i32, 1i32], "ok": 1.0 };
    assert_eq!(s.session(1, insert(0, 3)), again);
    let mut s = s.restart();
    let all = doc! { "n": 3i32, "retriedStmtIds": [0i32, 1i32, 2i32], "ok": 1.0 };
    assert_eq!(s.session(1, insert(0, 3)), all);

    let ups = || {
        update(vec![
            inc(0),
            doc! { "q": { "_id": 7i32 }, "u": { "$inc": { "n": 1i32 } }, "upsert": true },
            inc(1),
        ])
    };
    let first = doc! { "n": 3i32, "upserted": [{ "index": 1i32, "_id": 7i32 }], "nModified": 2i32,
    "ok": 1.0 };
    assert_eq!(s.session(2, ups()), first);
    for _ in 0..2 {
        let retry = s.session(2, ups());
        let expected = doc! { "n": 3i32, "upserted": [{ "index": 1i32, "_id": 7i32 }],
        "nModified": 2i32, "retriedStmtIds": [0i32, 1i32, 2i32], "ok": 1.0 };
        assert_eq!(retry, expected);
        s = s.restart();
    }
    let del = || doc! { "delete": "c", "deletes": [{ "q": { "n": 1i32 }, "limit": 1i32 }] };
    assert_eq!(s.session(3, del()), doc! { "n": 1i32, "ok": 1.0 });
    let mut s = s.restart();
    assert_eq!(
        s.session(3, del()),
        doc! { "n": 1i32, "retriedStmtIds": [0i32], "ok": 1.0 }
    );
    assert_eq!(s.docs().len(), 3);
    // A statement that changed nothing is not recorded, so it is run again.
    let none = || doc! { "delete": "c", "deletes": [{ "q": { "_id": 99i32 }, "limit": 1i32 }] };
    assert_eq!(s.session(4, none()), doc! { "n": 0i32, "ok": 1.0 });
    assert_eq!(s.session(4, none()), doc! { "n": 0i32, "ok": 1.0 });
}

#[test]
fn find_and_modify_returns_the_stored_image() {
    let mut s = Server::new();
    s.run(doc! { "insert": "c", "documents": [{ "_id": 1i32, "n": 0i32, "x": 5i32 }] });
    let fam = |new: bool| {
        doc! { "findAndModify": "c", "query": { "_id": 1i32 },
        "update": { "$inc": { "n": 1i32 } }, "new": new, "fields": { "x": 0i32 } }
    };
    let reply = |n: i32| {
        doc! { "lastErrorObject": { "n": 1i32, "updatedExisting": true },
        "value": { "_id": 1i32, "n": n } }
    };
    let with = |mut d: DocBuf, retried: bool| {
        if retried {
            d.put("retriedStmtId", 0i32);
        }
        d.put("ok", 1.0);
        d
    };
    assert_eq!(s.session(1, fam(false)), with(reply(0), false));
    let mut s = s.restart();
    assert_eq!(s.session(1, fam(false)), with(reply(0), true));
    assert_eq!(s.code(1, fam(true)), 40611);
    assert_eq!(
        s.code(
            1,
            doc! { "findAndModify": "c", "query": { "_id": 1i32 }, "remove": true }
        ),
        40609
    );
    assert_eq!(s.session(2, fam(true)), with(reply(2), false));
    assert_eq!(s.code(2, fam(false)), 40612);
    assert_eq!(s.session(2, fam(true)), with(reply(2), true));
    let make = |new: bool| {
        doc! { "findAndModify": "c", "query": { "_id": 5i32 },
        "update": { "$inc": { "n": 1i32 } }, "upsert": true, "new": new }
    };
    let made = doc! { "lastErrorObject": { "n": 1i32, "updatedExisting": false, "upserted": 5i32 },
    "value": { "_id": 5i32, "n": 1i32 } };
    assert_eq!(s.session(3, make(true)), with(made.clone(), false));
    let mut s = s.restart();
    assert_eq!(s.session(3, make(true)), with(made, true));
    let gone = || doc! { "findAndModify": "c", "query": { "_id": 5i32 }, "remove": true };
    let reply = doc! { "lastErrorObject": { "n": 1i32 }, "value": { "_id": 5i32, "n": 1i32 } };
    assert_eq!(s.session(4, gone()), with(reply.clone(), false));
    let mut s = s.restart();
    assert_eq!(s.session(4, gone()), with(reply, true));
    assert_eq!(s.code(4, fam(false)), 40606);
    assert_eq!(
        s.docs(),
        [format!("{:?}", doc! { "_id": 1i32, "n": 2i32, "x": 5i32 })]
    );
}

#[test]
fn numbers_go_forward_and_statements_are_single() {
    let mut s = Server::new();
    let insert = |id: i32| doc! { "insert": "c", "documents": [{ "_id": id }] };
    s.session(5, insert(1));
    assert_eq!(s.code(4, insert(2)), 225);
    let mut s = s.restart();
    assert_eq!(s.code(4, insert(2)), 225);
    // A failed write also uses its number.
    assert_eq!(s.code(6, insert(1)), 11000);
    assert_eq!(s.code(5, insert(1)), 225);
    assert_eq!(s.code(6, insert(1)), 11000);
    let many = doc! { "q": {}, "u": { "$set": { "a": 1i32 } }, "multi": true };
    assert_eq!(s.code(7, update(vec![many])), 72);
    assert_eq!(
        s.code(
            8,
            doc! { "delete": "c", "deletes": [{ "q": {}, "limit": 0i32 }] }
        ),
        72
    );
    assert_eq!(s.code(9, doc! { "find": "c" }), 50768);
    let ids = |a: Vec<i32>| {
        let d = doc! { "insert": "c", "documents": [{ "_id": 50i32 }, { "_id": 51i32 }] };
        DocBuf::build(|w| {
            w.put("insert", "c")
                .put("documents", d.doc().field("documents"));
            let mut l = w.array("stmtIds");
            a.iter().for_each(|n| {
                l.push(*n);
            });
        })
    };
    assert_eq!(s.code(10, ids(vec![1])), 72);
    assert_eq!(
        s.session(10, ids(vec![4, 2])),
        doc! { "n": 2i32, "ok": 1.0 }
    );
    assert_eq!(
        s.session(10, ids(vec![2, 4])),
        doc! { "n": 2i32, "retriedStmtIds": [2i32, 4i32], "ok": 1.0 }
    );
    // A number that occurs twice in one command is one statement.
    let mut twice = update(vec![inc(50), inc(50)]);
    twice.put("stmtIds", doc! { "a": [3i32, 3i32] }.doc().field("a"));
    s.session(11, twice);
    assert!(
        s.docs()
            .iter()
            .any(|d| d.contains("50") && d.contains("n: 1"))
    );
    // A retry as an update of a write that was a delete.
    s.session(
        12,
        doc! { "delete": "c", "deletes": [{ "q": { "_id": 51i32 }, "limit": 1i32 }] },
    );
    assert_eq!(s.code(12, update(vec![inc(1)])), 40638);
}

#[test]
fn bulk_write_remembers_each_operation() {
    let mut s = Server::new();
    let bulk = || {
        doc! { "bulkWrite": 1i32, "nsInfo": [{ "ns": "db.c" }, { "ns": "db.d" }], "ops": [
            { "insert": 0i32, "document": { "_id": 1i32, "n": 0i32 } },
            { "update": 0i32, "filter": { "_id": 1i32 }, "updateMods": { "$inc": { "n": 1i32 } } },
            { "update": 0i32, "filter": { "_id": 2i32 }, "updateMods": { "$inc": { "n": 1i32 } },
                "upsert": true },
            { "insert": 1i32, "document": { "_id": 1i32 } },
            { "delete": 1i32, "filter": { "_id": 1i32 } },
        ] }
    };
    let first = s.session(1, bulk());
    let mut s = s.restart();
    let mut retry = s.session(1, bulk());
    assert_eq!(
        retry
            .doc()
            .field("retriedStmtIds")
            .as_array()
            .unwrap()
            .len(),
        5
    );
    retry = DocBuf::build(|w| {
        retry
            .doc()
            .iter()
            .filter(|(k, _)| *k != "retriedStmtIds")
            .for_each(|(k, v)| {
                w.put(k, v);
            })
    });
    assert_eq!(retry, first);
    assert_eq!(
        s.docs(),
        [
            format!("{:?}", doc! { "_id": 1i32, "n": 1i32 }),
            format!("{:?}", doc! { "_id": 2i32, "n": 1i32 })
        ]
    );
}

#[test]
fn long_lists_of_results_are_split_and_replaced() {
    let mut s = Server::new();
    let ups = |from: i32, count: i32| {
        update(
            (from..from + count)
                .map(|i| doc! { "q": { "_id": i }, "u": { "$inc": { "n": 1i32 } }, "upsert": true })
                .collect(),
        )
    };
    s.session(1, ups(0, 1000));
    let mut s = s.restart();
    let r = s.session(1, ups(0, 1000));
    assert_eq!(
        r.doc().field("retriedStmtIds").as_array().unwrap().len(),
        1000
    );
    assert_eq!(r.doc().field("upserted").as_array().unwrap().len(), 1000);
    assert!(s.docs().iter().all(|d| d.contains("n: 1")));
    let rows = |s: &Server| {
        use storage::Reader;
        let mut n = 0;
        let range = storage::KeyRange {
            lower: b"t",
            upper: b"u",
        };
        let mut c = s
            .engine
            .cursor(storage::Table::Meta, range, storage::CursorOpts::default())
            .unwrap();
        c.visit(usize::MAX, &mut |_, v| {
            assert!(v.len() < 5000);
            n += 1;
            true
        })
        .unwrap();
        n
    };
    assert!(rows(&s) >= 4);
    s.session(2, ups(2000, 1));
    assert_eq!(rows(&s), 1, "the parts of the number before are gone");
    // The record of a session is removed with the session: immediately when the session ends, or by
    // the sweep if an earlier run has left it.
    let end = doc! { "endSessions": [{ "id": Binary { subtype: 4, bytes: &[9; 16] } }] };
    s.run(end);
    assert_eq!(rows(&s), 0);
    s.session(3, ups(3000, 1));
    s.clock.0.store(29 * 60_000, Ordering::Relaxed);
    commands::workers::run_shared_once(s.service.service());
    assert_eq!(rows(&s), 1);
    let s = s.restart();
    commands::workers::run_shared_once(s.service.service());
    assert_eq!(rows(&s), 1);
    s.clock.0.store(30 * 60_000, Ordering::Relaxed);
    commands::workers::run_shared_once(s.service.service());
    assert_eq!(rows(&s), 0);
}

/// The client of a killed session may continue: a driver repeats a request that got no reply.
#[test]
fn a_retry_after_its_session_was_killed_runs_nothing() {
    let lsid = doc! { "id": Binary { subtype: 4, bytes: &[9; 16] } };
    for kill in [
        doc! { "killSessions": [&lsid] },
        doc! { "killAllSessions": [] },
        doc! { "killAllSessionsByPattern": [{}] },
    ] {
        for restarts in [false, true] {
            let mut s = Server::new();
            let insert = || doc! { "insert": "c", "documents": [{ "a": 1i32 }] };
            s.session(1, insert());
            let r = send(&s.service, &mut s.conn, "admin", kill.doc());
            assert_eq!(r.doc().field("ok").as_f64(), Some(1.0), "{r:?}");
            if restarts {
                s = s.restart();
            }
            let r = s.session(1, insert());
            assert!(r.doc().contains("retriedStmtIds"), "{kill:?}: {r:?}");
            assert_eq!(s.docs().len(), 1, "{kill:?}");
        }
    }
}
