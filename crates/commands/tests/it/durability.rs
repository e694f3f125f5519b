//! Everything that a client can conclude from an acknowledged reply must be durable: with a journal
//! or majority acknowledgement, a reply that reports the writes of others waits for these too. The
//! tests hold the journal back, so that a write is visible but not durable.

use crate::behaviour::serve;
use commands::{Config, Connection, Dispatcher, Outcome, Request, Sequence, SystemClock};
use model::{Binary, DocBuf, Value, doc};
use std::sync::Arc;
use storage::{Engine, MemoryEngine};
use storage::{HeldJournal, ObservedEngine};
use store::Store;

/// A server whose journal is held back after the setup is durable.
struct HeldServer {
    engine: Arc<ObservedEngine<HeldJournal>>,
    service: Arc<Dispatcher>,
    conn: Connection,
}

impl HeldServer {
    fn new(setup: &[DocBuf]) -> HeldServer {
        HeldServer::start_with(Config::default(), setup)
    }

    fn start_with(config: Config, setup: &[DocBuf]) -> HeldServer {
        let engine = Arc::new(ObservedEngine::new(
            Arc::new(MemoryEngine::new()),
            HeldJournal::default(),
        ));
        let mut held = HeldServer::start_on(engine, config);
        for command in setup {
            held.run(command);
        }
        held.engine.observer().hold(held.engine.durable_pos());
        held
    }

    fn start_on(engine: Arc<ObservedEngine<HeldJournal>>, config: Config) -> HeldServer {
        let language =
            Arc::new(commands::StoreHooks::new(Arc::new(SystemClock::default())).with_log(1 << 30));
        let store = Arc::new(Store::open(engine.clone(), language).expect("a store"));
        let service = serve(config, store);
        let conn = service.connect("127.0.0.1:1");
        HeldServer {
            engine,
            service,
            conn,
        }
    }

    /// Ends the process; another one opens the data that the operating system still has.
    fn restart(self) -> HeldServer {
        HeldServer::start_on(self.engine, Config::default())
    }

    fn run(&mut self, command: &DocBuf) -> (Outcome, DocBuf) {
        let mut body = command.clone();
        if !body.doc().contains("$db") {
            body.put(
                "$db",
                if body.doc().contains("bulkWrite") {
                    "admin"
                } else {
                    "db"
                },
            );
        }
        let mut reply = Vec::new();
        let outcome = self
            .service
            .handle(&mut self.conn, &Request::new(body.doc()), &mut reply);
        (outcome, DocBuf::from_bytes(reply).expect("one document"))
    }

    /// A write of another client, which is visible and not durable; returns its position.
    fn write(&mut self, command: &DocBuf) -> u64 {
        let (outcome, reply) = self.run(command);
        let Outcome::Durable(pos) = outcome else {
            panic!("{command:?} must wait: {outcome:?} {reply:?}")
        };
        assert!(
            pos > self.engine.durable_pos().0,
            "the journal is not held: {reply:?}"
        );
        pos
    }

    /// Runs a command whose reply must wait for `pos`.
    #[track_caller]
    fn waits(&mut self, pos: u64, command: &DocBuf) -> DocBuf {
        let (outcome, reply) = self.run(command);
        assert!(
            matches!(outcome, Outcome::Durable(p) if p >= pos),
            "{command:?} must wait for {pos}: {outcome:?} {reply:?}"
        );
        reply
    }

    /// Runs a command whose reply must not wait.
    #[track_caller]
    fn run_at_once(&mut self, command: &DocBuf) -> DocBuf {
        let (outcome, reply) = self.run(command);
        assert_eq!(outcome, Outcome::Reply, "{command:?} {reply:?}");
        reply
    }
}

fn insert(id: i32) -> DocBuf {
    doc! { "insert": "c", "documents": [{ "_id": id, "n": 0i32 }] }
}

fn update(q: DocBuf, u: DocBuf, upsert: bool) -> DocBuf {
    doc! { "update": "c", "updates": [{ "q": &q, "u": &u, "upsert": upsert }] }
}

fn n(reply: &DocBuf, name: &str) -> i64 {
    reply.doc().field(name).as_i64_exact().unwrap_or(-1)
}

fn with_field(mut command: DocBuf, name: &str, value: DocBuf) -> DocBuf {
    command.put(name, &value);
    command
}

#[test]
fn an_update_without_a_change_waits_for_the_write_that_it_found() {
    let mut s = HeldServer::new(&[insert(1)]);
    let set = || update(doc! { "_id": 1i32 }, doc! { "$set": { "n": 5i32 } }, false);
    let pos = s.write(&set());
    let reply = s.waits(pos, &set());
    assert_eq!((n(&reply, "n"), n(&reply, "nModified")), (1, 0));
    // `j: true` also applies on a server whose replies do not wait by default.
    let mut alone = HeldServer::start_with(
        Config {
            replica_set: None,
            ..Config::default()
        },
        &[insert(1)],
    );
    let journaled = || with_field(set(), "writeConcern", doc! { "j": true });
    let pos = alone.write(&journaled());
    alone.waits(pos, &journaled());
    alone.run_at_once(&set());
}

#[test]
fn an_update_that_finds_nothing_waits_for_the_delete_it_saw() {
    let mut s = HeldServer::new(&[insert(1)]);
    let pos =
        s.write(&doc! { "delete": "c", "deletes": [{ "q": { "_id": 1i32 }, "limit": 1i32 }] });
    let reply = s.waits(
        pos,
        &update(doc! { "_id": 1i32 }, doc! { "$set": { "n": 5i32 } }, false),
    );
    assert_eq!(n(&reply, "n"), 0);
}

#[test]
fn an_upsert_that_changes_nothing_waits() {
    let mut s = HeldServer::new(&[insert(1)]);
    let upsert = || update(doc! { "_id": 7i32 }, doc! { "$set": { "n": 5i32 } }, true);
    let pos = s.write(&upsert());
    let reply = s.waits(pos, &upsert());
    assert_eq!((n(&reply, "n"), n(&reply, "nModified")), (1, 0));
}

#[test]
fn an_update_of_many_waits_for_those_it_left() {
    let mut s = HeldServer::new(&[insert(1), insert(2)]);
    let pos = s.write(&update(
        doc! { "_id": 2i32 },
        doc! { "$set": { "n": 5i32 } },
        false,
    ));
    let all = doc! { "update": "c", "updates": [{ "q": { "n": 5i32 },
    "u": { "$set": { "n": 5i32 } }, "multi": true }] };
    let reply = s.waits(pos, &all);
    assert_eq!((n(&reply, "n"), n(&reply, "nModified")), (1, 0));
}

#[test]
fn a_duplicate_key_waits_for_the_document_it_met() {
    let mut s = HeldServer::new(&[insert(1)]);
    let pos = s.write(&insert(2));
    let reply = s.waits(pos, &insert(2));
    assert!(reply.doc().contains("writeErrors"));
    let own = n(&reply, "n");
    assert_eq!(own, 0);
}

#[test]
fn a_duplicate_key_of_a_find_and_modify_waits() {
    let index = doc! { "createIndexes": "c", "indexes": [{ "key": { "u": 1i32 }, "name": "u",
    "unique": true }] };
    let mut s = HeldServer::new(&[insert(1), index]);
    let pos = s.write(&doc! { "insert": "c", "documents": [{ "_id": 2i32, "u": 5i32 }] });
    // The reply is an error of the whole command.
    let reply = s.waits(
        pos,
        &doc! { "findAndModify": "c", "query": { "_id": 1i32 },
        "update": { "$set": { "u": 5i32 } } },
    );
    assert_eq!(n(&reply, "code"), 11000);
}

#[test]
fn a_delete_that_finds_nothing_waits() {
    let mut s = HeldServer::new(&[insert(1)]);
    for limit in [0i32, 1] {
        let pos = s.write(&insert(9));
        let gone = || doc! { "delete": "c", "deletes": [{ "q": { "_id": 9i32 }, "limit": limit }] };
        let deleted = s.write(&gone());
        assert!(deleted > pos);
        let reply = s.waits(deleted, &gone());
        assert_eq!(n(&reply, "n"), 0);
    }
}

#[test]
fn a_find_and_modify_that_finds_or_changes_nothing_waits() {
    let mut s = HeldServer::new(&[insert(1)]);
    let set = || {
        doc! { "findAndModify": "c", "query": { "_id": 1i32 },
        "update": { "$set": { "n": 5i32 } }, "new": true }
    };
    let pos = s.write(&set());
    let reply = s.waits(pos, &set());
    assert_eq!(
        reply
            .doc()
            .field("value")
            .as_doc()
            .map(|d| d.field("n").as_i64_exact()),
        Some(Some(5))
    );
    let remove = || doc! { "findAndModify": "c", "query": { "_id": 1i32 }, "remove": true };
    let pos = s.write(&remove());
    let reply = s.waits(pos, &remove());
    assert!(matches!(reply.doc().field("value"), Value::Null));
}

#[test]
fn a_retry_answered_from_the_record_waits_for_the_first_try() {
    let mut s = HeldServer::new(&[insert(1)]);
    let numbered = |mut c: DocBuf, number: i64| {
        c.put(
            "lsid",
            &doc! { "id": Binary { subtype: 4, bytes: &[9; 16] } },
        );
        c.put("txnNumber", number);
        c
    };
    let inc = || update(doc! { "_id": 1i32 }, doc! { "$inc": { "n": 1i32 } }, false);
    let fam = || {
        doc! { "findAndModify": "c", "query": { "_id": 1i32 },
        "update": { "$inc": { "n": 1i32 } } }
    };
    let bulk = || {
        doc! { "bulkWrite": 1i32, "nsInfo": [{ "ns": "db.c" }], "ops": [{ "insert": 0i32,
        "document": { "_id": 40i32 } }] }
    };
    for (number, command) in [(1, insert(30)), (2, inc()), (3, fam()), (4, bulk())] {
        let pos = s.write(&numbered(command.clone(), number));
        s.waits(pos, &numbered(command, number));
    }
    // After a restart, the record is in a journal that is not durable yet.
    let pos = s.write(&numbered(inc(), 5));
    let mut s = s.restart();
    s.waits(pos, &numbered(inc(), 5));
}

#[test]
fn a_bulk_write_that_changes_nothing_waits() {
    let mut s = HeldServer::new(&[insert(1)]);
    let bulk = || {
        doc! { "bulkWrite": 1i32, "nsInfo": [{ "ns": "db.c" }],
        "ops": [{ "update": 0i32, "filter": { "_id": 1i32 },
            "updateMods": { "$set": { "n": 5i32 } } }] }
    };
    let pos = s.write(&bulk());
    s.waits(pos, &bulk());
    let twice = doc! { "bulkWrite": 1i32, "nsInfo": [{ "ns": "db.c" }], "ops": [{ "insert": 0i32,
    "document": { "_id": 1i32 } }] };
    s.waits(pos, &twice);
}

#[test]
fn a_reply_about_one_write_waits_for_that_write_only() {
    let mut s = HeldServer::new(&[insert(1), insert(2)]);
    let own = s.write(&update(
        doc! { "_id": 1i32 },
        doc! { "$set": { "n": 5i32 } },
        false,
    ));
    let later = s.write(&update(
        doc! { "_id": 2i32 },
        doc! { "$set": { "n": 5i32 } },
        false,
    ));
    assert!(own < later);
    // Without an acknowledgement by the journal, no reply waits.
    let loose = with_field(insert(2), "writeConcern", doc! { "w": 1i32 });
    s.run_at_once(&loose);
}

#[test]
fn a_schema_change_that_finds_its_work_done_waits() {
    let mut s = HeldServer::new(&[insert(1)]);
    let pos = s.write(&doc! { "create": "d" });
    s.waits(pos, &doc! { "create": "d" });
    // An error reports the existing collection as well.
    let reply = s.waits(
        pos,
        &doc! { "create": "d", "capped": true, "size": 4096i32 },
    );
    assert_eq!(n(&reply, "code"), 48);
}

#[test]
fn reads_that_ask_for_majority_wait_for_what_they_return() {
    for level in ["majority", "linearizable", "snapshot"] {
        let mut s = HeldServer::new(&[insert(1), insert(2), insert(3)]);
        let pos = s.write(&update(
            doc! { "_id": 1i32 },
            doc! { "$set": { "n": 5i32 } },
            false,
        ));
        let concern = || doc! { "level": level };
        for read in [
            doc! { "find": "c", "filter": { "_id": 1i32 } },
            doc! { "find": "c", "filter": { "n": 5i32 } },
            doc! { "aggregate": "c", "pipeline": [{ "$match": { "n": 5i32 } }], "cursor": {} },
            doc! { "count": "c", "query": { "n": 5i32 } },
            doc! { "distinct": "c", "key": "n" },
        ] {
            // count does not support snapshots.
            let (outcome, reply) = s.run(&with_field(read.clone(), "readConcern", concern()));
            let refused = n(&reply, "ok") != 1;
            let waits = matches!(outcome, Outcome::Durable(p) if p >= pos);
            assert!(
                refused || waits,
                "{level} {read:?} must wait: {outcome:?} {reply:?}"
            );
            assert!(!refused || level == "snapshot", "{reply:?}");
            s.run_at_once(&with_field(read, "readConcern", doc! { "level": "local" }));
        }
    }
}

#[test]
fn get_more_waits_as_its_cursor_does() {
    for read in [
        doc! { "find": "c", "batchSize": 1i32 },
        doc! { "aggregate": "c", "pipeline": [], "cursor": { "batchSize": 1i32 } },
    ] {
        let mut s = HeldServer::new(&[insert(1), insert(2), insert(3)]);
        let open = |s: &mut HeldServer, level: &str| {
            let (_, reply) = s.run(&with_field(
                read.clone(),
                "readConcern",
                doc! { "level": level },
            ));
            reply
                .doc()
                .field("cursor")
                .as_doc()
                .and_then(|c| c.field("id").as_i64_exact())
                .expect("a cursor")
        };
        let (strong, loose) = (open(&mut s, "majority"), open(&mut s, "local"));
        let pos = s.write(&update(
            doc! { "_id": 3i32 },
            doc! { "$set": { "n": 5i32 } },
            false,
        ));
        s.run_at_once(&doc! { "getMore": loose, "collection": "c" });
        s.waits(pos, &doc! { "getMore": strong, "collection": "c" });
    }
}

#[test]
fn a_pipeline_that_writes_waits_also_when_it_fails() {
    let mut s = HeldServer::new(&[insert(1)]);
    let pos = s.write(&doc! { "insert": "target", "documents": [{ "_id": 1i32 }] });
    let fails = doc! { "aggregate": "c", "pipeline": [{ "$merge": { "into": "target",
    "whenMatched": "fail" } }], "cursor": {} };
    let reply = s.waits(pos, &fails);
    assert_eq!(n(&reply, "ok"), 0);
    let keeps = doc! { "aggregate": "c", "pipeline": [{ "$merge": { "into": "target",
    "whenMatched": "keepExisting" } }], "cursor": {} };
    s.waits(pos, &keeps);
}

/// A standalone server counts as its own majority: an acknowledged majority write is in its journal
/// unless the client sends `j: false`.
#[test]
fn a_standalone_server_acknowledges_a_majority_by_its_journal() {
    let standalone = Config {
        replica_set: None,
        ..Config::default()
    };
    let mut s = HeldServer::start_with(standalone, &[insert(1)]);
    let asked = |id, concern| with_field(insert(id), "writeConcern", concern);
    s.run_at_once(&insert(2));
    s.run_at_once(&asked(3, doc! { "w": 1i32 }));
    s.run_at_once(&asked(4, doc! { "w": "majority", "j": false }));
    let pos = s.write(&asked(5, doc! { "w": "majority" }));
    s.waits(
        pos,
        &asked(5, doc! { "w": "majority", "wtimeout": 1000i32 }),
    );
    s.waits(pos, &asked(5, doc! { "j": true }));
}

/// Default concerns decide what a reply waits for when the client sends none; after a restart as
/// well.
#[test]
fn default_concerns_apply_to_commands_that_bring_none() {
    let set = doc! { "setDefaultRWConcern": 1i32, "$db": "admin",
    "defaultReadConcern": { "level": "majority" },
    "defaultWriteConcern": { "w": 1i32, "j": false } };
    let mut s = HeldServer::new(&[insert(1), set]).restart();
    s.engine.observer().hold(s.engine.durable_pos());
    s.run_at_once(&insert(2));
    let mut majority = insert(3);
    majority.put("writeConcern", &doc! { "w": "majority" });
    let pos = s.write(&majority);
    s.waits(pos, &doc! { "find": "c" });
    s.waits(
        pos,
        &doc! { "find": "c", "readConcern": { "afterClusterTime": Value::Timestamp(
        model::Timestamp { time: 1, increment: 1 }) } },
    );
    s.run_at_once(&doc! { "find": "c", "readConcern": { "level": "local" } });

    s.engine.observer().release();
    // An empty document removes the default read concern.
    let unset = doc! { "setDefaultRWConcern": 1i32, "$db": "admin", "defaultReadConcern": {},
    "defaultWriteConcern": { "w": 3i32 } };
    s.run(&unset);
    s.run_at_once(&doc! { "find": "c" });
    let (_, reply) = s.run(&insert(4));
    let error = reply.doc().field("writeConcernError");
    let error = error.as_doc().expect("no set of three");
    assert_eq!(error.field("code").as_i64_exact(), Some(100));
    let info = error.field("errInfo");
    let given = info.as_doc().unwrap().field("writeConcern");
    let given = given.as_doc().unwrap();
    assert_eq!(given.field("w").as_i64_exact(), Some(3));
    assert_eq!(given.field("provenance").as_str(), Some("customDefault"));
}

/// The documents of the profile, read by another client.
fn read_profile(s: &HeldServer, comment: &str) -> Vec<DocBuf> {
    let mut other = s.service.connect("127.0.0.1:2");
    let find = doc! {
        "find": "system.profile", "filter": { "command.comment": comment }, "$db": "db"
    };
    let mut reply = Vec::new();
    s.service
        .handle(&mut other, &Request::new(find.doc()), &mut reply);
    let reply = DocBuf::from_bytes(reply).expect("one document");
    let cursor = reply.doc().field("cursor").as_doc().expect("a cursor");
    let rows = cursor.field("firstBatch").as_array().expect("a batch");
    rows.iter()
        .filter_map(|v| Some(v.as_doc()?.to_buf()))
        .collect()
}

const WAITED: &str = "waitForWriteConcernDurationMillis";

#[test]
fn an_operation_is_logged_after_its_wait_for_the_journal() {
    let mut s = HeldServer::new(&[insert(1), doc! { "profile": 2i32 }]);
    let commands = [
        ("inserts", insert(2), "ninserted"),
        (
            "changes",
            update(doc! { "_id": 1i32 }, doc! { "$set": { "n": 5i32 } }, false),
            "nModified",
        ),
        ("is refused in part", insert(1), "ninserted"),
        (
            "is refused",
            doc! { "findAndModify": "c", "query": { "_id": 1i32 },
            "update": { "$set": { "_id": 5i32 } } },
            "errCode",
        ),
    ];
    for (comment, mut command, effect) in commands {
        command.put("comment", comment);
        s.write(&command);
        assert!(
            read_profile(&s, comment).is_empty(),
            "{comment}: not over yet"
        );
        let waits = std::time::Duration::from_millis(30);
        std::thread::sleep(waits);
        s.service.release_reply(&mut s.conn);
        s.service.release_reply(&mut s.conn);
        let rows = read_profile(&s, comment);
        let [row] = &rows[..] else {
            panic!("once: {rows:?}")
        };
        assert!((30..10_000).contains(&n(row, WAITED)), "{row:?}");
        assert!(n(row, "millis") >= n(row, WAITED), "{row:?}");
        assert!(row.doc().contains(effect), "{row:?}");
        assert_eq!(row.doc().field("ns").as_str(), Some("db.c"), "{row:?}");
    }
    // An operation whose reply does not wait is profiled at once, without a wait.
    let mut command = with_field(insert(3), "writeConcern", doc! { "w": 1i32, "j": false });
    command.put("comment", "does not wait");
    s.run_at_once(&command);
    let rows = read_profile(&s, "does not wait");
    assert!(
        rows.len() == 1 && !rows[0].doc().contains(WAITED),
        "{rows:?}"
    );
}

#[test]
fn the_command_is_shown_whole_although_its_bytes_are_gone() {
    let mut s = HeldServer::new(&[insert(1), doc! { "profile": 2i32 }]);
    let filler = "x".repeat(2000);
    let statement = doc! { "q": { "_id": 1i32 }, "u": { "$set": { "n": 5i32 } } };
    for (comment, more) in [("short", ""), ("long", filler.as_str())] {
        let body = doc! { "update": "c", "comment": comment, "let": { "x": more }, "$db": "db" };
        let statements = statement.as_bytes().to_vec();
        let sequences = [Sequence {
            name: "updates",
            documents: &statements,
        }];
        let request = Request {
            sequences: &sequences,
            ..Request::new(body.doc())
        };
        let mut reply = Vec::new();
        let outcome = s.service.handle(&mut s.conn, &request, &mut reply);
        assert!(matches!(outcome, Outcome::Durable(_)), "{outcome:?}");
        drop((body, statements));
        s.service.release_reply(&mut s.conn);
        let rows = read_profile(&s, comment);
        let [row] = &rows[..] else {
            panic!("once: {rows:?}")
        };
        let command = row.doc().field("command").as_doc().expect("a command");
        let variables = command.field("let").as_doc().expect("variables");
        assert_eq!(variables.field("x").as_str(), Some(more));
        let shown = command.field("updates").as_array().expect("statements");
        let first = shown.get(0).and_then(|v| v.as_doc()).expect("one");
        assert_eq!(first.as_bytes(), statement.as_bytes());
    }
}

#[test]
fn an_operation_is_slow_when_its_wait_makes_it_slow() {
    let mut s = HeldServer::new(&[insert(1), doc! { "profile": 1i32, "slowms": 20i32 }]);
    for (comment, id, ms) in [("quick", 2, 0), ("slow", 3, 40)] {
        let mut command = insert(id);
        command.put("comment", comment);
        s.write(&command);
        std::thread::sleep(std::time::Duration::from_millis(ms));
        s.service.release_reply(&mut s.conn);
        let slow = read_profile(&s, comment).len();
        assert!(ms == 0 || slow == 1, "{comment}");
    }
    // The wait ends when the client sends the next command.
    let mut command = insert(4);
    command.put("comment", "gone");
    s.write(&command);
    std::thread::sleep(std::time::Duration::from_millis(40));
    s.run(&doc! { "ping": 1i32 });
    assert_eq!(read_profile(&s, "gone").len(), 1);
}
