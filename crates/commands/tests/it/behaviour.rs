//! Runs recorded behaviour cases in process when `QUARRY_BEHAVIOUR` names their directory; says so
//! when it does not. `QUARRY_AREA` narrows to areas that begin with it, `QUARRY_SHOW` prints so
//! many failures an area.

use crate::judge::judge;
use commands::{Config, Dispatcher, Outcome, Request, Service, SystemClock, registry};
use model::{Doc, DocBuf, Value, extjson};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
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
    let engine = Arc::new(storage::MemoryEngine::new());
    Arc::new(
        store::Store::open(
            engine,
            Arc::new(commands::StoreHooks::new(Arc::new(SystemClock::default()))),
        )
        .expect("an empty store"),
    )
}

/// A server of all commands over a store.
pub(crate) fn serve(config: Config, store: Arc<store::Store>) -> Arc<Dispatcher> {
    Arc::new(registry::dispatcher(
        Service::new(config, Arc::new(SystemClock::default()), store).shared(),
    ))
}

fn service() -> Arc<Dispatcher> {
    let config = Config {
        replica_set: None,
        ..Config::default()
    };
    serve(config, store())
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

/// The recording lost the ids of cursors: where a client sent one there stands the 32-bit integer
/// 0, which no server takes for an id. The ids that the steps before opened are put there: of
/// several in one list each in its turn when there are as many, else the last.
fn with_cursor_ids(command: &DocBuf, opened: &[i64]) -> DocBuf {
    let Some(last) = opened.last() else {
        return command.clone();
    };
    DocBuf::build(|w| {
        for (name, v) in command.doc().iter() {
            match (name, v) {
                ("getMore", Value::Int32(0)) => {
                    w.put(name, *last);
                }
                ("cursors", Value::Array(ids)) if command.doc().contains("killCursors") => {
                    let lost = ids.iter().filter(|v| matches!(v, Value::Int32(0))).count();
                    let mut in_turn = opened.iter().filter(|_| lost == opened.len());
                    let mut list = w.array(name);
                    for id in ids.iter() {
                        match id {
                            Value::Int32(0) => list.push(*in_turn.next().unwrap_or(last)),
                            other => list.push(other),
                        };
                    }
                }
                _ => {
                    w.put(name, v);
                }
            }
        }
    })
}

/// The other way: the ids in the reply of `killCursors` are 0 in what was recorded.
fn without_cursor_ids(reply: DocBuf, opened: &[i64]) -> DocBuf {
    if !reply.doc().contains("cursorsKilled") {
        return reply;
    }
    DocBuf::build(|w| {
        for (name, v) in reply.doc().iter() {
            let Value::Array(ids) = v else {
                w.put(name, v);
                continue;
            };
            let mut list = w.array(name);
            for id in ids.iter() {
                match id {
                    Value::Int64(n) if opened.contains(&n) => list.push(0i32),
                    other => list.push(other),
                };
            }
        }
    })
}

pub(crate) fn run_case(case: &Json) -> Option<String> {
    let service = service();
    let mut conn = service.connect("127.0.0.1:50000");
    let mut replies: Vec<DocBuf> = Vec::new();
    let mut opened: Vec<i64> = Vec::new();
    for step in case["steps"].as_array().into_iter().flatten() {
        let mut reply = DocBuf::new();
        if let Some(command) = step.get("run") {
            match extjson::document(command) {
                Ok(command) => {
                    let command = with_cursor_ids(&command, &opened);
                    reply = send(
                        &service,
                        &mut conn,
                        step["db"].as_str().unwrap_or("db"),
                        command.doc(),
                    );
                    if let Some(Value::Int64(id @ 1..)) =
                        reply.doc().field("cursor").as_doc().map(|c| c.field("id"))
                        && !opened.contains(&id)
                    {
                        opened.push(id);
                    }
                    reply = without_cursor_ids(reply, &opened);
                }
                Err(e) => return Some(format!("case not readable: {e}")),
            }
        } else if let Some(expect) = step.get("expect") {
            let expect = match extjson::document(expect) {
                Ok(d) => d,
                Err(e) => return Some(format!("expectation not readable: {e}")),
            };
            let of = expect
                .doc()
                .field("of")
                .as_i64_exact()
                .and_then(|n| usize::try_from(n).ok())
                .unwrap_or(0);
            if let Some(why) = judge(
                replies.get(of).map_or(Doc::EMPTY, |r| r.doc()),
                expect.doc(),
            ) {
                return Some(why);
            }
        }
        replies.push(reply);
    }
    None
}

fn wanted(area: &str, only: &str) -> bool {
    // An area that is asked for runs whatever it is; otherwise only those of this crate do.
    area.starts_with(only)
        && (!only.is_empty()
            || area.starts_with("system/")
            || area.starts_with("core/cursors/")
            || area.contains("/commands/"))
}

/// Some cases nest deeper than the reader's default limit.
fn parse(line: &str) -> Json {
    let mut reader = serde_json::Deserializer::from_str(line);
    reader.disable_recursion_limit();
    serde::Deserialize::deserialize(&mut reader).expect("JSON")
}

/// The cases of the areas that are wanted.
pub(crate) fn cases(dir: &Path, wanted: impl Fn(&str) -> bool) -> Vec<(String, Json)> {
    let mut files: Vec<_> = std::fs::read_dir(dir)
        .expect("readable")
        .filter_map(|f| f.ok().map(|f| f.path()))
        .collect();
    files.sort();
    let mut out = Vec::new();
    for file in files
        .iter()
        .filter(|f| f.extension().is_some_and(|e| e == "gz"))
    {
        let mut text = String::new();
        flate2::read::GzDecoder::new(std::fs::File::open(file).expect("readable"))
            .read_to_string(&mut text)
            .expect("gzip");
        for line in text.lines() {
            // The area stands first; most lines need not be read further (some nest deeper than the
            // reader allows).
            let area = line.split('"').nth(3).unwrap_or("").to_owned();
            if wanted(&area) {
                out.push((area, parse(line)));
            }
        }
    }
    out
}

#[test]
fn recorded_cases() {
    let Ok(dir) = std::env::var("QUARRY_BEHAVIOUR") else {
        eprintln!("skipped: QUARRY_BEHAVIOUR names no directory of recorded cases");
        return;
    };
    // Deeply nested documents are read recursively by the test's own tools.
    let run = std::thread::Builder::new()
        .stack_size(256 << 20)
        .spawn(move || run_all(&dir))
        .expect("a thread");
    if let Err(panic) = run.join() {
        std::panic::resume_unwind(panic);
    }
}

fn run_all(dir: &str) {
    let only = std::env::var("QUARRY_AREA").unwrap_or_default();
    let show: usize = std::env::var("QUARRY_SHOW")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(0);
    let mut areas: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (area, case) in cases(Path::new(dir), |area| wanted(area, &only)) {
        let why = run_case(&case);
        let slot = areas.entry(area.clone()).or_default();
        slot.1 += 1;
        match why {
            None => slot.0 += 1,
            Some(why) => {
                if slot.1 - slot.0 <= show {
                    let text = case["steps"].to_string();
                    println!(
                        "FAIL {area} #{}\n   {:.600}\n   {text:.700}",
                        case["n"], why
                    );
                }
            }
        }
    }
    for (area, (good, all)) in &areas {
        println!("{good:5} of {all:5}  {area}");
    }
    let sum = areas.values().fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    println!("{:5} of {:5}  all", sum.0, sum.1);
    for (area, excused, _) in COMPLETE {
        if let Some((good, all)) = areas.get(*area) {
            assert!(
                good + excused >= *all,
                "{area}: {good} of {all}, excused {excused}"
            );
        }
    }
}
