//! Recorded cases of commands, run in process.

use crate::recorded::{self, Verdict};
use commands::{Config, Dispatcher, Outcome, Profile, Request, Service, SystemClock, registry};
use model::{Doc, DocBuf};
use serde_json::Value as Json;
use std::sync::Arc;
use std::time::Duration;

/// Areas in which every case must pass, with the number of exceptions and their reason.
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

/// A store in memory that logs all changes, as on a member of a replica set.
pub(crate) fn logging_store() -> Arc<store::Store> {
    logging_store_of(1 << 30)
}

/// The same with a log of this size in bytes.
pub(crate) fn logging_store_of(bytes_max: u64) -> Arc<store::Store> {
    let hooks = commands::StoreHooks::new(Arc::new(SystemClock::default()));
    open(hooks.with_log(bytes_max))
}

/// A store in memory that logs changes for search indexes, as on a standalone server.
pub(crate) fn feeding_store() -> Arc<store::Store> {
    let hooks = commands::StoreHooks::new(Arc::new(SystemClock::default()));
    open(hooks.log_for_search(1 << 30))
}

fn open(hooks: commands::StoreHooks) -> Arc<store::Store> {
    let engine = Arc::new(storage::MemoryEngine::new());
    Arc::new(store::Store::open(engine, Arc::new(hooks)).expect("an empty store"))
}

/// A server with all commands over a store.
pub(crate) fn serve(config: Config, store: Arc<store::Store>) -> Arc<Dispatcher> {
    let service = Service::new(config, Arc::new(SystemClock::default()), store);
    service.state.load(&service.store).expect("the settings");
    Arc::new(registry::dispatcher(service.into_shared()))
}

/// The same with the parts that the server process adds: the network, the file system, the log of
/// the start.
pub(crate) fn serve_whole(config: Config, store: Arc<store::Store>) -> Arc<Dispatcher> {
    let server = serve(config, store);
    let service = server.service();
    let network = state::Network::default;
    assert!(service.state.network.set(Box::new(network)).is_ok());
    let disk = || Some((1 << 30, 2 << 30));
    assert!(service.state.disk_bytes.set(Box::new(disk)).is_ok());
    service.log('I', "CONTROL", "Waiting for connections");
    server
}

fn service(profile: Profile) -> Arc<Dispatcher> {
    let config = Config {
        replica_set: None,
        profile,
        ..Config::default()
    };
    let hooks = commands::StoreHooks::new(Arc::new(SystemClock::default()));
    serve_whole(config, open(hooks.with_profile(profile)))
}

/// Sends one command and returns its reply.
pub(crate) fn send(
    service: &Dispatcher,
    conn: &mut commands::Connection,
    db: &str,
    command: Doc<'_>,
) -> DocBuf {
    send_and_wait(service, conn, db, command, &std::thread::sleep)
}

/// As [`send`]; `wait` waits until the operation may run again, or for this long.
pub(crate) fn send_and_wait(
    service: &Dispatcher,
    conn: &mut commands::Connection,
    db: &str,
    command: Doc<'_>,
    wait: &dyn Fn(Duration),
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
                wait(Duration::from_micros(until_us.saturating_sub(now_us)));
                request.waited = true;
            }
            other => panic!("no reply to {command:?}: {other:?}"),
        }
    }
    DocBuf::from_bytes(reply).expect("one document")
}

pub(crate) fn run_case(case: &Json, profile: Profile) -> Verdict {
    let service = service(profile);
    let mut conn = service.connect("127.0.0.1:50000");
    recorded::run_case(case, &mut |db, command| {
        let mut command = command.to_buf();
        if command.doc().contains("txnNumber") {
            put_session(&mut command, OF_TRANSACTION);
        }
        Some(send(&service, &mut conn, db, command.doc()))
    })
}

/// The same on a member of a replica set, under the address that the recorder used.
pub(crate) fn run_case_of_set(case: &Json, profile: Profile) -> Verdict {
    let config = config_of_set(profile);
    let hooks = commands::StoreHooks::new(Arc::new(SystemClock::default()));
    let store = open(hooks.with_profile(profile).with_log(1 << 30));
    let service = serve_whole(config, store);
    let mut conn = service.connect("127.0.0.1:50000");
    run_case_of_set_through(case, &mut |db, command| {
        send(&service, &mut conn, db, command)
    })
}

/// The configuration of the member on which the cases were recorded.
pub(crate) fn config_of_set(profile: Profile) -> Config {
    Config {
        profile,
        host: "127.0.0.1:28710".to_owned(),
        ..Config::default()
    }
}

/// Runs a case that was recorded on a member of a replica set; `send` sends a command.
pub(crate) fn run_case_of_set_through(
    case: &Json,
    send: &mut dyn FnMut(&str, Doc<'_>) -> DocBuf,
) -> Verdict {
    let transaction = transaction_of(case);
    recorded::run_case(case, &mut |db, command| {
        let mut command = command.to_buf();
        if let (true, Some(number)) = (command.doc().contains("startTransaction"), transaction)
            && !command.doc().contains("txnNumber")
        {
            command.put("txnNumber", number);
        }
        let of_transaction = command.doc().contains("txnNumber");
        let session = if of_transaction {
            OF_TRANSACTION
        } else {
            OF_DRIVER
        };
        put_session(&mut command, session);
        Some(send(db, command.doc()))
    })
}

/// The recorder's driver sent a session with every command, which the recordings do not contain.
/// Commands of a transaction get the first session, all others the second.
pub(crate) const OF_TRANSACTION: [u8; 16] = [7; 16];
const OF_DRIVER: [u8; 16] = [8; 16];

pub(crate) fn put_session(command: &mut DocBuf, bytes: [u8; 16]) {
    if !command.doc().contains("lsid") {
        let session = model::Binary {
            subtype: 4,
            bytes: &bytes,
        };
        command.put("lsid", &model::doc! { "id": session });
    }
}

/// The number of a case's transaction. Recordings lack it in the first statement, but have it in
/// the commit or abort.
fn transaction_of(case: &Json) -> Option<i64> {
    let mut commands = case["steps"]
        .as_array()?
        .iter()
        .filter_map(|s| s.get("run"));
    commands.find_map(|c| {
        let is_end = c.get("commitTransaction").is_some() || c.get("abortTransaction").is_some();
        c.get("txnNumber").filter(|_| is_end)?["$numberLong"]
            .as_str()?
            .parse()
            .ok()
    })
}

/// The areas of commands; the crates below run those of operators.
pub(crate) fn is_command_area(area: &str) -> bool {
    area.starts_with("system/") || area.starts_with("core/cursors/") || area.contains("/commands/")
}

#[test]
fn recorded_cases() {
    let Some(areas) = recorded::run_areas(&is_command_area, &|case| run_case(case, Profile::V8_2))
    else {
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
