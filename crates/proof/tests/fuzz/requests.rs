//! Whole commands over a store in memory: specifications of indexes, collections, views, search,
//! users; JavaScript and what crosses into it and back.

use crate::tree;
use commands::{Config, Dispatcher, Outcome as Reply, Request, Service, StoreHooks, SystemClock};
use model::{DocBuf, extjson};
use proof::fuzz::{Fuzz, Limit, Outcome, number_of};
use std::sync::Arc;
use storage::MemoryEngine;
use store::Store;

/// Commands that stop the server or block it.
const LEFT_OUT: &[&str] = &["fsync", "shutdown", "configureFailPoint", "replSetStepDown"];

fn server() -> Arc<Dispatcher> {
    let hooks = StoreHooks::new(Arc::new(SystemClock::default())).with_log(1 << 20);
    let store = Store::open(Arc::new(MemoryEngine::new()), Arc::new(hooks)).expect("a store");
    let service = Service::new(
        Config::default(),
        Arc::new(SystemClock::default()),
        Arc::new(store),
    );
    service.state.load(&service.store).expect("the settings");
    Arc::new(commands::registry::dispatcher(service.into_shared()))
}

const FIRST: &[&str] = &[
    r#"{"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a_1"}]}"#,
    r#"{"insert": "c", "documents": [{"_id": 1, "a": 1, "s": "x", "e": [1, 0, 0], "t":
        {"$date": {"$numberLong": "1"}}}, {"_id": 2, "a": [1, 2], "b": {"c": 2}}]}"#,
];

/// Commands run on a server that is replaced now and then, so that later commands meet the effects
/// of earlier ones.
#[test]
fn whole_commands() {
    let corpus = tree::corpus(include_str!("../../corpus/commands.json"));
    let fuzz = Fuzz {
        name: "commands",
        limit: Limit::of(2_500),
        corpus: &corpus,
        change: tree::change,
        show: tree::show,
    };
    let mut current = None;
    let mut sent = 0usize;
    let tried = fuzz.run(|json| {
        let Some(mut body) = tree::document(json) else {
            return Outcome::Refused(0);
        };
        let name = body
            .doc()
            .first()
            .map(|(name, _)| name.to_owned())
            .unwrap_or_default();
        if LEFT_OUT.contains(&name.as_str()) {
            return Outcome::Refused(1);
        }
        if sent.is_multiple_of(200) {
            let server = server();
            let mut conn = server.connect("127.0.0.1:1");
            for text in FIRST {
                let first = extjson::parse_document(text).expect("a command");
                send(&server, &mut conn, first);
            }
            current = Some((server, conn));
        }
        sent += 1;
        let Some((server, conn)) = &mut current else {
            return Outcome::Refused(2);
        };
        let admin = [
            "bulkWrite",
            "renameCollection",
            "applyOps",
            "setQuerySettings",
        ];
        if !body.doc().contains("$db") {
            body.put(
                "$db",
                if admin.contains(&name.as_str()) {
                    "admin"
                } else {
                    "d"
                },
            );
        }
        let reply = send(server, conn, body);
        let code = reply.doc().field("code").as_i64_exact();
        match code {
            Some(code) => Outcome::Refused(number_of((name, code))),
            None => Outcome::Accepted(number_of(name)),
        }
    });
    assert!(tried.accepted > 80, "{tried:?}");
}

fn send(server: &Dispatcher, conn: &mut commands::Connection, mut body: DocBuf) -> DocBuf {
    if !body.doc().contains("$db") {
        body.put("$db", "d");
    }
    let mut reply = Vec::new();
    let outcome = server.handle(conn, &Request::new(body.doc()), &mut reply);
    if let Reply::Wait { .. } = outcome {
        // A command that waits for an event is ended.
        *conn = server.connect("127.0.0.1:1");
        return DocBuf::new();
    }
    DocBuf::from_bytes(reply).unwrap_or_default()
}
