//! Information for operators: the log, the profile, latencies and counters are correct.

use crate::behaviour::{send, serve};
use crate::interrupts::{code, fill, json};
use commands::{Config, Connection, Dispatcher, SystemClock};
use logs::Log;
use model::{Doc, DocBuf, Value};
use std::sync::Arc;
use std::time::Instant;
use storage::MemoryEngine;

pub(crate) struct LoggingServer {
    server: Arc<Dispatcher>,
    conn: Connection,
    log: Arc<Log>,
}

impl LoggingServer {
    pub(crate) fn new() -> LoggingServer {
        let log = Arc::new(Log::new());
        let config = Config {
            log: Arc::clone(&log),
            ..Config::default()
        };
        let language = Arc::new(commands::StoreHooks::new(Arc::new(SystemClock::default())));
        let store = store::Store::open(Arc::new(MemoryEngine::new()), language);
        let server = serve(config, Arc::new(store.expect("an empty store")));
        let conn = server.connect("127.0.0.1:77");
        LoggingServer { server, conn, log }
    }

    pub(crate) fn run(&mut self, db: &str, command: &str) -> DocBuf {
        send(&self.server, &mut self.conn, db, json(command).doc())
    }

    pub(crate) fn ok(&mut self, command: &str) -> DocBuf {
        let reply = self.run("db", command);
        assert_eq!(code(&reply), 0, "{command}: {reply:?}");
        reply
    }

    pub(crate) fn server(&self) -> &Dispatcher {
        &self.server
    }

    pub(crate) fn service(&self) -> &commands::Service {
        self.server.service()
    }

    /// The lines of a log message with this id, as written.
    fn lines(&self, id: u32) -> Vec<String> {
        let field = format!("\"id\":{id},");
        let lines = self.log.lines().0;
        lines.into_iter().filter(|l| l.contains(&field)).collect()
    }

    /// The profile's documents of operations of one kind.
    fn read_profile(&mut self, op: &str) -> Vec<DocBuf> {
        let reply = self.ok(&format!(
            r#"{{"find": "system.profile", "filter": {{"op": "{op}", "ns": "db.c"}}}}"#
        ));
        let cursor = reply.doc().field("cursor").as_doc().expect("a cursor");
        let batch = cursor.field("firstBatch").as_array().expect("a batch");
        batch
            .iter()
            .filter_map(|v| v.as_doc().map(|d| d.to_buf()))
            .collect()
    }
}

pub(crate) fn int(d: &DocBuf, path: &str) -> i64 {
    let value = path
        .split('.')
        .fold(Value::Document(d.doc()), |v, part| match v {
            Value::Document(d) => d.field(part),
            _ => Value::Missing,
        });
    value
        .as_i64_exact()
        .unwrap_or_else(|| panic!("{path} of {d:?}"))
}

fn text(d: &DocBuf, name: &str) -> String {
    d.doc().field(name).as_str().unwrap_or_default().to_owned()
}

#[test]
fn level_two_records_every_operation_with_what_it_looked_at() {
    let mut s = LoggingServer::new();
    fill(&s.server, 100);
    s.ok(r#"{"createIndexes": "c", "indexes": [{"key": {"b": 1}, "name": "b_1"}]}"#);
    assert_eq!(int(&s.ok(r#"{"profile": 2}"#), "was"), 0);
    s.ok(r#"{"find": "c", "filter": {"b": {"$lte": -90}}, "comment": "x"}"#);
    s.ok(r#"{"find": "c", "filter": {"_id": 5}}"#);
    s.ok(r#"{"find": "c", "filter": {"nothing": 1}, "batchSize": 3}"#);
    s.ok(r#"{"update": "c", "updates": [{"q": {"b": -3}, "u": {"$set": {"z": 1}}}]}"#);
    s.ok(r#"{"delete": "c", "deletes": [{"q": {"b": -4}, "limit": 1}]}"#);
    s.ok(r#"{"insert": "c", "documents": [{"_id": 1000}]}"#);
    s.ok(r#"{"count": "c", "query": {"b": {"$gt": -3}}}"#);
    s.run("db", r#"{"find": "c", "filter": {"$bad": 1}}"#);

    let finds = s.read_profile("query");
    let shown: Vec<_> = finds
        .iter()
        .map(|d| {
            let plan = text(d, "planSummary");
            (plan, int(d, "keysExamined"), int(d, "docsExamined"))
        })
        .collect();
    let row = |plan: &str, keys, docs| (plan.to_owned(), keys, docs);
    assert_eq!(
        shown,
        [
            row("IXSCAN { b: 1 }", 10, 10),
            row("EXPRESS_IXSCAN { _id: 1 }", 1, 1),
            row("COLLSCAN", 0, 100),
            row("", 0, 0)
        ]
    );
    assert_eq!(int(&finds[0], "nreturned"), 10);
    let command = finds[0].doc().field("command").as_doc().expect("a command");
    assert_eq!(command.field("comment").as_str(), Some("x"));
    assert_eq!(text(&finds[0], "client"), "127.0.0.1");
    assert_eq!(int(&finds[3], "errCode"), 2);

    let one = |found: Vec<DocBuf>| {
        assert_eq!(found.len(), 1, "{found:?}");
        found.into_iter().next().unwrap_or_default()
    };
    let update = one(s.read_profile("update"));
    assert_eq!(
        (int(&update, "nMatched"), int(&update, "keysExamined")),
        (1, 1)
    );
    assert_eq!(int(&one(s.read_profile("remove")), "ndeleted"), 1);
    let insert = one(s.read_profile("insert"));
    assert_eq!(int(&insert, "ninserted"), 1);
    let command = insert.doc().field("command").as_doc().expect("a command");
    assert!(!command.contains("documents"), "{insert:?}");
    assert_eq!(int(&one(s.read_profile("command")), "keysExamined"), 3);
    // A profile has a bounded size, and cannot be dropped while profiling is on.
    assert_eq!(code(&s.run("db", r#"{"drop": "system.profile"}"#)), 20);
    assert_eq!(int(&s.ok(r#"{"profile": 0}"#), "was"), 2);
    s.ok(r#"{"drop": "system.profile"}"#);
    s.ok(r#"{"find": "c"}"#);
    assert!(s.read_profile("query").is_empty());
}

#[test]
fn only_slow_or_matching_operations_are_logged() {
    let mut s = LoggingServer::new();
    fill(&s.server, 10);
    s.ok(r#"{"find": "c"}"#);
    assert!(s.lines(51803).is_empty(), "{:?}", s.lines(51803));
    s.ok(r#"{"profile": 1, "slowms": 10000}"#);
    s.ok(r#"{"find": "c"}"#);
    assert!(s.read_profile("query").is_empty());
    // With a threshold below zero, every operation is slow.
    s.ok(r#"{"profile": 1, "slowms": -1}"#);
    let began = Instant::now();
    s.ok(r#"{"find": "c", "filter": {"b": -7}}"#);
    let took = began.elapsed().as_millis();
    s.ok(r#"{"profile": 0, "slowms": 100}"#);
    assert_eq!(s.read_profile("query").len(), 1);
    let slow = s.lines(51803);
    let line = slow.iter().find(|l| l.contains("\"filter\":{\"b\":-7}"));
    let line = line.unwrap_or_else(|| panic!("{slow:?}"));
    for part in [
        "\"c\":\"COMMAND\"",
        "\"ctx\":\"conn1\"",
        "\"ns\":\"db.c\"",
        "\"planSummary\":\"COLLSCAN\"",
        "\"docsExamined\":10",
        "\"nreturned\":1",
        "\"remote\":\"127.0.0.1\"",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
    let (_, duration) = line.split_once("\"durationMillis\":").expect("a duration");
    let digits: String = duration.chars().take_while(char::is_ascii_digit).collect();
    let told = digits.parse::<u128>().expect("milliseconds");
    assert!(told <= took, "it took {took} ms: {line}");
    // A filter replaces the threshold, both for the log and for the profile.
    s.ok(r#"{"profile": 1, "filter": {"nreturned": {"$gt": 5}}}"#);
    let (before, lines) = (s.read_profile("query").len(), s.lines(51803).len());
    s.ok(r#"{"find": "c"}"#);
    s.ok(r#"{"find": "c", "limit": 2}"#);
    assert_eq!(s.lines(51803).len(), lines + 1);
    assert_eq!(s.read_profile("query").len(), before + 1);
    s.ok(r#"{"profile": 0, "filter": "unset"}"#);
    assert_eq!(
        code(&s.run("db", r#"{"profile": 0, "filter": {"$bad": 1}}"#)),
        2
    );
}

#[test]
fn with_redaction_no_value_of_a_client_is_in_the_log() {
    let mut s = LoggingServer::new();
    let on = r#"{"setParameter": 1, "redactClientLogData": true}"#;
    assert_eq!(code(&s.run("admin", on)), 0);
    s.ok(r#"{"profile": 0, "slowms": -1}"#);
    s.ok(r#"{"insert": "c", "documents": [{"_id": "canary1"}]}"#);
    s.ok(r#"{"find": "c", "filter": {"a": {"$in": ["canary2"]}}}"#);
    s.ok(
        r#"{"update": "c", "updates": [{"q": {"a": "canary3"}, "u": {"$set": {"b": "canary4"}}}]}"#,
    );
    s.run(
        "db",
        r#"{"find": "c", "filter": {"a": {"$in": "canary5"}}}"#,
    );
    s.run(
        "db",
        r#"{"insert": "c", "documents": [{"_id": "canary1"}]}"#,
    );
    s.ok(
        r#"{"createIndexes": "c", "indexes": [{"key": {"b": 1}, "name": "b",
            "partialFilterExpression": {"b": "canary6"}}]}"#,
    );
    s.ok(r#"{"create": "v", "validator": {"b": "canary7"}}"#);
    s.ok(r#"{"profile": 0, "slowms": 100}"#);
    assert!(s.lines(51803).len() > 5);
    let lines = s.log.lines().0;
    let told: Vec<_> = lines.iter().filter(|l| l.contains("canary")).collect();
    assert!(told.is_empty(), "{told:?}");
}

#[test]
fn changes_of_the_catalog_are_logged() {
    let mut s = LoggingServer::new();
    s.ok(r#"{"insert": "c", "documents": [{"_id": 1, "b": 1}, {"_id": 2, "b": 1}]}"#);
    s.ok(r#"{"create": "d", "capped": true, "size": 4096}"#);
    assert_eq!(s.lines(20320).len(), 2);
    let index = r#"{"createIndexes": "c", "indexes": [{"key": {"b": 1}, "name": "b_1"}]}"#;
    s.ok(index);
    s.ok(index);
    assert_eq!((s.lines(20384).len(), s.lines(20345).len()), (1, 1));
    let unique =
        r#"{"createIndexes": "c", "indexes": [{"key": {"b": -1}, "name": "u", "unique": true}]}"#;
    assert_eq!(code(&s.run("db", unique)), 11000);
    assert_eq!((s.lines(20384).len(), s.lines(20649).len()), (2, 1));
    s.ok(r#"{"dropIndexes": "c", "index": "b_1"}"#);
    assert_eq!(s.lines(51806).len(), 1);
    s.run("admin", r#"{"renameCollection": "db.d", "to": "db.e"}"#);
    assert_eq!(s.lines(20400).len(), 1);
    s.ok(r#"{"drop": "e"}"#);
    s.ok(r#"{"dropDatabase": 1}"#);
    assert_eq!(s.lines(518070).len(), 1);
    assert!(s.lines(20336)[0].contains("\"numCollectionsDropped\":1"));
    // `quiet` leaves out frequent events of clients.
    s.run("admin", r#"{"setParameter": 1, "quiet": true}"#);
    s.ok(r#"{"create": "q"}"#);
    s.ok(r#"{"drop": "q"}"#);
    assert_eq!((s.lines(518070).len(), s.lines(20320).len()), (1, 3));
}

/// Checks the count and the time of every metric with the operations that it measures.
#[test]
fn latencies_and_counts_move_with_every_kind_of_operation() {
    let mut s = LoggingServer::new();
    fill(&s.server, 300);
    let status = |s: &mut LoggingServer| s.run("admin", r#"{"serverStatus": 1}"#);
    let top = |s: &mut LoggingServer| {
        let reply = s.run("admin", r#"{"top": 1}"#);
        let totals = reply.doc().field("totals").as_doc().expect("totals");
        totals.field("db.c").as_doc().expect("db.c").to_buf()
    };
    let latency = |s: &mut LoggingServer| {
        let reply = s.ok(r#"{"aggregate": "c", "cursor": {},
                "pipeline": [{"$collStats": {"latencyStats": {"histograms": true}}}]}"#);
        let cursor = reply.doc().field("cursor").as_doc().expect("a cursor");
        let batch = cursor.field("firstBatch").as_array().expect("a batch");
        let first = batch.iter().next().and_then(|v| v.as_doc());
        let stats = first.expect("a document").field("latencyStats");
        stats.as_doc().expect("latencies").to_buf()
    };
    for (command, class, kind) in [
        (r#"{"find": "c"}"#, "queries", "reads"),
        (r#"{"insert": "c", "documents": [{}]}"#, "insert", "writes"),
        (
            r#"{"update": "c", "updates": [{"q": {"b": 1}, "u": {"$set": {"z": 1}}}]}"#,
            "update",
            "writes",
        ),
        (
            r#"{"delete": "c", "deletes": [{"q": {"b": 2}, "limit": 1}]}"#,
            "remove",
            "writes",
        ),
        (r#"{"count": "c"}"#, "commands", "reads"),
        (r#"{"distinct": "c", "key": "b"}"#, "commands", "reads"),
        (
            r#"{"findAndModify": "c", "query": {}, "remove": true}"#,
            "commands",
            "writes",
        ),
        (r#"{"collStats": "c"}"#, "commands", "commands"),
    ] {
        // The first call of `latency` counts as a read of the collection, too.
        let (before, all_before, of_before) = (status(&mut s), top(&mut s), latency(&mut s));
        s.ok(command);
        let (all_after, of_after) = (top(&mut s), latency(&mut s));
        let after = status(&mut s);
        let own = |d: &DocBuf| int(d, &format!("{class}.count"));
        let aggregates = i64::from(class == "commands");
        assert_eq!(
            own(&all_after),
            own(&all_before) + 1 + aggregates,
            "{command}"
        );
        let path = format!("{kind}.ops");
        let reads = i64::from(kind == "reads");
        assert_eq!(
            int(&of_after, &path),
            int(&of_before, &path) + 1 + reads,
            "{command}"
        );
        let path = format!("opLatencies.{kind}.ops");
        assert!(int(&after, &path) > int(&before, &path), "{command}");
        assert!(int(&all_after, "total.time") >= int(&all_before, "total.time"));
    }
    let histogram = latency(&mut s)
        .doc()
        .field("reads")
        .as_doc()
        .map(|d| d.to_buf());
    let histogram = histogram.expect("reads");
    let buckets = histogram
        .doc()
        .field("histogram")
        .as_array()
        .expect("buckets");
    let sum: i64 = buckets
        .iter()
        .filter_map(|b| b.as_doc()?.field("count").as_i64_exact())
        .sum();
    assert_eq!(sum, int(&histogram, "ops"));
    // A new collection of the same name has new counters.
    s.ok(r#"{"drop": "c"}"#);
    s.ok(r#"{"insert": "c", "documents": [{}]}"#);
    assert_eq!(int(&top(&mut s), "insert.count"), 1);
}

#[test]
fn the_log_is_shown_by_get_log_and_connections_are_counted() {
    let mut s = LoggingServer::new();
    let service = Arc::clone(s.server.service());
    let other = s.server.connect("127.0.0.1:78");
    service.log_connected(&other.info);
    let info = Arc::clone(&other.info);
    drop(other);
    service.log_disconnected(&info);
    assert!(s.lines(22943)[0].contains("\"connectionCount\":2"));
    assert!(s.lines(22944)[0].contains("\"remote\":\"127.0.0.1:78\""));
    s.run(
        "admin",
        r#"{"hello": 1, "client": {"driver": {"name": "d", "version": "1"},
            "os": {"type": "t"}, "application": {"name": "app"}}}"#,
    );
    assert!(s.lines(51800)[0].contains("\"name\":\"app\""));
    let shown = s.run("admin", r#"{"getLog": "global"}"#);
    assert_eq!(int(&shown, "totalLinesWritten"), 3);
    let lines = shown.doc().field("log").as_array().expect("lines");
    for line in lines.iter() {
        let line = line.as_str().expect("text");
        let parsed: serde_json::Value = serde_json::from_str(line).expect(line);
        assert!(parsed["t"]["$date"].is_string() && parsed["id"].is_number());
    }
    let rotated = s.run("admin", r#"{"logRotate": 1}"#);
    assert_eq!(code(&rotated), 0);
    assert_eq!(s.lines(23166).len(), 1);
}

#[test]
fn successful_and_failed_logins_are_logged() {
    let mut s = LoggingServer::new();
    assert_eq!(
        code(&s.run(
            "admin",
            r#"{"saslStart": 1, "mechanism": "SCRAM-SHA-256",
                "payload": {"$binary": {"base64": "biwsbj1hLHI9YWJj", "subType": "00"}}}"#
        )),
        0
    );
    let wrong = r#"{"saslContinue": 1, "conversationId": 1,
        "payload": {"$binary": {"base64": "Yz1iaXdzLHI9eCxwPXg=", "subType": "00"}}}"#;
    assert_eq!(code(&s.run("admin", wrong)), 18);
    let line = &s.lines(5286307)[0];
    for part in [
        "\"user\":\"a\"",
        "\"db\":\"admin\"",
        "\"mechanism\":\"SCRAM-SHA-256\"",
        "\"result\":18",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert!(s.lines(5286306).is_empty());
}

#[test]
fn waiting_for_data_is_no_slow_operation() {
    let mut s = LoggingServer::new();
    s.ok(r#"{"create": "t", "capped": true, "size": 4096}"#);
    s.ok(r#"{"insert": "t", "documents": [{"_id": 1}]}"#);
    let opened = s.ok(r#"{"find": "t", "tailable": true, "awaitData": true}"#);
    let id = int(&opened, "cursor.id");
    let waits = format!(
        r#"{{"getMore": {{"$numberLong": "{id}"}}, "collection": "t", "maxTimeMS": 250,
            "$db": "db"}}"#
    );
    let body = json(&waits);
    let mut request = commands::Request::new(Doc::from_prefix(body.doc().as_bytes()));
    let mut reply = Vec::new();
    let outcome = s.server.handle(&mut s.conn, &request, &mut reply);
    assert!(
        matches!(outcome, commands::Outcome::Wait { .. }),
        "{outcome:?} {:?}",
        Doc::from_prefix(&reply)
    );
    std::thread::sleep(std::time::Duration::from_millis(260));
    request.waited = true;
    let outcome = s.server.handle(&mut s.conn, &request, &mut reply);
    assert!(
        !matches!(outcome, commands::Outcome::Wait { .. }),
        "{outcome:?}"
    );
    assert!(s.lines(51803).is_empty(), "{:?}", s.lines(51803));
}
