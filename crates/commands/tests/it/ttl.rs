//! Expiring documents: every kind of rule, documents that stay, and the monitor's counters.

use crate::behaviour::send;
use commands::{
    Clock, Config, Connection, Dispatcher, Service, StoreHooks, SystemClock, registry, ttl, workers,
};
use model::{DocBuf, Value, doc};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};
use storage::{Engine, MemoryEngine};
use store::Store;

/// Milliseconds since the epoch at which the tests begin.
const START_MS: i64 = 1_700_000_000_000;

/// A clock that the test moves.
#[derive(Debug)]
struct ManualClock(AtomicI64);

impl Clock for ManualClock {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
    fn monotonic_us(&self) -> u64 {
        self.0.load(Ordering::Relaxed) as u64 * 1000
    }
}

struct Server {
    engine: Arc<dyn Engine>,
    clock: Arc<ManualClock>,
    server: Dispatcher,
    conn: Connection,
    monitor: ttl::Monitor,
}

impl Server {
    fn new() -> Server {
        Server::start_on(Arc::new(MemoryEngine::new()))
    }

    fn start_on(engine: Arc<dyn Engine>) -> Server {
        let clock = Arc::new(ManualClock(AtomicI64::new(START_MS)));
        let language =
            Arc::new(StoreHooks::new(Arc::new(SystemClock::default())).with_log(1 << 30));
        let store = Arc::new(Store::open(engine.clone(), language).expect("a store"));
        let server = registry::dispatcher(
            Service::new(Config::default(), clock.clone(), store).into_shared(),
        );
        let conn = server.connect("127.0.0.1:1");
        Server {
            engine,
            clock,
            server,
            conn,
            monitor: ttl::Monitor::default(),
        }
    }

    fn run(&mut self, command: &DocBuf) -> DocBuf {
        let admin = ["setParameter", "fsync", "fsyncUnlock", "renameCollection"]
            .iter()
            .any(|n| command.doc().contains(n));
        send(
            &self.server,
            &mut self.conn,
            if admin { "admin" } else { "db" },
            command.doc(),
        )
    }

    /// Runs a command that must succeed.
    #[track_caller]
    fn ok(&mut self, command: &DocBuf) -> DocBuf {
        let reply = self.run(command);
        let fine =
            reply.doc().field("ok").as_f64() == Some(1.0) && !reply.doc().contains("writeErrors");
        assert!(fine, "{command:?}: {reply:?}");
        reply
    }

    fn index(&mut self, coll: &str, spec: &DocBuf) {
        self.ok(&DocBuf::build(|w| {
            w.put("createIndexes", coll);
            w.array("indexes").push(spec);
        }));
    }

    fn insert(&mut self, coll: &str, docs: &[DocBuf]) {
        self.ok(&DocBuf::build(|w| {
            w.put("insert", coll);
            let mut list = w.array("documents");
            for d in docs {
                list.push(d);
            }
        }));
    }

    fn pass(&mut self) {
        let service = self.server.service().clone();
        self.monitor.pass(&service, &|| true);
    }

    /// Moves the clock forward by this many seconds and runs a pass of the monitor.
    fn advance_clock(&mut self, seconds: i64) {
        self.clock.0.fetch_add(seconds * 1000, Ordering::Relaxed);
        self.pass();
    }

    /// The remaining ids, which are numbers.
    fn ids(&mut self, coll: &str) -> Vec<i64> {
        let r = self.ok(&doc! { "find": coll, "sort": { "_id": 1i32 }, "batchSize": 100_000i32 });
        let batch = r
            .doc()
            .field("cursor")
            .as_doc()
            .and_then(|c| c.field("firstBatch").as_array())
            .expect("a batch");
        batch
            .iter()
            .filter_map(|v| v.as_doc()?.field("_id").as_i64_exact())
            .collect()
    }

    fn count(&mut self, coll: &str) -> i64 {
        let r = self.ok(&doc! { "count": coll });
        r.doc().field("n").as_i64_exact().expect("a number")
    }

    fn metric(&mut self, name: &str) -> i64 {
        let r = self.ok(&doc! { "serverStatus": 1i32 });
        let metrics = r.doc().field("metrics").as_doc().expect("metrics");
        metrics
            .field("ttl")
            .as_doc()
            .expect("ttl")
            .field(name)
            .as_i64_exact()
            .expect("a number")
    }
}

/// A date this many seconds after the start.
fn at(seconds: i64) -> Value<'static> {
    Value::Date(START_MS + seconds * 1000)
}

fn ttl_index(seconds: i32) -> DocBuf {
    doc! { "key": { "at": 1i32 }, "name": "at_1", "expireAfterSeconds": seconds }
}

#[test]
fn the_earliest_date_of_a_document_decides() {
    let mut s = Server::new();
    s.index("c", &ttl_index(60));
    let docs = [
        doc! { "_id": 1i32, "at": at(0) },
        doc! { "_id": 2i32, "at": at(100) },
        doc! { "_id": 3i32, "at": [at(500), at(0), "text"] },
        doc! { "_id": 4i32, "at": [at(500), at(600)] },
        doc! { "_id": 5i32 },
        doc! { "_id": 6i32, "at": 0i32 },
        doc! { "_id": 7i32, "at": "2001-01-01" },
        doc! { "_id": 8i32, "at": Value::Null },
        doc! { "_id": 9i32, "at": [1i32, "x"] },
        doc! { "_id": 10i32, "at": Value::Timestamp(model::Timestamp { time: 1, increment: 1 }) },
        doc! { "_id": 11i32, "at": Value::Date(-1_000_000) },
    ];
    s.insert("c", &docs);
    s.advance_clock(59);
    assert_eq!(
        s.ids("c"),
        [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
        "of before the epoch"
    );
    s.advance_clock(1);
    assert_eq!(s.ids("c"), [2, 4, 5, 6, 7, 8, 9, 10]);
    s.advance_clock(100);
    assert_eq!(s.ids("c"), [4, 5, 6, 7, 8, 9, 10]);
    s.advance_clock(400);
    assert_eq!(s.ids("c"), [5, 6, 7, 8, 9, 10]);
    assert_eq!(s.count("c"), 6);
    assert_eq!(
        (
            s.metric("deletedDocuments"),
            s.metric("passes"),
            s.metric("invalidTTLIndexSkips")
        ),
        (5, 4, 0)
    );
    let valid = s.ok(&doc! { "validate": "c", "full": true });
    assert_eq!(
        valid.doc().field("valid").as_bool(),
        Some(true),
        "{valid:?}"
    );
}

#[test]
fn paths_directions_and_hidden_indexes() {
    let mut s = Server::new();
    let cases = [
        doc! { "key": { "a.at": 1i32 }, "name": "i", "expireAfterSeconds": 60i32 },
        doc! { "key": { "a.at": -1i32 }, "name": "i", "expireAfterSeconds": 60i32, "hidden": true },
        doc! { "key": { "a.at": 1i32 }, "name": "i", "expireAfterSeconds": 60i32, "sparse": true },
        doc! { "key": { "a.at": 1i32 }, "name": "i", "expireAfterSeconds": 60i32, "unique": true },
    ];
    for (n, spec) in cases.iter().enumerate() {
        let coll = format!("c{n}");
        s.index(&coll, spec);
        s.insert(
            &coll,
            &[
                doc! { "_id": 1i32, "a": { "at": at(0) } },
                doc! { "_id": 2i32, "a": [{ "at": at(900) }, { "at": at(1) }] },
                doc! { "_id": 3i32, "a": { "at": at(901) } },
            ],
        );
    }
    s.advance_clock(100);
    for (n, case) in cases.iter().enumerate() {
        assert_eq!(s.ids(&format!("c{n}")), [3], "{case:?}");
    }
}

#[test]
fn a_partial_index_expires_only_what_it_holds() {
    let mut s = Server::new();
    let mut spec = ttl_index(0);
    spec.put(
        "partialFilterExpression",
        &doc! { "kind": "session", "n": { "$gt": 5i32 } },
    );
    s.index("c", &spec);
    // The partial filter uses the collation of the index.
    let mut folded = ttl_index(0);
    folded.put("partialFilterExpression", &doc! { "kind": "session" });
    folded.put("collation", &doc! { "locale": "en", "strength": 2i32 });
    s.index("d", &folded);
    for coll in ["c", "d"] {
        s.insert(
            coll,
            &[
                doc! { "_id": 1i32, "at": at(0), "kind": "session", "n": 6i32 },
                doc! { "_id": 2i32, "at": at(0), "kind": "session", "n": 5i32 },
                doc! { "_id": 3i32, "at": at(0), "kind": "other", "n": 6i32 },
                doc! { "_id": 4i32, "at": at(0), "kind": "SESSION", "n": 6i32 },
            ],
        );
    }
    s.advance_clock(10);
    assert_eq!(s.ids("c"), [2, 3, 4]);
    assert_eq!(s.ids("d"), [3]);
}

#[test]
fn clustered_collections_expire_by_their_id() {
    let mut s = Server::new();
    s.ok(
        &doc! { "create": "c", "clusteredIndex": { "key": { "_id": 1i32 }, "unique": true },
        "expireAfterSeconds": 60i32 },
    );
    s.insert(
        "c",
        &[
            doc! { "_id": at(0) },
            doc! { "_id": at(100) },
            doc! { "_id": 5i32 },
            doc! { "_id": "x" },
        ],
    );
    s.advance_clock(60);
    assert_eq!(s.count("c"), 3);
    s.ok(&doc! { "collMod": "c", "expireAfterSeconds": "off" });
    s.advance_clock(10_000);
    assert_eq!(s.count("c"), 3);
    s.ok(&doc! { "collMod": "c", "expireAfterSeconds": 5i32 });
    s.advance_clock(0);
    assert_eq!(s.count("c"), 2, "what is no date stays");
}

#[test]
fn measurements_expire_in_whole_buckets() {
    let mut s = Server::new();
    for coll in ["plain", "indexed"] {
        s.ok(
            &doc! { "create": coll, "timeseries": { "timeField": "t", "metaField": "m" },
            "expireAfterSeconds": 60i32 },
        );
        let docs: Vec<DocBuf> = (0..3000)
            .map(|i| doc! { "t": at(i), "m": i % 7, "v": i })
            .collect();
        s.insert(coll, &docs);
    }
    s.index("indexed", &doc! { "key": { "t": 1i32 }, "name": "t_1" });
    s.advance_clock(60 + 999);
    assert_eq!(
        (s.count("plain"), s.count("indexed")),
        (3000, 3000),
        "an hour of each is one"
    );
    s.advance_clock(3600);
    assert_eq!((s.count("plain"), s.count("indexed")), (0, 0));
}

#[test]
fn collections_that_are_capped_lose_nothing() {
    let mut s = Server::new();
    s.ok(&doc! { "create": "c", "capped": true, "size": 100_000i32 });
    s.index("c", &ttl_index(0));
    s.insert("c", &[doc! { "_id": 1i32, "at": at(0) }]);
    s.advance_clock(1000);
    assert_eq!(s.ids("c"), [1]);
}

#[test]
fn coll_mod_changes_when_documents_expire() {
    let mut s = Server::new();
    s.index("c", &doc! { "key": { "at": 1i32 }, "name": "at_1" });
    s.insert(
        "c",
        &[
            doc! { "_id": 1i32, "at": at(0) },
            doc! { "_id": 2i32, "at": at(5000) },
        ],
    );
    s.advance_clock(1000);
    assert_eq!(s.ids("c"), [1, 2], "no TTL yet");
    s.ok(&doc! { "collMod": "c", "index": { "name": "at_1", "expireAfterSeconds": 2000i32 } });
    s.advance_clock(0);
    assert_eq!(s.ids("c"), [1, 2]);
    s.ok(&doc! { "collMod": "c", "index": { "name": "at_1", "expireAfterSeconds": 10i32 } });
    s.advance_clock(0);
    assert_eq!(s.ids("c"), [2]);
    s.ok(&doc! { "dropIndexes": "c", "index": "at_1" });
    s.advance_clock(10_000);
    assert_eq!(s.ids("c"), [2]);
}

#[test]
fn an_age_that_is_no_number_is_as_good_as_never() {
    let mut s = Server::new();
    let nan = doc! { "key": { "at": 1i32 }, "name": "at_1", "expireAfterSeconds": f64::NAN };
    let made = s.run(&DocBuf::build(|w| {
        w.put("createIndexes", "c");
        w.array("indexes").push(&nan);
    }));
    s.insert("c", &[doc! { "_id": 1i32, "at": at(0) }]);
    s.advance_clock(100_000);
    assert_eq!(s.ids("c"), [1], "{made:?}");
    s.ok(&doc! { "collMod": "c", "index": { "name": "at_1", "expireAfterSeconds": f64::NAN } });
    s.ok(
        &doc! { "create": "d", "clusteredIndex": { "key": { "_id": 1i32 }, "unique": true },
        "expireAfterSeconds": f64::NAN },
    );
    s.insert("d", &[doc! { "_id": at(0) }]);
    s.advance_clock(0);
    assert_eq!((s.count("c"), s.count("d")), (1, 1));
}

#[test]
fn collections_are_found_after_a_restart_and_under_new_names() {
    let mut s = Server::new();
    s.index("a", &ttl_index(60));
    s.insert(
        "a",
        &[
            doc! { "_id": 1i32, "at": at(0) },
            doc! { "_id": 2i32, "at": at(1000) },
        ],
    );
    for n in 0..600 {
        s.ok(&doc! { "create": format!("other{n}").as_str() });
    }
    let engine = s.engine.clone();
    let mut s = Server::start_on(engine);
    s.advance_clock(60);
    assert_eq!(s.ids("a"), [1, 2], "the catalog was not walked");
    ttl::find_all(s.server.service(), &|| true).expect("a catalog");
    s.advance_clock(0);
    assert_eq!(s.ids("a"), [2]);
    s.ok(&doc! { "renameCollection": "db.a", "to": "db.b" });
    s.advance_clock(1000);
    assert_eq!(s.count("b"), 0);
    // $out keeps the indexes of its target.
    s.insert("source", &[doc! { "_id": 7i32, "at": at(0) }]);
    s.ok(&doc! { "aggregate": "source", "pipeline": [{ "$out": "b" }], "cursor": {} });
    assert_eq!(s.ids("b"), [7]);
    s.advance_clock(0);
    assert_eq!(s.count("b"), 0);
    s.ok(&doc! { "drop": "b" });
    s.insert("b", &[doc! { "_id": 8i32, "at": at(0) }]);
    s.advance_clock(1000);
    assert_eq!(s.ids("b"), [8], "a new collection of that name");
}

#[test]
fn rounds_give_every_collection_its_turn() {
    let mut s = Server::new();
    s.ok(&doc! { "setParameter": 1i32, "ttlIndexDeleteTargetDocs": 100i32 });
    s.index("c", &ttl_index(0));
    s.index("multi", &ttl_index(0));
    let docs: Vec<DocBuf> = (0..1000).map(|i| doc! { "_id": i, "at": at(0) }).collect();
    s.insert("c", &docs);
    let docs: Vec<DocBuf> = (0..1000)
        .map(|i| doc! { "_id": i, "at": [at(0), at(i64::from(i) - 2000)] })
        .collect();
    s.insert("multi", &docs);
    s.advance_clock(1);
    assert_eq!((s.count("c"), s.count("multi")), (0, 0));
    assert_eq!(
        (s.metric("passes"), s.metric("deletedDocuments")),
        (1, 2000)
    );
    let rounds = s.metric("subPasses");
    assert!((7..=12).contains(&rounds), "{rounds} rounds");
}

#[test]
fn a_monitor_switched_off_deletes_nothing() {
    let mut s = Server::new();
    s.index("c", &ttl_index(0));
    s.insert("c", &[doc! { "_id": 1i32, "at": at(0) }]);
    s.ok(&doc! { "setParameter": 1i32, "ttlMonitorEnabled": false });
    s.advance_clock(10);
    assert_eq!(s.ids("c"), [1]);
    s.ok(&doc! { "setParameter": 1i32, "ttlMonitorEnabled": true });
    s.advance_clock(0);
    assert_eq!(s.count("c"), 0);
    let refused = s.run(&doc! { "setParameter": 1i32, "ttlMonitorSleepSecs": 0i32 });
    assert_eq!(
        refused.doc().field("code").as_i64_exact(),
        Some(2),
        "{refused:?}"
    );
}

#[test]
fn the_monitor_follows_its_interval_parameter_while_it_runs() {
    let language = Arc::new(StoreHooks::new(Arc::new(SystemClock::default())).with_log(1 << 30));
    let store = Arc::new(Store::open(Arc::new(MemoryEngine::new()), language).expect("a store"));
    let service =
        Service::new(Config::default(), Arc::new(SystemClock::default()), store).into_shared();
    let server = registry::dispatcher(service.clone());
    let mut conn = server.connect("127.0.0.1:1");
    let mut run = |db: &str, c: DocBuf| send(&server, &mut conn, db, c.doc());
    let stop = Arc::new(AtomicBool::new(false));
    let monitor = std::thread::spawn({
        let (service, stop) = (service.clone(), stop.clone());
        move || {
            let monitor = workers::find("TTLMonitor");
            workers::run(&service, monitor, &|| !stop.load(Ordering::Acquire));
        }
    });
    run(
        "db",
        doc! { "createIndexes": "c", "indexes": [{ "key": { "at": 1i32 }, "name": "at_1",
        "expireAfterSeconds": 0i32 }] },
    );
    run(
        "db",
        doc! { "insert": "c", "documents": [{ "_id": 1i32, "at": Value::Date(0) }] },
    );
    // By default the first pass starts after a minute.
    run(
        "admin",
        doc! { "setParameter": 1i32, "ttlMonitorSleepSecs": 1i32 },
    );
    let began = Instant::now();
    let left = |r: &DocBuf| r.doc().field("n").as_i64_exact();
    while left(&run("db", doc! { "count": "c" })) != Some(0) {
        assert!(began.elapsed() < Duration::from_secs(30), "nothing expired");
        std::thread::sleep(Duration::from_millis(20));
    }
    stop.store(true, Ordering::Release);
    monitor.join().expect("the monitor ends");
}

#[test]
fn a_lock_against_writes_holds_the_monitor() {
    let mut s = Server::new();
    s.index("c", &ttl_index(0));
    s.insert("c", &[doc! { "_id": 1i32, "at": at(0) }]);
    s.ok(&doc! { "fsync": 1i32, "lock": true });
    s.clock.0.fetch_add(1000, Ordering::Relaxed);
    let stop = Arc::new(AtomicBool::new(false));
    let monitor = std::thread::spawn({
        let (service, stop) = (s.server.service().clone(), stop.clone());
        move || ttl::Monitor::default().pass(&service, &|| !stop.load(Ordering::Acquire))
    });
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(s.ids("c"), [1]);
    s.ok(&doc! { "fsyncUnlock": 1i32 });
    monitor.join().expect("the pass ends");
    assert_eq!(s.count("c"), 0);
    stop.store(true, Ordering::Release);
}
