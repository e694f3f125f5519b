//! Changes of the catalog by servers that write beside one another: clients see none of the
//! conflicts.

use crate::several_servers::{Server, Servers};
use model::extjson;

fn succeed(server: &mut Server, command: &str) {
    let command = extjson::parse_document(command).expect("a command");
    let reply = server.send("db", command.doc());
    let is_done =
        reply.doc().field("ok").as_i64_exact() == Some(1) && !reply.doc().contains("writeErrors");
    assert!(is_done, "{command:?}: {reply:?}");
}

/// Each server changes collections of its own; the others change theirs meanwhile.
#[test]
fn changes_of_different_collections_all_succeed() {
    let all = Servers::start().all;
    std::thread::scope(|threads| {
        for (number, mut server) in all.into_iter().enumerate() {
            threads.spawn(move || {
                for round in 0..30 {
                    let (name, other) = (format!("c{number}_{round}"), format!("d{number}"));
                    for command in [
                        format!(r#"{{"create": "{name}"}}"#),
                        format!(
                            r#"{{"update": "u{name}", "updates": [{{"q": {{"_id": 1}},
                            "u": {{"$push": {{"l": 1}}}}, "upsert": true}}]}}"#
                        ),
                        format!(
                            r#"{{"findAndModify": "f{name}", "query": {{"_id": 1}},
                            "update": {{"$inc": {{"l": 1}}}}, "upsert": true}}"#
                        ),
                        format!(r#"{{"insert": "{name}", "documents": [{{"a": 1}}, {{"a": 2}}]}}"#),
                        format!(
                            r#"{{"createIndexes": "{name}",
                            "indexes": [{{"key": {{"a": 1}}, "name": "a_1"}}]}}"#
                        ),
                        format!(
                            r#"{{"aggregate": "{name}", "pipeline": [{{"$out": "{other}"}}],
                            "cursor": {{}}}}"#
                        ),
                        format!(r#"{{"collMod": "{name}", "validationAction": "warn"}}"#),
                        format!(
                            r#"{{"createUser": "u{name}", "pwd": "p",
                            "roles": [{{"role": "read", "db": "db"}}]}}"#
                        ),
                        format!(r#"{{"createRole": "r{name}", "privileges": [], "roles": []}}"#),
                        format!(r#"{{"updateUser": "u{name}", "roles": ["readWrite"]}}"#),
                        format!(r#"{{"dropUser": "u{name}"}}"#),
                        format!(r#"{{"drop": "{name}"}}"#),
                    ] {
                        succeed(&mut server, &command);
                    }
                }
            });
        }
    });
}
