//! The log of changes of three servers that write to one engine (ADR 0114), as clients see it.

use crate::behaviour::{config_of_set, run_case_of_set, run_case_of_set_through};
use crate::changes::{batch, cursor, id};
use crate::recorded::{STACK_BYTES, Verdict, cases, folder};
use crate::several_servers::{Server, Servers};
use commands::{Config, Profile};
use model::{Doc, DocBuf, Timestamp, Value, doc};

fn open(server: &mut Server, options: &DocBuf) -> DocBuf {
    let stream =
        doc! { "aggregate": "c", "pipeline": [{ "$changeStream": options }], "cursor": {} };
    server.send("db", stream.doc())
}

/// Reads events until there are as many as wanted, or none comes for a while.
fn events(server: &mut Server, opened: &DocBuf, wanted: usize) -> Vec<DocBuf> {
    let mut all = batch(opened);
    while all.len() < wanted {
        let more = doc! {
            "getMore": id(opened), "collection": "c", "maxTimeMS": 3000i32,
        };
        let reply = server.send("db", more.doc());
        let events = batch(&reply);
        if events.is_empty() {
            break;
        }
        all.extend(events);
    }
    all
}

fn operation_time(reply: &DocBuf) -> Timestamp {
    match reply.doc().field("operationTime") {
        Value::Timestamp(ts) => ts,
        other => panic!("{other:?} of {reply:?}"),
    }
}

fn is_ok(reply: &DocBuf) -> bool {
    reply.doc().field("ok").as_f64() == Some(1.0)
}

/// Changes the collection through one server.
fn change(server: &mut Server, n: i32) -> DocBuf {
    let command = match n % 4 {
        0 | 1 => doc! { "insert": "c", "documents": [{ "_id": n, "n": 0i32 }] },
        2 => doc! {
            "update": "c", "updates": [{ "q": { "_id": n - 1 }, "u": { "$inc": { "n": 1i32 } } }],
        },
        _ => doc! { "delete": "c", "deletes": [{ "q": { "_id": n - 3 }, "limit": 1i32 }] },
    };
    let reply = server.send("db", command.doc());
    assert!(is_ok(&reply), "{reply:?}");
    assert_eq!(
        reply.doc().field("n").as_i64_exact(),
        Some(1),
        "{n}: {reply:?}"
    );
    reply
}

#[test]
fn streams_through_all_servers_show_the_same_and_go_on_through_others() {
    const CHANGES: usize = 60;
    let mut servers = Servers::start_logging(&Config::default());
    let created = servers.all[0].send("db", doc! { "create": "c" }.doc());
    assert!(is_ok(&created), "{created:?}");
    let none = DocBuf::new();
    let opened: Vec<DocBuf> = servers.all.iter_mut().map(|s| open(s, &none)).collect();
    for n in 0..CHANGES {
        change(&mut servers.all[n % 3], n as i32);
    }
    let mut seen = Vec::new();
    for (server, opened) in servers.all.iter_mut().zip(&opened) {
        seen.push(events(server, opened, CHANGES));
    }
    let types = |n: usize| ["insert", "insert", "update", "delete"][n % 4];
    for (n, event) in seen[0].iter().enumerate() {
        assert_eq!(event.doc().field("operationType").as_str(), Some(types(n)));
    }
    assert_eq!(seen[0].len(), CHANGES);
    assert!(
        seen[0] == seen[1] && seen[1] == seen[2],
        "the streams differ"
    );
    for n in (0..CHANGES - 3).step_by(5) {
        let token = seen[0][n].doc().field("_id").as_doc().unwrap().to_buf();
        let server = &mut servers.all[n % 3];
        let again = open(server, &doc! { "resumeAfter": &token });
        let rest = events(server, &again, CHANGES - n - 1);
        assert!(rest == seen[0][n + 1..], "after {n}");
    }
}

#[test]
fn a_stream_begins_at_the_operation_time_that_another_server_has_told() {
    let mut servers = Servers::start_logging(&Config::default());
    servers.all[0].send("db", doc! { "create": "c" }.doc());
    for round in 0..10usize {
        let first = round as i32 * 4;
        change(&mut servers.all[round % 3], first);
        let own = change(&mut servers.all[(round + 1) % 3], first + 1);
        // The time of a write is that of its change, so the stream shows it.
        let server = &mut servers.all[(round + 2) % 3];
        let at = doc! { "startAtOperationTime": operation_time(&own) };
        let opened = open(server, &at);
        let shown = events(server, &opened, 1);
        let key = |e: &DocBuf| {
            e.doc()
                .field("documentKey")
                .as_doc()
                .unwrap()
                .field("_id")
                .as_i64_exact()
        };
        assert_eq!(
            shown.iter().map(key).collect::<Vec<_>>(),
            [Some(i64::from(first + 1))]
        );
        // The time of a read is later than all changes before it, and earlier than those after it.
        let read = servers.all[round % 3].send("db", doc! { "count": "c" }.doc());
        change(&mut servers.all[(round + 2) % 3], first + 2);
        change(&mut servers.all[(round + 1) % 3], first + 3);
        let server = &mut servers.all[(round + 1) % 3];
        let opened = open(
            server,
            &doc! { "startAtOperationTime": operation_time(&read) },
        );
        let shown = events(server, &opened, 2);
        let types: Vec<_> = shown
            .iter()
            .map(|e| e.doc().field("operationType").as_str().unwrap().to_owned())
            .collect();
        assert_eq!(types, ["update", "delete"]);
    }
}

#[test]
fn a_stream_that_waits_gets_the_change_of_another_server() {
    let mut servers = Servers::start_logging(&Config::default());
    servers.all[0].send("db", doc! { "create": "c" }.doc());
    let mut rest = servers.all.split_off(1);
    let opened = open(&mut servers.all[0], &DocBuf::new());
    std::thread::scope(|s| {
        let waiting = s.spawn(|| events(&mut servers.all[0], &opened, 2));
        std::thread::sleep(std::time::Duration::from_millis(300));
        change(&mut rest[0], 0);
        std::thread::sleep(std::time::Duration::from_millis(300));
        change(&mut rest[1], 1);
        assert_eq!(waiting.join().unwrap().len(), 2);
    });
}

/// Cases recorded on a member of a replica set, each command through another of three servers.
#[test]
fn cases_of_a_replica_set_that_one_server_passes_pass_through_three() {
    let (mut passed, mut lost) = (0, Vec::new());
    for name in ["replica-set", "replica-set-more"] {
        let Some(dir) = folder(name) else {
            return println!("skipped: QUARRY_BEHAVIOUR names no folder with `{name}`");
        };
        let only = std::env::var("QUARRY_AREA").unwrap_or_default();
        for (area, case) in cases(&dir, &|area| area.starts_with(&only)) {
            let run = || {
                if !matches!(run_case_of_set(&case, Profile::V8_2), Verdict::Passed) {
                    return None;
                }
                let mut servers = Servers::start_logging(&config_of_set(Profile::V8_2));
                Some(run_case_of_set_through(&case, &mut |db, command| {
                    servers.send(db, command)
                }))
            };
            let judged = std::thread::scope(|s| {
                let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
                thread.spawn_scoped(s, run).unwrap().join().unwrap()
            });
            passed += usize::from(judged.is_some());
            if let Some(Verdict::Failed(why)) = judged {
                lost.push(format!("{name} {area} {}: {why:.300}", case["n"]));
            }
        }
    }
    println!(
        "{} of {passed} cases that one server passes fail through three",
        lost.len()
    );
    lost.iter().for_each(|why| println!("{why}"));
    assert!(lost.len() * 100 <= passed * 4, "{} of {passed}", lost.len());
}

#[test]
fn a_stream_goes_on_when_another_server_drops_the_collection() {
    let mut servers = Servers::start_logging(&Config::default());
    servers.all[0].send("db", doc! { "create": "c" }.doc());
    let lookup = doc! { "fullDocument": "updateLookup" };
    let opened = open(&mut servers.all[1], &lookup);
    for n in 0..3 {
        change(&mut servers.all[0], n);
    }
    let shown = events(&mut servers.all[1], &opened, 3);
    assert_eq!(shown.len(), 3);
    let found = shown[2].doc().field("fullDocument").as_doc();
    assert_eq!(
        found.map(Doc::to_buf),
        Some(doc! { "_id": 1i32, "n": 1i32 })
    );
    // The document of this update is looked up when the collection is gone.
    let update = doc! {
        "update": "c", "updates": [{ "q": { "_id": 1i32 }, "u": { "$inc": { "n": 1i32 } } }],
    };
    assert!(is_ok(&servers.all[2].send("db", update.doc())));
    assert!(is_ok(
        &servers.all[2].send("db", doc! { "drop": "c" }.doc())
    ));
    let rest = events(&mut servers.all[1], &opened, 3);
    let types = rest.iter().map(|e| e.doc().field("operationType").as_str());
    assert_eq!(
        types.collect::<Vec<_>>(),
        [Some("update"), Some("drop"), Some("invalidate")]
    );
    assert!(matches!(rest[0].doc().field("fullDocument"), Value::Null));
}

#[test]
fn a_snapshot_read_tells_its_time_and_is_repeated() {
    let mut servers = Servers::start_logging(&Config::default());
    servers.all[0].send("db", doc! { "create": "c" }.doc());
    change(&mut servers.all[0], 0);
    let read = |server: &mut Server, concern: &DocBuf| {
        server.send("db", doc! { "find": "c", "readConcern": concern }.doc())
    };
    let now = read(&mut servers.all[1], &doc! { "level": "snapshot" });
    assert_eq!(batch(&now).len(), 1);
    let Value::Timestamp(at) = cursor(&now).field("atClusterTime") else {
        panic!("{now:?}");
    };
    change(&mut servers.all[2], 1);
    let concern = doc! { "level": "snapshot", "atClusterTime": at };
    let again = read(&mut servers.all[1], &concern);
    assert_eq!(batch(&again), batch(&now));
    assert_eq!(batch(&read(&mut servers.all[1], &DocBuf::new())).len(), 2);
    // The engine in memory keeps a state only where it was read: another server refuses.
    let elsewhere = read(&mut servers.all[2], &concern);
    assert_eq!(elsewhere.doc().field("code").as_i64_exact(), Some(239));
}
