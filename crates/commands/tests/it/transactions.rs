//! Multi-document transactions: the state that statements read, conflicts, commit, abort, expiry,
//! codes.

use crate::behaviour::send;
use crate::interrupts::json;
use crate::tails::ConnectionWaker;
use commands::{
    Clock, Config, Connection, Dispatcher, Outcome, Request, Service, StoreHooks, SystemClock,
    registry,
};
use model::{Binary, DocBuf, Value, doc};
use request::WaitFor;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;
use storage::{Engine, MemoryEngine};
use store::Store;

/// A mock clock.
#[derive(Default)]
struct MockClock {
    ms: AtomicI64,
    /// How far the wall clock is ahead, because somebody has set it.
    wall_ahead_ms: AtomicI64,
}

impl Clock for MockClock {
    fn now_ms(&self) -> i64 {
        let ahead = self.wall_ahead_ms.load(Ordering::Relaxed);
        1_700_000_000_000 + self.ms.load(Ordering::Relaxed) + ahead
    }
    fn monotonic_us(&self) -> u64 {
        self.ms.load(Ordering::Relaxed) as u64 * 1000
    }
}

pub(crate) struct Server {
    engine: Arc<dyn Engine>,
    clock: Arc<MockClock>,
    dispatcher: Arc<Dispatcher>,
}

impl Server {
    pub(crate) fn start_on(engine: Arc<dyn Engine>) -> Server {
        let clock = Arc::new(MockClock::default());
        let hooks = Arc::new(StoreHooks::new(Arc::new(SystemClock::default())).with_log(1 << 30));
        let store = Arc::new(Store::open(engine.clone(), hooks).unwrap());
        let service = Service::new(Config::default(), clock.clone(), store).into_shared();
        Server {
            engine,
            clock,
            dispatcher: Arc::new(registry::dispatcher(service)),
        }
    }

    fn new() -> Server {
        Server::start_on(Arc::new(MemoryEngine::new()))
    }

    /// A server with the collection `c`: `{_id: n, a: n}` below `n`.
    pub(crate) fn with_documents(n: i32) -> Server {
        let s = Server::new();
        s.fill("c", n);
        s
    }

    /// Creates a collection of the documents `{_id: n, a: n}` below `n`.
    pub(crate) fn fill(&self, name: &str, n: i32) {
        let docs: Vec<String> = (0..n)
            .map(|i| format!(r#"{{"_id": {i}, "a": {i}}}"#))
            .collect();
        let docs = docs.join(", ");
        let insert = format!(r#"{{"insert": "{name}", "documents": [{docs}]}}"#);
        let r = self.client(0).run(&insert);
        assert_eq!(code(&r), 0, "{r:?}");
    }

    pub(crate) fn dispatcher(&self) -> &Arc<Dispatcher> {
        &self.dispatcher
    }

    pub(crate) fn advance_ms(&self, ms: i64) {
        self.clock.ms.fetch_add(ms, Ordering::Relaxed);
    }

    pub(crate) fn set_wall_ahead_ms(&self, ms: i64) {
        self.clock.wall_ahead_ms.store(ms, Ordering::Relaxed);
    }

    /// The process ends: its memory is lost, the engine's content stays.
    fn restart(self) -> Server {
        Server::start_on(self.engine)
    }

    pub(crate) fn client(&self, session: u8) -> Client {
        Client {
            dispatcher: self.dispatcher.clone(),
            conn: self.dispatcher.connect("127.0.0.1:1"),
            session,
            number: 0,
            started: false,
        }
    }
}

/// A client with its own session.
pub(crate) struct Client {
    dispatcher: Arc<Dispatcher>,
    conn: Connection,
    session: u8,
    number: i64,
    started: bool,
}

pub(crate) fn code(r: &DocBuf) -> i64 {
    let errors = r.doc().field("writeErrors").as_array();
    let first = errors.and_then(|a| a.get(0));
    let d = first.as_ref().and_then(Value::as_doc).unwrap_or(r.doc());
    d.field("code").as_i64_exact().unwrap_or(0)
}

fn is_transient(r: &DocBuf) -> bool {
    let labels = r.doc().field("errorLabels").as_array();
    labels.is_some_and(|l| {
        l.iter()
            .any(|v| v.as_str() == Some("TransientTransactionError"))
    })
}

impl Client {
    /// Runs a command outside of a transaction.
    pub(crate) fn run(&mut self, command: &str) -> DocBuf {
        send(&self.dispatcher, &mut self.conn, "db", json(command).doc())
    }

    pub(crate) fn begin(&mut self) -> &mut Client {
        self.number += 1;
        self.started = false;
        self
    }

    fn with_number(&mut self, db: &str, mut command: DocBuf) -> DocBuf {
        let bytes = [self.session; 16];
        command.put("lsid", &doc! { "id": Binary { subtype: 4, bytes: &bytes } });
        command.put("txnNumber", self.number);
        command.put("autocommit", false);
        send(&self.dispatcher, &mut self.conn, db, command.doc())
    }

    /// Runs a statement of the transaction.
    pub(crate) fn say(&mut self, command: &str) -> DocBuf {
        let mut command = json(command);
        if !std::mem::replace(&mut self.started, true) {
            command.put("startTransaction", true);
        }
        self.with_number("db", command)
    }

    /// Runs a statement that must succeed.
    pub(crate) fn ok(&mut self, command: &str) -> DocBuf {
        let r = self.say(command);
        assert_eq!(code(&r), 0, "{command}: {r:?}");
        r
    }

    pub(crate) fn commit(&mut self) -> DocBuf {
        self.with_number("admin", doc! { "commitTransaction": 1i32 })
    }

    pub(crate) fn abort(&mut self) -> DocBuf {
        self.with_number("admin", doc! { "abortTransaction": 1i32 })
    }

    pub(crate) fn set(&mut self, id: i32, a: i32) -> DocBuf {
        self.say(&format!(
            r#"{{"update": "c", "updates": [{{"q": {{"_id": {id}}},
                "u": {{"$set": {{"a": {a}}}}}}}]}}"#
        ))
    }
}

/// The values of `_id` and `a` in a reply, in order.
pub(crate) fn pairs(r: &DocBuf) -> Vec<(i64, i64)> {
    let cursor = r
        .doc()
        .field("cursor")
        .as_doc()
        .unwrap_or_else(|| panic!("{r:?}"));
    let batch = match cursor.field("firstBatch") {
        Value::Missing => cursor.field("nextBatch"),
        batch => batch,
    };
    let number = |d: &Value<'_>, name: &str| {
        let d = d.as_doc().unwrap();
        d.field(name).as_i64_exact().unwrap_or(-1)
    };
    let batch = batch.as_array().unwrap();
    batch
        .iter()
        .map(|d| (number(&d, "_id"), number(&d, "a")))
        .collect()
}

pub(crate) const FIND: &str = r#"{"find": "c", "sort": {"_id": 1}}"#;

#[test]
fn statements_see_their_own_writes_and_others_see_them_after_the_commit() {
    let s = Server::with_documents(3);
    let (mut t, mut other) = (s.client(1), s.client(2));
    assert_eq!(
        code(&other.run(r#"{"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a"}]}"#)),
        0
    );
    t.begin()
        .ok(r#"{"insert": "c", "documents": [{"_id": 7, "a": 7}, {"_id": -1, "a": 5}]}"#);
    assert_eq!(code(&t.set(1, 9)), 0);
    t.ok(r#"{"delete": "c", "deletes": [{"q": {"_id": 0}, "limit": 1}]}"#);
    let own = vec![(-1, 5), (1, 9), (2, 2), (7, 7)];
    assert_eq!(pairs(&t.ok(FIND)), own);
    let by_index = r#"{"find": "c", "filter": {"a": {"$gte": 5}}, "hint": "a", "sort": {"a": -1}}"#;
    assert_eq!(pairs(&t.ok(by_index)), vec![(1, 9), (7, 7), (-1, 5)]);
    assert_eq!(
        pairs(&t.ok(r#"{"find": "c", "filter": {"_id": 1}}"#)),
        vec![(1, 9)]
    );
    let grouped = r#"{"aggregate": "c", "cursor": {}, "pipeline": [
        {"$group": {"_id": 0, "a": {"$sum": "$a"}}}]}"#;
    assert_eq!(pairs(&t.ok(grouped)), vec![(0, 23)]);
    let old = vec![(0, 0), (1, 1), (2, 2)];
    assert_eq!(pairs(&other.run(FIND)), old);
    assert_eq!(pairs(&other.run(by_index)), vec![]);
    assert_eq!(code(&t.commit()), 0);
    assert_eq!(pairs(&other.run(FIND)), own);
    assert_eq!(pairs(&other.run(by_index)), vec![(1, 9), (7, 7), (-1, 5)]);
    let count = other.run(r#"{"count": "c"}"#);
    assert_eq!(count.doc().field("n").as_i64_exact(), Some(4));
    let valid = other.run(r#"{"validate": "c"}"#);
    assert_eq!(
        valid.doc().field("valid").as_bool(),
        Some(true),
        "{valid:?}"
    );
}

#[test]
fn a_transaction_reads_the_state_of_its_beginning() {
    let s = Server::with_documents(3);
    let (mut t, mut other) = (s.client(1), s.client(2));
    t.begin().ok(FIND);
    other.run(r#"{"insert": "c", "documents": [{"_id": 9, "a": 9}]}"#);
    other.run(r#"{"delete": "c", "deletes": [{"q": {"_id": 0}, "limit": 1}]}"#);
    assert_eq!(pairs(&t.ok(FIND)), vec![(0, 0), (1, 1), (2, 2)]);
    assert_eq!(code(&t.commit()), 0);
    assert_eq!(pairs(&t.begin().ok(FIND)), vec![(1, 1), (2, 2), (9, 9)]);
}

#[test]
fn an_aborted_transaction_leaves_nothing() {
    let s = Server::with_documents(2);
    let mut t = s.client(1);
    t.begin()
        .ok(r#"{"insert": "c", "documents": [{"_id": 7, "a": 7}]}"#);
    t.set(1, 9);
    assert_eq!(code(&t.abort()), 0);
    assert_eq!(pairs(&t.run(FIND)), vec![(0, 0), (1, 1)]);
    assert_eq!(code(&t.set(1, 9)), 251, "the transaction has ended");
    assert_eq!(code(&t.commit()), 251);
    assert_eq!(code(&t.begin().set(1, 9)), 0, "the claims were released");
    assert_eq!(code(&t.commit()), 0);
    assert_eq!(pairs(&t.run(FIND)), vec![(0, 0), (1, 9)]);
}

#[test]
fn the_first_updater_wins() {
    let s = Server::with_documents(3);
    let (mut a, mut b) = (s.client(1), s.client(2));
    a.begin().ok(FIND);
    b.begin().ok(FIND);
    assert_eq!(code(&a.set(1, 10)), 0);
    let r = b.set(1, 20);
    assert!(code(&r) == 112 && is_transient(&r), "{r:?}");
    let r = b.say(FIND);
    assert!(
        code(&r) == 251 && is_transient(&r),
        "a conflict aborts: {r:?}"
    );
    assert_eq!(code(&a.commit()), 0);
    // A change that was committed after the transaction began conflicts as well.
    b.begin().ok(FIND);
    a.begin().set(2, 30);
    assert_eq!(code(&a.commit()), 0);
    for statement in [
        r#"{"delete": "c", "deletes": [{"q": {"_id": 2}, "limit": 1}]}"#,
        r#"{"findAndModify": "c", "query": {"_id": 2}, "update": {"$inc": {"a": 1}}}"#,
    ] {
        let r = b.say(statement);
        assert!(code(&r) == 112 && is_transient(&r), "{r:?}");
        b.begin().ok(FIND);
        a.begin().set(2, 40);
        assert_eq!(code(&a.commit()), 0);
    }
    assert_eq!(pairs(&a.run(FIND)), vec![(0, 0), (1, 10), (2, 40)]);
}

#[test]
fn keys_are_unique_across_transactions() {
    let s = Server::with_documents(1);
    let (mut a, mut b) = (s.client(1), s.client(2));
    a.run(r#"{"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a", "unique": true}]}"#);
    for insert in [
        r#"{"insert": "c", "documents": [{"_id": 5, "a": 5}]}"#,
        r#"{"insert": "c", "documents": [{"_id": 6, "a": 5}]}"#,
    ] {
        a.begin()
            .ok(r#"{"insert": "c", "documents": [{"_id": 5, "a": 5}]}"#);
        let r = b.begin().say(insert);
        assert!(code(&r) == 112 && is_transient(&r), "claimed: {r:?}");
        assert_eq!(code(&b.abort()), 251);
        b.begin().ok(FIND);
        assert_eq!(code(&a.commit()), 0);
        let r = b.say(insert);
        assert!(code(&r) == 112 && is_transient(&r), "inserted since: {r:?}");
        let r = b.begin().say(insert);
        assert!(code(&r) == 11000 && !is_transient(&r), "seen: {r:?}");
        assert_eq!(code(&b.say(FIND)), 251, "a write error aborts");
        a.begin()
            .ok(r#"{"delete": "c", "deletes": [{"q": {"_id": 5}, "limit": 1}]}"#);
        a.ok(r#"{"insert": "c", "documents": [{"_id": 8, "a": 5}]}"#);
        let r = a.say(r#"{"insert": "c", "documents": [{"_id": 9, "a": 5}]}"#);
        assert_eq!(code(&r), 11000, "its own key: {r:?}");
        a.begin()
            .ok(r#"{"delete": "c", "deletes": [{"q": {"_id": 5}, "limit": 1}]}"#);
        assert_eq!(code(&a.commit()), 0);
    }
    let valid = a.run(r#"{"validate": "c"}"#);
    assert_eq!(
        valid.doc().field("valid").as_bool(),
        Some(true),
        "{valid:?}"
    );
}

#[test]
fn an_update_of_many_meets_each_document_once() {
    let s = Server::with_documents(600);
    let mut t = s.client(1);
    t.run(r#"{"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a"}]}"#);
    let r = t.begin().ok(
        r#"{"update": "c", "updates": [{"q": {"a": {"$gte": 0}}, "u": {"$inc": {"a": 1000}},
            "multi": true, "hint": "a"}]}"#,
    );
    assert_eq!(r.doc().field("nModified").as_i64_exact(), Some(600));
    let r = t.ok(r#"{"delete": "c", "deletes": [{"q": {"a": {"$lt": 1300}}, "limit": 0}]}"#);
    assert_eq!(r.doc().field("n").as_i64_exact(), Some(300));
    assert_eq!(code(&t.commit()), 0);
    let r = t.run(r#"{"count": "c", "query": {"a": {"$gte": 1300}}}"#);
    assert_eq!(r.doc().field("n").as_i64_exact(), Some(300));
    let valid = t.run(r#"{"validate": "c"}"#);
    assert_eq!(
        valid.doc().field("valid").as_bool(),
        Some(true),
        "{valid:?}"
    );
}

#[test]
fn a_repeated_commit_is_confirmed_also_after_a_restart() {
    let s = Server::with_documents(1);
    let mut t = s.client(1);
    assert_eq!(code(&t.begin().set(0, 5)), 0);
    for _ in 0..2 {
        assert_eq!(code(&t.commit()), 0);
    }
    assert_eq!(code(&t.abort()), 256);
    assert_eq!(code(&t.set(0, 6)), 256);
    assert_eq!(code(&t.begin().set(0, 7)), 0, "not committed");
    let number = t.number;
    let s = s.restart();
    let mut t = s.client(1);
    t.number = number - 1;
    t.started = true;
    assert_eq!(code(&t.commit()), 0, "committed before the restart");
    assert_eq!(code(&t.abort()), 256);
    t.number = number;
    assert_eq!(code(&t.commit()), 251, "lost with the process");
    t.number = number - 2;
    assert_eq!(code(&t.commit()), 225);
    assert_eq!(pairs(&t.run(FIND)), vec![(0, 5)]);
}

#[test]
fn a_transaction_ends_when_its_time_is_over_or_its_session_is_killed() {
    let s = Server::with_documents(1);
    let (mut t, mut other) = (s.client(1), s.client(2));
    assert_eq!(code(&t.begin().set(0, 5)), 0);
    let service = s.dispatcher.service();
    s.clock.ms.store(59_000, Ordering::Relaxed);
    commands::workers::run_shared_once(service);
    assert_eq!(code(&t.set(0, 6)), 0);
    s.clock.ms.store(61_000, Ordering::Relaxed);
    commands::workers::run_shared_once(service);
    assert_eq!(code(&t.set(0, 7)), 251);
    assert_eq!(code(&t.begin().set(0, 8)), 0);
    let lsid = Binary {
        subtype: 4,
        bytes: &[1; 16],
    };
    let kill = doc! { "killSessions": [{ "id": lsid }] };
    assert_eq!(
        code(&send(&s.dispatcher, &mut other.conn, "admin", kill.doc())),
        0
    );
    let r =
        other.run(r#"{"update": "c", "updates": [{"q": {"_id": 0}, "u": {"$set": {"a": 1}}}]}"#);
    assert_eq!(code(&r), 0, "no claim is left");
    let r = t.commit();
    assert!(code(&r) == 251 && is_transient(&r), "{r:?}");
    assert_eq!(pairs(&t.run(FIND)), vec![(0, 1)]);
    let status = other.run(r#"{"serverStatus": 1}"#);
    let counts = status.doc().field("transactions").as_doc().unwrap();
    let count = |name: &str| counts.field(name).as_i64_exact();
    assert_eq!(
        (
            count("totalStarted"),
            count("totalAborted"),
            count("currentOpen")
        ),
        (Some(2), Some(2), Some(0))
    );
}

#[test]
fn writers_outside_wait_for_the_transaction() {
    let s = Server::with_documents(1);
    let mut t = s.client(1);
    assert_eq!(code(&t.begin().set(0, 5)), 0);
    let mut other = s.client(2);
    let (done, waits) = std::sync::mpsc::channel();
    let writer = std::thread::spawn(move || {
        let r = other
            .run(r#"{"update": "c", "updates": [{"q": {"_id": 0}, "u": {"$inc": {"a": 1}}}]}"#);
        done.send(code(&r)).unwrap();
    });
    assert!(waits.recv_timeout(Duration::from_millis(100)).is_err());
    assert_eq!(code(&t.commit()), 0);
    assert_eq!(waits.recv_timeout(Duration::from_secs(10)), Ok(0));
    writer.join().unwrap();
    assert_eq!(pairs(&t.run(FIND)), vec![(0, 6)]);
}

// An open transaction delays changes of its collection, but no other operations and no other
// changes of the catalog; a delayed change can be interrupted.
#[test]
fn a_ddl_that_waits_for_a_transaction_blocks_no_other_operation() {
    let s = Server::with_documents(1);
    let mut t = s.client(1);
    assert_eq!(code(&t.begin().set(0, 5)), 0);
    let waiting: Vec<_> = [
        r#"{"drop": "c"}"#,
        r#"{"collMod": "c", "validationLevel": "off"}"#,
        r#"{"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a_1"}]}"#,
        r#"{"validate": "c"}"#,
        r#"{"update": "c", "updates": [{"q": {"_id": 0}, "u": {"$inc": {"a": 1}}}]}"#,
    ]
    .into_iter()
    .zip(10..)
    .map(|(command, session)| {
        let mut client = s.client(session);
        std::thread::spawn(move || (command, code(&client.run(command))))
    })
    .collect();
    let rename = {
        let mut client = s.client(9);
        std::thread::spawn(move || {
            let rename = json(r#"{"renameCollection": "db.c", "to": "db.d"}"#);
            let r = send(&client.dispatcher, &mut client.conn, "admin", rename.doc());
            ("rename", code(&r))
        })
    };
    std::thread::sleep(Duration::from_millis(200));
    let (done, made) = std::sync::mpsc::channel();
    let mut other = s.client(2);
    std::thread::spawn(move || {
        for command in [
            r#"{"create": "e"}"#,
            r#"{"insert": "f", "documents": [{}]}"#,
            r#"{"drop": "e"}"#,
        ] {
            done.send(code(&other.run(command))).unwrap();
        }
    });
    for _ in 0..3 {
        assert_eq!(made.recv_timeout(Duration::from_secs(20)), Ok(0));
    }
    let mut admin = s.client(3);
    let running = r#"{"aggregate": 1, "cursor": {}, "pipeline": [{"$currentOp": {}},
        {"$match": {"command.aggregate": {"$exists": false}}}, {"$project": {"_id": "$opid"}}]}"#;
    let r = send(&s.dispatcher, &mut admin.conn, "admin", json(running).doc());
    for (opid, _) in pairs(&r) {
        let kill = json(&format!(r#"{{"killOp": 1, "op": {opid}}}"#));
        send(&s.dispatcher, &mut admin.conn, "admin", kill.doc());
    }
    for thread in waiting.into_iter().chain([rename]) {
        let (command, code) = thread.join().unwrap();
        assert_eq!(code, 11601, "{command}");
    }
    assert_eq!(code(&t.commit()), 0);
    assert_eq!(pairs(&t.run(FIND)), vec![(0, 5)]);
}

/// A client as in the network layer: the server tells it to wait, instead of waiting on its thread.
pub(crate) struct WaitingClient {
    conn: Connection,
    pub(crate) bell: Arc<ConnectionWaker>,
}

impl WaitingClient {
    pub(crate) fn new(s: &Server) -> WaitingClient {
        let bell = Arc::new(ConnectionWaker::default());
        let conn = s
            .dispatcher
            .connect_linked("127.0.0.1:2", Some(bell.clone()));
        WaitingClient { conn, bell }
    }

    /// The reply, or `None` when it has to wait.
    pub(crate) fn run(&mut self, s: &Server, command: &DocBuf, waited: bool) -> Option<DocBuf> {
        let mut command = command.clone();
        if !command.doc().contains("$db") {
            command.put("$db", "db");
        }
        let mut request = Request::new(command.doc());
        request.waited = waited;
        let mut reply = Vec::new();
        match s.dispatcher.handle(&mut self.conn, &request, &mut reply) {
            Outcome::Wait { on, .. } => {
                assert_eq!((on, reply.len()), (WaitFor::Release, 0));
                None
            }
            _ => Some(DocBuf::from_bytes(reply).unwrap()),
        }
    }
}

// Regression: each waiting writer held a thread until the transaction ended; with enough writers
// the server answered no request, not even the commit.
#[test]
fn writers_that_wait_for_a_transaction_hold_no_thread() {
    let s = Server::with_documents(3);
    let mut t = s.client(1);
    assert_eq!(code(&t.begin().set(0, 100)), 0);
    let mut t2 = s.client(2);
    assert_eq!(code(&t2.begin().set(2, 7)), 0);
    let plain = json(r#"{"update": "c", "updates": [{"q": {"_id": 0}, "u": {"$inc": {"a": 1}}}]}"#);
    let mut retryable = plain.clone();
    retryable.put(
        "lsid",
        &doc! { "id": Binary { subtype: 4, bytes: &[99; 16] } },
    );
    retryable.put("txnNumber", 1i64);
    let insert =
        json(r#"{"insert": "c", "documents": [{"_id": 0}, {"_id": 9}], "ordered": false}"#);
    let modify = json(
        r#"{"findAndModify": "c", "query": {"_id": 0}, "update": {"$inc": {"a": 1}}, "new": true}"#,
    );
    let delete = json(r#"{"delete": "c", "deletes": [{"q": {"a": 7}, "limit": 1}]}"#);
    let mut waiting: Vec<(WaitingClient, &DocBuf)> = Vec::new();
    for command in std::iter::repeat_n(&plain, 300).chain([&retryable, &insert, &modify]) {
        let mut client = WaitingClient::new(&s);
        assert_eq!(client.run(&s, command, false), None);
        assert!(!client.bell.take());
        waiting.push((client, command));
    }
    let queue = |n: i64| {
        let r = s.client(5).run(r#"{"serverStatus": 1}"#);
        let lock = r.doc().field("globalLock").as_doc().unwrap().to_buf();
        let queue = lock.doc().field("currentQueue").as_doc().unwrap().to_buf();
        assert_eq!(queue.doc().field("writers").as_i64_exact(), Some(n));
    };
    queue(waiting.len() as i64);
    // One is killed, one reaches its time limit, and the client of one disconnects: none of them
    // has written.
    let (mut killed, mut late) = (WaitingClient::new(&s), WaitingClient::new(&s));
    assert_eq!(killed.run(&s, &plain, false), None);
    let mut admin = s.client(3);
    let newest = r#"{"aggregate": 1, "cursor": {}, "pipeline": [{"$currentOp": {}},
        {"$match": {"op": "update"}}, {"$group": {"_id": {"$max": "$opid"}}},
        {"$sort": {"_id": -1}}, {"$limit": 1}]}"#;
    let r = send(&s.dispatcher, &mut admin.conn, "admin", json(newest).doc());
    let kill = json(&format!(r#"{{"killOp": 1, "op": {}}}"#, pairs(&r)[0].0));
    send(&s.dispatcher, &mut admin.conn, "admin", kill.doc());
    assert!(killed.bell.take());
    assert_eq!(code(&killed.run(&s, &plain, true).unwrap()), 11601);
    let mut limited = plain.clone();
    limited.put("maxTimeMS", 50i32);
    assert_eq!(late.run(&s, &limited, false), None);
    s.clock.ms.fetch_add(60, Ordering::Relaxed);
    assert_eq!(code(&late.run(&s, &limited, true).unwrap()), 50);
    let mut gone = WaitingClient::new(&s);
    assert_eq!(gone.run(&s, &plain, false), None);
    drop(gone);
    // The commit of another transaction wakes none of them.
    assert_eq!(code(&t2.commit()), 0);
    assert!(waiting.iter().all(|(client, _)| !client.bell.take()));
    assert_eq!(code(&t.commit()), 0);
    for (client, command) in &mut waiting {
        assert!(client.bell.take());
        let r = client.run(&s, command, true).unwrap();
        let expected = if command.doc().contains("insert") {
            11000
        } else {
            0
        };
        assert_eq!(code(&r), expected, "{r:?}");
    }
    queue(0);
    let mut client = WaitingClient::new(&s);
    assert_eq!(code(&client.run(&s, &delete, false).unwrap()), 0);
    let all = pairs(&s.client(4).run(FIND));
    assert_eq!(all, vec![(0, 402), (1, 1), (9, -1)]);
}

#[test]
fn a_wait_for_a_transaction_ends_by_a_kill_and_when_the_server_stops() {
    let s = Server::with_documents(2);
    let mut t = s.client(1);
    assert_eq!(code(&t.begin().set(0, 5)), 0);
    let waiter = |session: u8| {
        let mut other = s.client(session);
        std::thread::spawn(move || {
            let update =
                r#"{"update": "c", "updates": [{"q": {"_id": 0}, "u": {"$inc": {"a": 1}}}]}"#;
            code(&other.run(update))
        })
    };
    let killed = waiter(2);
    let mut admin = s.client(3);
    let running = r#"{"aggregate": 1, "cursor": {}, "pipeline": [{"$currentOp": {}},
        {"$match": {"op": "update"}}, {"$project": {"_id": "$opid"}}]}"#;
    let opid = loop {
        let r = send(&s.dispatcher, &mut admin.conn, "admin", json(running).doc());
        if let Some((opid, _)) = pairs(&r).first() {
            break *opid;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let kill = format!(r#"{{"killOp": 1, "op": {opid}}}"#);
    assert_eq!(
        code(&send(
            &s.dispatcher,
            &mut admin.conn,
            "admin",
            json(&kill).doc()
        )),
        0
    );
    assert_eq!(killed.join().unwrap(), 11601);
    let stopped = waiter(4);
    std::thread::sleep(Duration::from_millis(100));
    s.dispatcher.service().interrupt_all();
    assert!(matches!(stopped.join().unwrap(), 0 | 11600));
    assert_eq!(code(&t.commit()), 251, "aborted because the server stops");
}

#[test]
fn a_cursor_of_a_transaction_goes_on_in_it_and_ends_with_it() {
    let s = Server::with_documents(10);
    let mut t = s.client(1);
    let r = t
        .begin()
        .ok(r#"{"find": "c", "batchSize": 4, "sort": {"_id": 1}}"#);
    let id = r
        .doc()
        .field("cursor")
        .as_doc()
        .unwrap()
        .field("id")
        .as_i64_exact()
        .unwrap();
    let more = |n: i32| {
        format!(r#"{{"getMore": {{"$numberLong": "{id}"}}, "collection": "c", "batchSize": {n}}}"#)
    };
    assert_eq!(pairs(&t.ok(&more(2))), vec![(4, 4), (5, 5)]);
    let mut command = json(&more(2));
    let lsid = Binary {
        subtype: 4,
        bytes: &[1; 16],
    };
    command.put("lsid", &doc! { "id": lsid });
    let r = send(&s.dispatcher, &mut t.conn, "db", command.doc());
    assert_eq!(code(&r), 50740, "{r:?}");
    assert_eq!(code(&t.commit()), 0);
    t.begin().ok(FIND);
    assert_eq!(
        code(&t.say(&more(2))),
        43,
        "the cursor ended with its transaction"
    );
}

#[test]
fn arguments_and_commands_that_belong_to_no_transaction_are_refused() {
    let s = Server::with_documents(1);
    let mut t = s.client(1);
    let lsid =
        r#""lsid": {"id": {"$binary": {"base64": "AQEBAQEBAQEBAQEBAQEBAQ==", "subType": "04"}}}"#;
    let number = r#""txnNumber": {"$numberLong": "5"}"#;
    for (command, expected) in [
        (
            format!(r#"{{"find": "c", {lsid}, "autocommit": false, "startTransaction": true}}"#),
            72,
        ),
        (
            format!(r#"{{"find": "c", {lsid}, {number}, "startTransaction": true}}"#),
            72,
        ),
        (
            format!(r#"{{"find": "c", {lsid}, {number}, "autocommit": true}}"#),
            72,
        ),
        (
            format!(r#"{{"find": "c", {lsid}, {number}, "autocommit": false}}"#),
            251,
        ),
        (
            format!(r#"{{"find": "c", {number}, "autocommit": false}}"#),
            72,
        ),
        (
            format!(r#"{{"find": "c", {lsid}, "startTransaction": false}}"#),
            72,
        ),
        (format!(r#"{{"find": "c", {lsid}, {number}}}"#), 50768),
    ] {
        let r = t.run(&command);
        assert_eq!(code(&r), expected, "{command}: {r:?}");
    }
    for (command, expected) in [
        (r#"{"count": "c"}"#, 263),
        (r#"{"drop": "c"}"#, 263),
        (
            r#"{"find": "c", "readConcern": {"level": "linearizable"}}"#,
            72,
        ),
        (
            r#"{"insert": "c", "documents": [{}], "writeConcern": {"w": 1}}"#,
            72,
        ),
        (
            r#"{"aggregate": "c", "pipeline": [{"$out": "d"}], "cursor": {}}"#,
            263,
        ),
    ] {
        let r = t.begin().say(command);
        assert_eq!(code(&r), expected, "{command}: {r:?}");
    }
    t.begin().ok(FIND);
    let r = t.say(r#"{"find": "c", "readConcern": {"level": "snapshot"}}"#);
    assert_eq!(code(&r), 72, "{r:?}");
    let admin = |t: &mut Client, command: &str| {
        code(&send(
            &s.dispatcher,
            &mut t.conn,
            "admin",
            json(command).doc(),
        ))
    };
    assert_eq!(admin(&mut t, r#"{"commitTransaction": 1}"#), 125);
    assert_eq!(
        admin(&mut t, r#"{"abortTransaction": 1, "autocommit": null}"#),
        125
    );
    assert_eq!(
        admin(&mut t, r#"{"abortTransaction": 1, "autocommit": false}"#),
        72
    );
    assert_eq!(code(&t.run(r#"{"commitTransaction": 1}"#)), 13);
}

/// Drivers send the transaction's read concern with its first statement, whichever command that is.
#[test]
fn a_write_may_name_the_read_concern_of_its_transaction() {
    let s = Server::with_documents(1);
    let mut t = s.client(1);
    for (n, level) in (1..).zip(["local", "majority", "snapshot"]) {
        t.begin().ok(&format!(
            r#"{{"insert": "c", "documents": [{{"_id": {n}}}],
                "readConcern": {{"level": "{level}"}}}}"#
        ));
        assert_eq!(code(&t.commit()), 0);
    }
    let refused = r#"{"insert": "c", "documents": [{}], "readConcern": {"level": "linearizable"}}"#;
    assert_eq!(code(&t.begin().say(refused)), 72);
    let outside = r#"{"insert": "c", "documents": [{}], "readConcern": {"level": "majority"}}"#;
    assert_eq!(code(&t.run(outside)), 72);
    assert_eq!(pairs(&t.run(FIND)).len(), 4);
}

/// Many sessions transfer amounts between accounts: every state that a transaction reads has the
/// same sum, and so has the final state.
#[test]
fn concurrent_transfers_conserve_the_sum() {
    const ACCOUNTS: i64 = 8;
    let s = Server::new();
    let docs: Vec<String> = (0..ACCOUNTS)
        .map(|i| format!(r#"{{"_id": {i}, "a": 100}}"#))
        .collect();
    s.client(0).run(&format!(
        r#"{{"insert": "c", "documents": [{}]}}"#,
        docs.join(", ")
    ));
    let sum = |r: &DocBuf| pairs(r).iter().map(|(_, a)| a).sum::<i64>();
    let committed: i64 = std::thread::scope(|scope| {
        let workers: Vec<_> = (1..=4u8)
            .map(|n| {
                let mut t = s.client(n);
                scope.spawn(move || {
                    let mut committed = 0;
                    for round in 0..150u64 {
                        let draw = (round + 1) * 2_654_435_761 * u64::from(n);
                        let from = (draw >> 7) as i64 % ACCOUNTS;
                        let to = (draw >> 17) as i64 % ACCOUNTS;
                        let r = t.begin().ok(FIND);
                        assert_eq!(sum(&r), 100 * ACCOUNTS, "{r:?}");
                        let moves = [(from, -1), (to, 1)];
                        let fails = moves.iter().any(|(id, by)| {
                            let r = t.say(&format!(
                                r#"{{"update": "c", "updates": [{{"q": {{"_id": {id}}},
                                    "u": {{"$inc": {{"a": {by}}}}}}}]}}"#
                            ));
                            assert!(matches!(code(&r), 0 | 112), "{r:?}");
                            code(&r) != 0
                        });
                        if !fails {
                            assert_eq!(code(&t.commit()), 0);
                            committed += 1;
                        }
                    }
                    committed
                })
            })
            .collect();
        workers.into_iter().map(|w| w.join().unwrap()).sum()
    });
    assert!(committed > 150, "{committed}");
    let mut t = s.client(9);
    assert_eq!(sum(&t.run(FIND)), 100 * ACCOUNTS);
    let valid = t.run(r#"{"validate": "c"}"#);
    assert_eq!(
        valid.doc().field("valid").as_bool(),
        Some(true),
        "{valid:?}"
    );
}

#[test]
fn a_collection_created_for_an_aborted_transaction_is_dropped() {
    let s = Server::new();
    let (mut t, mut other) = (s.client(1), s.client(2));
    let names = |c: &mut Client| {
        let r = c.run(r#"{"listCollections": 1, "nameOnly": true}"#);
        let cursor = r.doc().field("cursor").as_doc().unwrap();
        let batch = cursor.field("firstBatch").as_array().unwrap();
        let name = |d: Value<'_>| {
            d.as_doc()
                .unwrap()
                .field("name")
                .as_str()
                .map(str::to_owned)
        };
        let mut all: Vec<String> = batch.iter().filter_map(name).collect();
        all.sort();
        all
    };
    let insert = |into: &str| format!(r#"{{"insert": "{into}", "documents": [{{"_id": 1}}]}}"#);
    t.begin().ok(&insert("a"));
    t.ok(
        r#"{"update": "b", "updates": [{"q": {"_id": 1}, "u": {"$set": {"x": 1}},
            "upsert": true}]}"#,
    );
    assert_eq!(names(&mut other), Vec::<String>::new());
    assert_eq!(code(&t.abort()), 0);
    assert_eq!(names(&mut other), Vec::<String>::new());
    // A collection that another client has created stays, and so does a committed one.
    t.begin().ok(&insert("a"));
    assert_eq!(code(&other.run(&insert("a").replace('1', "2"))), 0);
    assert_eq!(code(&t.abort()), 0);
    t.begin().ok(&insert("b"));
    assert_eq!(code(&t.commit()), 0);
    assert_eq!(names(&mut other), ["a", "b"]);
    // An error aborts the transaction as well.
    t.begin().ok(&insert("c"));
    assert_ne!(code(&t.say(&insert("c"))), 0);
    let r = t.say(r#"{"insert": "b", "documents": [{"_id": 1}]}"#);
    assert_ne!(code(&r), 0);
    assert_eq!(names(&mut other), ["a", "b"]);
}

#[test]
fn open_transactions_are_shown_between_their_statements() {
    let s = Server::with_documents(1);
    let (mut t, mut other) = (s.client(1), s.client(2));
    let list = |client: &mut Client, options: &str| {
        let stages =
            format!(r#"[{{"$currentOp": {options}}}, {{"$match": {{"type": "idleSession"}}}}]"#);
        let r = send(
            &client.dispatcher,
            &mut client.conn,
            "admin",
            json(&format!(
                r#"{{"aggregate": 1, "pipeline": {stages}, "cursor": {{}}}}"#
            ))
            .doc(),
        );
        assert_eq!(code(&r), 0, "{r:?}");
        let cursor = r.doc().field("cursor").as_doc().unwrap();
        let batch = cursor.field("firstBatch").as_array().unwrap();
        batch
            .iter()
            .map(|d| d.as_doc().unwrap().to_buf())
            .collect::<Vec<_>>()
    };
    assert_eq!(list(&mut other, "{}").len(), 0);
    t.begin();
    t.set(0, 7);
    let shown = list(&mut other, "{}");
    let [one] = shown.as_slice() else {
        panic!("{shown:?}")
    };
    assert!(matches!(one.doc().field("active"), Value::Bool(false)));
    let transaction = one.doc().field("transaction").as_doc().unwrap();
    let parameters = transaction.field("parameters").as_doc().unwrap();
    assert_eq!(parameters.field("txnNumber").as_i64_exact(), Some(1));
    let id = one.doc().field("lsid").as_doc().unwrap().field("id");
    assert!(matches!(id, Value::Binary(b) if b.bytes == [1; 16]));
    assert_eq!(list(&mut other, r#"{"idleSessions": false}"#).len(), 0);
    let running = send(
        &other.dispatcher,
        &mut other.conn,
        "admin",
        doc! { "currentOp": 1i32, "type": "idleSession" }.doc(),
    );
    let running = running.doc().field("inprog").as_array().unwrap();
    assert_eq!(running.len(), 1);
    assert_eq!(code(&t.commit()), 0);
    assert_eq!(list(&mut other, "{}").len(), 0);
}

/// A kill may come between the admission of a statement and its start.
#[test]
fn a_statement_of_a_killed_session_changes_nothing_outside_of_its_transaction() {
    const STATEMENTS: i64 = 5_000;
    let s = Server::with_documents(1);
    let lsid = || doc! { "id": Binary { subtype: 4, bytes: &[7; 16] } };
    let connect = || s.dispatcher.connect("127.0.0.1:1");
    let done = AtomicBool::new(false);
    let mut codes = std::collections::BTreeSet::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut conn, kill) = (connect(), doc! { "killSessions": [&lsid()] });
            while !done.load(Ordering::Relaxed) {
                send(&s.dispatcher, &mut conn, "admin", kill.doc());
            }
        });
        let mut conn = connect();
        for number in 1..=STATEMENTS {
            let update = doc! {
                "update": "c",
                "updates": [{ "q": { "_id": 0i32 }, "u": { "$inc": { "a": 1i32 } } }],
                "lsid": &lsid(),
                "txnNumber": number,
                "startTransaction": true,
                "autocommit": false,
            };
            let reply = send(&s.dispatcher, &mut conn, "db", update.doc());
            codes.insert(code(&reply));
        }
        done.store(true, Ordering::Relaxed);
    });
    // 11601: the kill came while it ran; 112: a killed one is not quite aborted yet.
    codes.retain(|code| ![0, 112, 11601].contains(code));
    assert!(codes.is_empty(), "{codes:?}");
    let mut conn = connect();
    let kill = doc! { "killAllSessions": [] };
    send(&s.dispatcher, &mut conn, "admin", kill.doc());
    assert_eq!(pairs(&s.client(2).run(FIND)), [(0, 0)]);
    assert_eq!(s.dispatcher.service().state.transactions.open(), 0);
}
