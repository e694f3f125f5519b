//! Recorded behaviour of commands, in process.

use crate::recorded::{self, Verdict};
use commands::{Config, Dispatcher, Outcome, Request, Service, SystemClock, registry};
use model::{Doc, DocBuf};
use serde_json::Value as Json;
use std::sync::Arc;
use std::time::Duration;

/// Areas whose every case must pass, with the number of cases excused and why.
const COMPLETE: &[(&str, usize, &str)] = &[
    ("core/aggregation/commands/count", 0, ""),
    ("core/aggregation/commands/distinct", 0, ""),
    (
        "core/collections/commands/collMod",
        1,
        "a moment recorded as a number of seconds",
    ),
    ("core/collections/commands/listCollections", 0, ""),
    ("core/collections/commands/validateDBMetadata", 0, ""),
    ("core/collections/timeseries", 0, ""),
    ("core/indexes/commands/dropIndexes", 0, ""),
    ("core/operator/stages/merge", 0, ""),
    ("core/query_and_write/commands/bulkWrite", 2, "collations"),
    ("core/query_and_write/commands/delete", 1, "collations"),
    (
        "core/query_and_write/commands/findAndModify",
        1,
        "a sort the express path of MongoDB does not look at",
    ),
    ("core/query_and_write/commands/insert", 0, ""),
    ("core/query_and_write/commands/update", 0, ""),
    ("core/sessions/commands/killAllSessions", 0, ""),
    ("core/sessions/commands/killSessions", 0, ""),
    ("core/sessions/commands/startSession", 0, ""),
    ("system/administration/commands/autoCompact", 0, ""),
    ("system/administration/commands/fsync", 0, ""),
    ("system/administration/commands/fsyncUnlock", 0, ""),
    ("system/administration/commands/getParameter", 0, ""),
    ("system/administration/commands/killOp", 0, ""),
    ("system/administration/commands/setClusterParameter", 0, ""),
    (
        "system/administration/commands/setFeatureCompatibilityVersion",
        0,
        "",
    ),
    ("system/diagnostic/commands/profile", 0, ""),
    ("system/diagnostic/commands/serverStatus", 0, ""),
    ("system/replication/commands/hello", 0, ""),
];

/// A store in memory.
pub(crate) fn store() -> Arc<store::Store> {
    open(commands::StoreHooks::new(Arc::new(SystemClock::default())))
}

/// A store in memory that logs all changes, as that of a replica set.
pub(crate) fn logging_store() -> Arc<store::Store> {
    logging_store_of(1 << 30)
}

/// The same with a log of that many bytes.
pub(crate) fn logging_store_of(bytes_max: u64) -> Arc<store::Store> {
    let hooks = commands::StoreHooks::new(Arc::new(SystemClock::default()));
    open(hooks.logging(bytes_max))
}

/// A store in memory that logs what search indexes follow, as that of a standalone server.
pub(crate) fn feeding_store() -> Arc<store::Store> {
    let hooks = commands::StoreHooks::new(Arc::new(SystemClock::default()));
    open(hooks.feeding(1 << 30))
}

fn open(hooks: commands::StoreHooks) -> Arc<store::Store> {
    let engine = Arc::new(storage::MemoryEngine::new());
    Arc::new(store::Store::open(engine, Arc::new(hooks)).expect("an empty store"))
}

/// A server of all commands over a store.
pub(crate) fn serve(config: Config, store: Arc<store::Store>) -> Arc<Dispatcher> {
    let service = Service::new(config, Arc::new(SystemClock::default()), store);
    service.state.load(&service.store).expect("the settings");
    Arc::new(registry::dispatcher(service.shared()))
}

/// The same with what the process around it sets: the network, the file system, the start in the
/// log.
pub(crate) fn serve_whole(config: Config, store: Arc<store::Store>) -> Arc<Dispatcher> {
    let server = serve(config, store);
    let service = server.service();
    let network = commands::state::Network::default;
    assert!(service.state.network.set(Box::new(network)).is_ok());
    let disk = || Some((1 << 30, 2 << 30));
    assert!(service.state.disk_bytes.set(Box::new(disk)).is_ok());
    service.log('I', "CONTROL", "Waiting for connections");
    server
}

fn service() -> Arc<Dispatcher> {
    let config = Config {
        replica_set: None,
        ..Config::default()
    };
    serve_whole(config, store())
}

/// Sends one command and returns its reply.
pub(crate) fn send(
    service: &Dispatcher,
    conn: &mut commands::Connection,
    db: &str,
    command: Doc<'_>,
) -> DocBuf {
    let mut body = command.to_buf();
    if !command.contains("$db") {
        body.put("$db", db);
    }
    let mut reply = Vec::new();
    let mut request = Request::new(body.doc());
    loop {
        match service.handle(conn, &request, &mut reply) {
            Outcome::Reply | Outcome::Durable(_) | Outcome::Exhaust => break,
            Outcome::Wait { until_us, .. } => {
                let now_us = service.service().clock.monotonic_us();
                std::thread::sleep(Duration::from_micros(until_us.saturating_sub(now_us)));
                request.waited = true;
            }
            other => panic!("no reply to {command:?}: {other:?}"),
        }
    }
    DocBuf::from_bytes(reply).expect("one document")
}

pub(crate) fn run_case(case: &Json) -> Verdict {
    run_on(&service(), case)
}

/// The same on a member of a replica set that is reached where the recorder reached it.
pub(crate) fn run_case_of_set(case: &Json) -> Verdict {
    let config = Config {
        host: "127.0.0.1:28710".to_owned(),
        ..Config::default()
    };
    run_on(&serve_whole(config, logging_store()), case)
}

fn run_on(service: &Dispatcher, case: &Json) -> Verdict {
    let mut conn = service.connect("127.0.0.1:50000");
    recorded::run_case(case, &mut |db, command| {
        // The recorder's driver gave every command a session.
        let session = model::Binary {
            subtype: 4,
            bytes: &[7; 16],
        };
        let mut command = command.to_buf();
        if command.doc().contains("txnNumber") && !command.doc().contains("lsid") {
            command.put("lsid", &model::doc! { "id": session });
        }
        Some(send(service, &mut conn, db, command.doc()))
    })
}

/// Areas of commands; those of operators are run by the crates below.
fn wanted(area: &str) -> bool {
    area.starts_with("system/") || area.starts_with("core/cursors/") || area.contains("/commands/")
}

#[test]
fn recorded_cases() {
    let Some(areas) = recorded::run_areas(&wanted, &run_case) else {
        return;
    };
    for (area, excused, _) in COMPLETE {
        if let Some(tally) = areas.get(*area) {
            assert!(
                tally.failed <= *excused,
                "{area}: {tally:?}, excused {excused}"
            );
        }
    }
}
