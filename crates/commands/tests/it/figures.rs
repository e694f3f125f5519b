//! Checks all numbers: every figure of serverStatus, collStats, dbStats, top, currentOp and the
//! profile leaves zero when the event that it counts happens. Exceptions are listed with their
//! reasons; a listed figure that does change fails the test as well.

use crate::behaviour::send;
use crate::interrupts::{code, json};
use crate::metrics_reference::{MOVES, server};
use crate::observability::{LoggingServer, int};
use crate::tails::ConnectionWaker;
use crate::truths::batch;
use commands::{Connection, Dispatcher, Outcome, Request, ttl};
use model::{Doc, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

type Figures = BTreeMap<String, f64>;

/// Prefixes of figures that stay 0 in this test, with the reason.
const STILL: &[(&str, &str)] = &[
    ("serverStatus.asserts.msg", "there are no such assertions"),
    (
        "serverStatus.asserts.regular",
        "there are no such assertions",
    ),
    (
        "serverStatus.asserts.rollovers",
        "there are no such assertions",
    ),
    (
        "serverStatus.asserts.tripwire",
        "there are no such assertions",
    ),
    (
        "serverStatus.asserts.warning",
        "there are no such assertions",
    ),
    ("serverStatus.catalogStats.internalViews", "there are none"),
    (
        "serverStatus.opcountersRepl",
        "nothing comes from another member",
    ),
    (
        "serverStatus.repl.secondary",
        "a server alone is the primary",
    ),
    (
        "serverStatus.quarry.logConsumers",
        "this server has no log; tested with search indexes",
    ),
    (
        "serverStatus.quarry.log.",
        "one server writes; tested with several",
    ),
    (
        "serverStatus.quarry.logReferences",
        "this server has no log; tested with a log",
    ),
    (
        "serverStatus.quarry.search",
        "no collection here has a search index; tested with search indexes",
    ),
    (
        "serverStatus.quarry.follow",
        "nothing is followed here; tested with a state that is kept",
    ),
    (
        "serverStatus.storageEngine.backupCursorOpen",
        "memory cannot be backed up",
    ),
    ("serverStatus.storageEngine.persistent", "memory is not"),
    (
        "serverStatus.storageEngine.readOnly",
        "a mounted backup alone is",
    ),
    (
        "serverStatus.transactions.currentPrepared",
        "a server alone prepares nothing",
    ),
    (
        "serverStatus.transactions.totalPrepared",
        "a server alone prepares nothing",
    ),
    (
        "serverStatus.metrics.ttl.collSubpassesIncreasedPriority",
        "collections have no priorities",
    ),
    (
        "serverStatus.quarry.operationsMemory.refused",
        "no limit is set here",
    ),
    (
        "serverStatus.quarry.operationsMemory.largeDocuments.takenBytes",
        "all documents here are small; tested beside the room",
    ),
    (
        "serverStatus.quarry.operationsMemory.largeDocuments.wait",
        "all documents here are small; tested beside the room",
    ),
    (
        "serverStatus.quarry.operationsMemory.largeDocuments.refused",
        "all documents here are small; tested beside the room",
    ),
    (
        "serverStatus.quarry.operationsMemory.reclaimed",
        "no limit is set here",
    ),
    (
        "collStats.freeStorageSize",
        "memory gives space back at once",
    ),
    ("dbStats.freeStorageSize", "memory gives space back at once"),
    ("dbStats.indexFreeStorageSize", "entries share their tables"),
    (
        "dbStats.totalFreeStorageSize",
        "memory gives space back at once",
    ),
    ("collStats.numOrphanDocs", "a server alone has no orphans"),
    (
        "serverStatus.metrics.ttl.invalidTTLIndexSkips",
        "such an index is refused; a directory of an older version may have one",
    ),
    (
        "serverStatus.quarry.workers.WORKER.errors",
        "no worker fails here",
    ),
    ("currentOp.progress.errors", "no worker fails here"),
    ("profile.ok", "operations that failed alone have it"),
    ("currentOp.numYields", "nothing holds a lock it could yield"),
    (
        "currentOp.transaction.parameters.autocommit",
        "false in every transaction",
    ),
];

/// Figures that the machine or the engine changes on its own.
const ELSEWHERE: &[(&str, &str)] = &[
    ("serverStatus.extra_info.page_faults", "the machine's"),
    ("serverStatus.extra_info.system_time_us", "the machine's"),
    (
        "serverStatus.quarry.engine",
        "each engine's own, tested there",
    ),
];

/// Adds the numbers and booleans of a document by their paths, and keeps the highest value of
/// several calls. Paths leave out names that depend on the data.
fn add(prefix: &str, d: Doc<'_>, all: &mut Figures) {
    // The cluster time is in every reply and does not belong to the command.
    for (name, v) in d.iter().filter(|(name, _)| *name != "$clusterTime") {
        let path = match prefix {
            "serverStatus.metrics.commands" if v.as_doc().is_some() => format!("{prefix}.COMMAND"),
            "top.totals" => format!("{prefix}.NAMESPACE"),
            "collStats.indexSizes" | "collStats.indexDetails" => format!("{prefix}.INDEX"),
            "serverStatus.quarry.workers" => format!("{prefix}.WORKER"),
            _ => format!("{prefix}.{name}"),
        };
        let number = match v {
            Value::Document(d) => {
                // Documents of clients are not figures.
                if !["command", "originatingCommand", "clientMetadata"].contains(&name) {
                    add(&path, d, all);
                }
                continue;
            }
            v => v.as_f64().or(v.as_bool().map(f64::from)),
        };
        if let Some(n) = number {
            let highest = all.entry(path).or_insert(0.0);
            *highest = highest.max(n.abs());
        }
    }
}

/// Reads all figures.
fn read_figures(s: &mut LoggingServer, all: &mut Figures) {
    for (db, name, command) in [
        ("admin", "serverStatus", r#"{"serverStatus": 1}"#),
        ("admin", "top", r#"{"top": 1}"#),
        ("db", "dbStats", r#"{"dbStats": 1, "freeStorage": 1}"#),
        ("db", "collStats", r#"{"collStats": "c"}"#),
        ("db", "collStats", r#"{"collStats": "d"}"#),
        ("db", "collStats", r#"{"collStats": "m"}"#),
    ] {
        let reply = s.run(db, command);
        if code(&reply) == 0 {
            add(name, reply.doc(), all);
        }
    }
    let running = s.run("admin", r#"{"currentOp": 1, "$all": true}"#);
    let list = running.doc().field("inprog").as_array().expect("a list");
    for op in list.iter().filter_map(|v| v.as_doc()) {
        add("currentOp", op, all);
    }
}

/// The same for the documents of the profile. This is a read, which may wait for a ticket.
fn look_at_profile(s: &mut LoggingServer, all: &mut Figures) {
    let rows = batch(&s.ok(r#"{"find": "system.profile", "batchSize": 10000}"#));
    rows.iter().for_each(|row| add("profile", row.doc(), all));
}

/// A client whose operation may wait without a thread.
struct WaitingClient {
    conn: Connection,
    command: model::DocBuf,
}

impl WaitingClient {
    fn begin(s: &LoggingServer, command: &str) -> WaitingClient {
        let bell = Arc::new(ConnectionWaker::default());
        let conn = s.server().connect_linked("127.0.0.1:5", Some(bell));
        let mut command = json(command);
        if !command.doc().contains("$db") {
            command.put("$db", "db");
        }
        let mut one = WaitingClient { conn, command };
        assert!(one.step(s, false), "{:?} does not wait", one.command);
        one
    }

    /// Whether the operation still waits.
    fn step(&mut self, s: &LoggingServer, waited: bool) -> bool {
        let mut request = Request::new(self.command.doc());
        request.waited = waited;
        let mut reply = Vec::new();
        let outcome = s.server().handle(&mut self.conn, &request, &mut reply);
        matches!(outcome, Outcome::Wait { .. })
    }
}

const SESSION: &str = r#""lsid": {"id": {"$binary": {"base64": "AAECAwQFBgcICQoLDA0ODw==",
    "subType": "04"}}}, "autocommit": false"#;

/// A transaction that other operations wait for, and an aborted one.
fn transactions(s: &mut LoggingServer, all: &mut Figures) {
    let begin = |n: i32| format!(r#""txnNumber": {{"$numberLong": "{n}"}}, {SESSION}"#);
    let change = |n: i32, rest: &str| {
        format!(
            r#"{{"update": "c", "updates": [{{"q": {{"_id": 1}}, "u": {{"$inc": {{"x": 1}}}}}}],
                {}{rest}}}"#,
            begin(n)
        )
    };
    s.ok(&change(1, r#", "startTransaction": true"#));
    let write = r#"{"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"y": 1}}}]}"#;
    let mut other = WaitingClient::begin(s, write);
    std::thread::sleep(Duration::from_millis(1010));
    read_figures(s, all);
    let end = |name: &str, n: i32| format!(r#"{{"{name}": 1, {}}}"#, begin(n));
    assert_eq!(code(&s.run("admin", &end("commitTransaction", 1))), 0);
    assert!(!other.step(s, true));
    s.ok(&change(2, r#", "startTransaction": true"#));
    assert_eq!(code(&s.run("admin", &end("abortTransaction", 2))), 0);
}

/// Open cursors, cursors that wait for data, and one that times out.
fn cursors(s: &mut LoggingServer, all: &mut Figures) {
    s.ok(r#"{"find": "c", "batchSize": 1, "noCursorTimeout": true}"#);
    s.ok(r#"{"insert": "d", "documents": [{"a": 1}]}"#);
    let opened = s.ok(r#"{"find": "d", "tailable": true, "awaitData": true}"#);
    let id = int(&opened, "cursor.id");
    let more =
        format!(r#"{{"getMore": {{"$numberLong": "{id}"}}, "collection": "d", "maxTimeMS": 5}}"#);
    let mut tail = WaitingClient::begin(s, &more);
    read_figures(s, all);
    std::thread::sleep(Duration::from_millis(10));
    assert!(!tail.step(s, true));
    let opened = s.ok(r#"{"find": "c", "batchSize": 1}"#);
    let id = int(&opened, "cursor.id");
    s.ok(&format!(
        r#"{{"getMore": {{"$numberLong": "{id}"}}, "collection": "c", "batchSize": 1}}"#
    ));
    read_figures(s, all);
    let timeout = r#"{"setParameter": 1, "cursorTimeoutMillis": 1}"#;
    assert_eq!(code(&s.run("admin", timeout)), 0);
    std::thread::sleep(Duration::from_millis(5));
    commands::workers::run_shared_once(s.service());
}

/// Expiring documents, and a TTL index with an invalid expiry.
fn expiry(s: &mut LoggingServer) {
    s.ok(r#"{"createIndexes": "ttl", "indexes": [
        {"key": {"at": 1}, "name": "at", "expireAfterSeconds": 0}]}"#);
    s.ok(r#"{"insert": "ttl", "documents": [{"at": {"$date": "2001-01-01T00:00:00Z"}}]}"#);
    let service = s.service().arc().expect("a shared service");
    ttl::Monitor::default().pass(&service, &|| true);
}

/// Waits until a figure of serverStatus is not zero.
fn wait_for(s: &mut LoggingServer, path: &str) {
    let until = std::time::Instant::now() + Duration::from_secs(30);
    while int(&s.run("admin", r#"{"serverStatus": 1}"#), path) == 0 {
        assert!(std::time::Instant::now() < until, "{path} stays 0");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Operations of one kind that wait for the only ticket, and a refused one.
fn tickets(s: &mut LoggingServer, all: &mut Figures, parameter: &str, busy: &str, other: &str) {
    let set = |s: &mut LoggingServer, name: &str, to: i32| {
        let reply = s.run(
            "admin",
            &format!(r#"{{"setParameter": 1, "{name}": {to}}}"#),
        );
        assert_eq!(code(&reply), 0, "{reply:?}");
    };
    set(s, parameter, 1);
    for _ in 0..2 {
        commands::workers::run_shared_once(s.service());
        std::thread::sleep(Duration::from_millis(2));
    }
    let service = s.service().arc().expect("a shared service");
    let server = Arc::new(commands::registry::dispatcher(service));
    let run = |command: &str| {
        let (server, command): (Arc<Dispatcher>, _) = (Arc::clone(&server), json(command));
        std::thread::spawn(move || {
            let mut conn = server.connect("127.0.0.1:78");
            send(&server, &mut conn, "db", command.doc())
        })
    };
    set(s, "admissionQueueTimeMaxMS", 1000);
    let gate = match parameter.contains("Read") {
        true => "queues.execution.read",
        false => "queues.execution.write",
    };
    let one = run(busy);
    wait_for(s, &format!("{gate}.out"));
    let two = run(other);
    wait_for(s, &format!("{gate}.normalPriority.queueLength"));
    read_figures(s, all);
    let refused = two.join().expect("an answer");
    assert_eq!(code(&refused), 462, "{refused:?}");
    set(s, "admissionQueueTimeMaxMS", 60_000);
    one.join().expect("an answer");
    set(s, parameter, 128);
    read_figures(s, all);
}

#[test]
fn every_figure_moves_or_has_a_reason() {
    let mut s = server();
    let mut all = Figures::new();
    s.ok(r#"{"profile": 2}"#);
    read_figures(&mut s, &mut all);
    for (command, _) in MOVES {
        s.run("db", command);
    }
    for command in [
        r#"{"createIndexes": "c", "indexes": [{"key": {"b": 1}, "name": "b_1"}]}"#,
        r#"{"create": "k", "clusteredIndex": {"key": {"_id": 1}, "unique": true}}"#,
        r#"{"create": "m", "capped": true, "size": 4096, "max": 5}"#,
        r#"{"create": "s", "timeseries": {"timeField": "t"}}"#,
        r#"{"insert": "c", "documents": [{"a": 1}], "writeConcern": {"w": "majority"}}"#,
        r#"{"update": "c", "updates": [{"q": {"_id": "u"}, "u": {"$set": {"z": 1}},
            "upsert": true}]}"#,
        r#"{"find": "c", "filter": {"b": -9}}"#,
    ] {
        s.ok(command);
    }
    s.run("db", r#"{"find": "c", "filter": {"$bad": 1}}"#);
    transactions(&mut s, &mut all);
    cursors(&mut s, &mut all);
    expiry(&mut s);
    read_figures(&mut s, &mut all);
    let computes = "for (let i = 0; i < 1e9; i++) {} return false";
    let read =
        format!(r#"{{"find": "c", "filter": {{"$where": "{computes}"}}, "maxTimeMS": 2500}}"#);
    let write = format!(
        r#"{{"update": "c", "updates": [{{"q": {{"$where": "{computes}"}}, "u": {{"$set": {{}}}}}}],
            "maxTimeMS": 2500}}"#
    );
    let (find, insert) = (
        r#"{"find": "c"}"#,
        r#"{"insert": "c", "documents": [{}, {}]}"#,
    );
    let [reads, writes] = [
        "wiredTigerConcurrentReadTransactions",
        "wiredTigerConcurrentWriteTransactions",
    ];
    tickets(&mut s, &mut all, reads, &read, find);
    tickets(&mut s, &mut all, writes, &write, insert);
    look_at_profile(&mut s, &mut all);

    let is_in = |list: &[(&str, &str)], path: &str| list.iter().any(|(p, _)| path.starts_with(p));
    let mut wrong = all.clone();
    wrong.retain(|path, n| !is_in(ELSEWHERE, path) && (*n == 0.0) != is_in(STILL, path));
    assert!(
        wrong.is_empty(),
        "move without or stay with no reason: {wrong:#?}"
    );
    for (still, why) in STILL.iter().chain(ELSEWHERE) {
        assert!(
            !why.is_empty() && all.keys().any(|path| path.starts_with(still)),
            "{still}"
        );
    }
}
