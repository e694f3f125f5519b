//! docs/metrics-reference.md lists every reported metric and its source, and every metric that it
//! describes as a counter changes when the counted event happens.

use crate::interrupts::fill;
use crate::observability::LoggingServer;
use model::{Doc, Value};
use state::Network;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

const REFERENCE: &str = include_str!("../../../../docs/metrics-reference.md");

/// The metrics of a reply by their paths. Names that depend on the data are in angle brackets.
fn flatten(prefix: &str, d: Doc<'_>, all: &mut BTreeMap<String, f64>) {
    for (name, v) in d.iter() {
        let name = match prefix {
            "serverStatus.metrics.commands" => "<command>",
            "serverStatus.quarry.engine" => "<metric>",
            "top.totals" if name != "note" => "<namespace>",
            "collStats.indexSizes" | "collStats.indexDetails" => "<index>",
            "serverStatus.quarry.workers" => "<worker>",
            _ => name,
        };
        let path = format!("{prefix}.{name}");
        match v {
            Value::Document(d) => flatten(&path, d, all),
            Value::Date(ms) => {
                all.insert(path, ms as f64);
            }
            v => {
                let n = v.as_f64().or(v.as_bool().map(f64::from)).unwrap_or(0.0);
                *all.entry(path).or_insert(0.0) += n;
            }
        }
    }
}

/// The current values of all metrics.
fn metrics(s: &mut LoggingServer) -> BTreeMap<String, f64> {
    let mut all = BTreeMap::new();
    for (db, command) in [
        ("admin", r#"{"serverStatus": 1}"#),
        ("admin", r#"{"top": 1}"#),
        ("admin", r#"{"hostInfo": 1}"#),
        ("db", r#"{"dbStats": 1}"#),
        ("db", r#"{"collStats": "c"}"#),
    ] {
        let reply = s.run(db, command);
        let (name, _) = crate::interrupts::json(command)
            .doc()
            .first()
            .map(|(n, v)| (n.to_owned(), v.as_f64()))
            .expect("a command");
        flatten(&name, reply.doc(), &mut all);
    }
    let general = ["ok", "$clusterTime", "operationTime"];
    all.retain(|path, _| !general.iter().any(|g| path.split('.').nth(1) == Some(g)));
    all
}

pub(crate) fn server() -> LoggingServer {
    let s = LoggingServer::new();
    let state = &s.service().state;
    // A real server sets this; each read of the metrics counts as bytes.
    let bytes = AtomicU64::new(1000);
    let network = move || Network {
        bytes_in: bytes.fetch_add(10, Ordering::SeqCst),
        bytes_out: bytes.fetch_add(10, Ordering::SeqCst),
        rejected_connections: 1,
        ..Network::default()
    };
    assert!(state.network.set(Box::new(network)).is_ok());
    let disk = || Some((1 << 30, 2 << 30));
    assert!(state.disk_bytes.set(Box::new(disk)).is_ok());
    fill(s.server(), 50);
    commands::workers::run_shared_once(s.service());
    s
}

/// Heading of the part about single operations, whose waits the profiler's tests check.
const OPERATIONS: &str = "## What one operation waited for";

/// The first column of the reference's rows, without those about single operations.
fn list_documented() -> Vec<&'static str> {
    let (metrics, _) = REFERENCE.split_once(OPERATIONS).expect("both parts");
    metrics
        .lines()
        .filter_map(|l| l.strip_prefix("| `")?.split_once("` |"))
        .map(|(path, _)| path)
        .collect()
}

#[test]
fn the_reference_names_every_metric_and_no_other() {
    let mut s = server();
    s.ok(r#"{"createIndexes": "c", "indexes": [{"key": {"b": 1}, "name": "b_1"}]}"#);
    let there = metrics(&mut s);
    let documented = list_documented();
    let missing: Vec<_> = there
        .keys()
        .filter(|p| !documented.contains(&p.as_str()))
        .collect();
    let gone: Vec<_> = documented
        .iter()
        .filter(|p| !there.contains_key(**p))
        .collect();
    assert!(
        missing.is_empty() && gone.is_empty(),
        "not in docs/metrics-reference.md: {missing:#?}\nno longer reported: {gone:#?}"
    );
}

/// Actions, and the metrics that they increase.
pub(crate) const MOVES: &[(&str, &[&str])] = &[
    (
        r#"{"find": "c", "filter": {"a": 3}}"#,
        &[
            "serverStatus.opcounters.query",
            "serverStatus.opLatencies.reads.ops",
            "serverStatus.opLatencies.reads.latency",
            "serverStatus.metrics.document.returned",
            "serverStatus.metrics.queryExecutor.scannedObjects",
            "serverStatus.metrics.queryExecutor.collectionScans.total",
            "serverStatus.network.numRequests",
            "serverStatus.network.bytesIn",
            "top.totals.<namespace>.queries.count",
            "top.totals.<namespace>.readLock.count",
            "top.totals.<namespace>.total.count",
        ],
    ),
    (
        r#"{"find": "c", "filter": {"b": {"$lt": -5}}, "batchSize": 2}"#,
        &[
            "serverStatus.metrics.queryExecutor.scanned",
            "serverStatus.metrics.cursor.open.total",
            "serverStatus.metrics.cursor.totalOpened",
        ],
    ),
    (
        r#"{"insert": "c", "documents": [{"b": [1, 2]}, {}]}"#,
        &[
            "serverStatus.opcounters.insert",
            "serverStatus.opLatencies.writes.ops",
            "serverStatus.metrics.document.inserted",
            "top.totals.<namespace>.insert.count",
            "top.totals.<namespace>.writeLock.count",
            "dbStats.objects",
            "dbStats.dataSize",
            "collStats.count",
            "collStats.size",
            "collStats.indexDetails.<index>.multikey",
        ],
    ),
    (
        r#"{"update": "c", "updates": [{"q": {"_id": 4}, "u": {"$set": {"z": 1}}}]}"#,
        &[
            "serverStatus.opcounters.update",
            "serverStatus.metrics.document.updated",
            "top.totals.<namespace>.update.count",
        ],
    ),
    (
        r#"{"delete": "c", "deletes": [{"q": {"_id": 5}, "limit": 1}]}"#,
        &[
            "serverStatus.opcounters.delete",
            "serverStatus.metrics.document.deleted",
            "top.totals.<namespace>.remove.count",
        ],
    ),
    (
        r#"{"count": "c"}"#,
        &[
            "serverStatus.opcounters.command",
            "top.totals.<namespace>.commands.count",
        ],
    ),
    (
        r#"{"create": "d", "capped": true, "size": 4096}"#,
        &[
            "serverStatus.opLatencies.commands.ops",
            "serverStatus.catalogStats.collections",
            "serverStatus.catalogStats.capped",
            "dbStats.collections",
        ],
    ),
    (
        r#"{"create": "v", "viewOn": "c"}"#,
        &["serverStatus.catalogStats.views", "dbStats.views"],
    ),
    (
        r#"{"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a_1"}]}"#,
        &["collStats.nindexes", "dbStats.indexes"],
    ),
    (
        r#"{"noSuchCommand": 1}"#,
        &[
            "serverStatus.asserts.user",
            "serverStatus.metrics.commands.<command>",
        ],
    ),
];

#[test]
fn every_metric_moves_when_it_should() {
    let mut s = server();
    s.ok(r#"{"createIndexes": "c", "indexes": [{"key": {"b": 1}, "name": "b_1"}]}"#);
    for (command, moved) in MOVES {
        let before = metrics(&mut s);
        s.run("db", command);
        let after = metrics(&mut s);
        for path in *moved {
            let of = |all: &BTreeMap<String, f64>| all.get(*path).copied().unwrap_or(f64::NAN);
            assert!(
                of(&after) > of(&before),
                "{path} did not move by {command}: {} {}",
                of(&before),
                of(&after)
            );
        }
    }
    // Opens a connection and closes one.
    let current = "serverStatus.connections.current";
    let (before, other) = (metrics(&mut s), s.server().connect("127.0.0.1:79"));
    let more = metrics(&mut s);
    drop(other);
    let after = metrics(&mut s);
    let of = |all: &BTreeMap<String, f64>, path: &str| all.get(path).copied().unwrap_or(f64::NAN);
    assert_eq!(of(&more, current), of(&before, current) + 1.0);
    assert_eq!(of(&after, current), of(&before, current));
    let created = "serverStatus.connections.totalCreated";
    assert_eq!(of(&after, created), of(&before, created) + 1.0);
}
