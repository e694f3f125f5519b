//! The audit: events in MongoDB's schema, filters, and contents that must never be in an event.

use crate::access::{ELSEWHERE, code, log_in, run, user, with_root};
use crate::behaviour::{logging_store, send, serve};
use crate::interrupts::json;
use commands::{Config, Connection, Dispatcher};
use logs::{Audit, AuditTarget, Rotate};
use model::{DocBuf, doc};
use serde_json::Value as Json;
use state::audit::AuditSettings;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;

/// A file with the events of a server.
struct Trail {
    _dir: TempDir,
    path: PathBuf,
    read: usize,
}

impl Trail {
    fn begin(s: &Dispatcher, filter: &str, runtime: bool) -> Trail {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.json");
        let target = AuditTarget::File {
            path: path.clone(),
            bson: false,
            rotate: Rotate::Rename,
        };
        let settings = AuditSettings {
            to: Arc::new(Audit::open(target, |e| panic!("{e}")).unwrap()),
            filter: json(filter),
            runtime,
        };
        s.service().start_audit(settings).unwrap();
        let mut trail = Trail {
            _dir: dir,
            path,
            read: 0,
        };
        trail.new_events();
        trail
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.path).unwrap()
    }

    /// The events since the last call.
    fn new_events(&mut self) -> Vec<Json> {
        let text = self.text();
        let new: Vec<Json> = text
            .lines()
            .skip(self.read)
            .map(|l| serde_json::from_str(l).unwrap())
            .collect();
        self.read += new.len();
        new
    }

    /// Kinds and results of the events since the last call.
    fn kinds(&mut self) -> Vec<(String, i64)> {
        let kind = |e: &Json| {
            let atype = e["atype"].as_str().unwrap().to_owned();
            (atype, e["result"].as_i64().unwrap())
        };
        self.new_events().iter().map(kind).collect()
    }
}

fn kinds(all: &[(&str, i64)]) -> Vec<(String, i64)> {
    all.iter().map(|(k, r)| ((*k).to_owned(), *r)).collect()
}

fn open_server() -> Arc<Dispatcher> {
    serve(Config::default(), logging_store())
}

/// Runs a command on `d` and returns its code.
fn ask(s: &Dispatcher, c: &mut Connection, command: &str) -> i64 {
    code(&send(s, c, "d", json(command).doc()))
}

#[test]
fn logins_and_refusals_are_audited_with_user_roles_and_address() {
    let (s, mut root) = with_root();
    let mut trail = Trail::begin(&s, "{}", false);
    let mut reader = user(&s, &mut root, "ann", doc! { "r": ["readAnyDatabase"] });
    let events = trail.new_events();
    assert_eq!(events.len(), 2, "{events:?}");
    let (made, entered) = (&events[0], &events[1]);
    assert_eq!(made["atype"], "createUser");
    assert_eq!(made["users"][0]["user"], "root");
    assert_eq!(made["remote"]["ip"], "127.0.0.1");
    assert_eq!(made["param"]["user"], "ann");
    assert_eq!(made["param"]["roles"][0]["role"], "readAnyDatabase");
    assert_eq!(made["param"]["roles"][0]["db"], "admin");
    assert_eq!(made["result"], 0);
    assert_eq!(entered["atype"], "authenticate");
    assert_eq!(entered["param"]["mechanism"], "SCRAM-SHA-256");
    assert_eq!(entered["users"][0]["user"], "ann");
    assert_eq!(entered["roles"][0]["role"], "readAnyDatabase");
    assert_eq!(entered["remote"]["ip"], "10.1.2.3");
    assert_eq!(entered["remote"]["port"], 4000);
    assert_eq!(entered["uuid"]["$type"], "04");
    assert_ne!(entered["uuid"], made["uuid"]);
    assert!(entered["ts"]["$date"].is_string());

    // An allowed read is no event; a refused write is one.
    assert_eq!(run(&s, &mut reader, "d", doc! { "find": "c" }), 0);
    let insert = doc! { "insert": "c", "documents": [{ "a": 1i32 }] };
    assert_eq!(run(&s, &mut reader, "d", insert), 13);
    let events = trail.new_events();
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0]["atype"], "authCheck");
    assert_eq!(events[0]["result"], 13);
    assert_eq!(events[0]["param"]["command"], "insert");
    assert_eq!(events[0]["param"]["ns"], "d.c");
    assert_eq!(events[0]["param"]["args"]["documents"][0]["a"], 1);
    assert_eq!(events[0]["users"][0]["user"], "ann");

    let mut other = s.connect(ELSEWHERE);
    assert_eq!(log_in(&s, &mut other, ("ann", "admin"), "wrong"), 18);
    let events = trail.new_events();
    assert_eq!(events[0]["result"], 18);
    assert_eq!(events[0]["users"], Json::Array(Vec::new()));
    assert_eq!(run(&s, &mut reader, "admin", doc! { "logout": 1i32 }), 0);
    assert_eq!(run(&s, &mut reader, "admin", doc! { "logout": 1i32 }), 0);
    let events = trail.new_events();
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0]["atype"], "logout");
    assert_eq!(events[0]["param"]["initialUsers"][0]["user"], "ann");
}

#[test]
fn changes_of_users_and_roles_are_audited_without_secrets() {
    let (s, mut root) = with_root();
    let mut trail = Trail::begin(&s, "{}", false);
    for (command, expected) in [
        (
            r#"{"createRole": "r", "roles": ["read"], "privileges": []}"#,
            "createRole",
        ),
        (
            r#"{"createUser": "u", "pwd": "hidden1", "roles": ["r"], "customData": {"a": 1}}"#,
            "createUser",
        ),
        (r#"{"updateUser": "u", "pwd": "hidden2"}"#, "updateUser"),
        (
            r#"{"grantRolesToUser": "u", "roles": ["readWrite"]}"#,
            "grantRolesToUser",
        ),
        (
            r#"{"revokeRolesFromUser": "u", "roles": ["readWrite"]}"#,
            "revokeRolesFromUser",
        ),
        (
            r#"{"grantPrivilegesToRole": "r", "privileges": [{"resource":
            {"db": "d", "collection": "x"}, "actions": ["find"]}]}"#,
            "grantPrivilegesToRole",
        ),
        (r#"{"updateRole": "r", "roles": []}"#, "updateRole"),
        (r#"{"dropUser": "u"}"#, "dropUser"),
        (r#"{"dropRole": "r"}"#, "dropRole"),
        (
            r#"{"dropAllUsersFromDatabase": 1}"#,
            "dropAllUsersFromDatabase",
        ),
        (
            r#"{"dropAllRolesFromDatabase": 1}"#,
            "dropAllRolesFromDatabase",
        ),
    ] {
        assert_eq!(ask(&s, &mut root, command), 0, "{command}");
        assert_eq!(trail.kinds(), kinds(&[(expected, 0)]), "{command}");
    }
    let twice = doc! { "createUser": "root", "pwd": "hidden3", "roles": [] };
    let failed = run(&s, &mut root, "admin", twice);
    assert_eq!(trail.kinds(), kinds(&[("createUser", failed)]));
    assert_eq!(ask(&s, &mut root, r#"{"dropUser": "nobody"}"#), 11);
    assert_eq!(trail.kinds(), kinds(&[("dropUser", 11)]));
    // Direct writes to the collections are reported as well.
    let update = doc! { "update": "system.users",
    "updates": [{ "q": { "user": "no" }, "u": { "$set": { "x": 1i32 } } }] };
    assert_eq!(run(&s, &mut root, "admin", update), 0);
    assert_eq!(trail.kinds(), kinds(&[("directAuthMutation", 0)]));
    let text = trail.text();
    assert!(!text.contains("hidden"), "{text}");
    assert!(text.contains(r#""passwordChanged":true"#), "{text}");
    assert!(text.contains(r#""customData":{"a":1}"#), "{text}");
}

#[test]
fn created_and_dropped_collections_and_indexes_are_audited() {
    let s = open_server();
    let mut c = s.connect("127.0.0.1:9");
    let mut trail = Trail::begin(&s, "{}", false);
    let index = |field: &str, more: &str| {
        format!(
            r#"{{"createIndexes": "a", "indexes":
            [{{"key": {{"{field}": 1}}, "name": "{field}_1"{more}}}]}}"#
        )
    };
    assert_eq!(
        ask(&s, &mut c, r#"{"insert": "a", "documents": [{}, {}]}"#),
        0
    );
    let made = [("createDatabase", 0), ("createCollection", 0)];
    assert_eq!(trail.kinds(), kinds(&made));
    assert_eq!(ask(&s, &mut c, r#"{"create": "b"}"#), 0);
    assert_eq!(trail.kinds(), kinds(&[("createCollection", 0)]));
    assert_eq!(ask(&s, &mut c, &index("x", "")), 0);
    let events = trail.new_events();
    let states: Vec<_> = events
        .iter()
        .map(|e| e["param"]["indexBuildState"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["IndexBuildStarted", "IndexBuildSucceeded"]);
    assert_eq!(events[1]["param"]["indexSpec"]["key"]["x"], 1);
    assert_eq!(ask(&s, &mut c, &index("y", r#", "unique": true"#)), 11_000);
    let told = [("createIndex", 0), ("createIndex", 11_000)];
    assert_eq!(trail.kinds(), kinds(&told));
    for (command, told) in [
        (
            r#"{"dropIndexes": "a", "index": "x_1"}"#,
            &[("dropIndex", 0)][..],
        ),
        (
            r#"{"create": "v", "viewOn": "a", "pipeline": [{"$match": {"k": 1}}]}"#,
            &[("createCollection", 0)],
        ),
        (
            r#"{"aggregate": "a", "pipeline": [{"$out": "o"}], "cursor": {}}"#,
            &[("createCollection", 0)],
        ),
        (r#"{"drop": "b"}"#, &[("dropCollection", 0)]),
        (r#"{"drop": "b"}"#, &[]),
    ] {
        assert_eq!(ask(&s, &mut c, command), 0, "{command}");
        assert_eq!(trail.kinds(), kinds(told), "{command}");
    }
    let rename = doc! { "renameCollection": "d.a", "to": "d.z" };
    assert_eq!(run(&s, &mut c, "admin", rename), 0);
    let events = trail.new_events();
    assert_eq!(events[0]["param"]["old"], "d.a");
    assert_eq!(events[0]["param"]["new"], "d.z");
    assert_eq!(ask(&s, &mut c, r#"{"dropDatabase": 1}"#), 0);
    let gone = trail.kinds();
    let database = ("dropDatabase".to_owned(), 0);
    let (last, before) = gone.split_last().unwrap();
    assert_eq!(*last, database);
    let dropped = ("dropCollection".to_owned(), 0);
    assert!(before.iter().all(|k| *k == dropped) && !before.is_empty());
    assert!(trail.text().contains(r#""pipeline":[{"$match":{"k":1}}]"#));
}

#[test]
fn filters_select_events_and_successful_checks_are_audited_on_request() {
    let s = open_server();
    let mut c = s.connect("127.0.0.1:9");
    let filter = r#"{"atype": "authCheck", "param.command": {"$in": ["find", "insert"]},
        "param.ns": {"$regex": "^d\\."}}"#;
    let mut trail = Trail::begin(&s, filter, false);
    let find = r#"{"find": "c", "filter": {"a": 1}}"#;
    assert_eq!(ask(&s, &mut c, find), 0);
    assert!(trail.kinds().is_empty());
    let set = |on: bool| doc! { "setParameter": 1i32, "auditAuthorizationSuccess": on };
    assert_eq!(run(&s, &mut c, "admin", set(true)), 0);
    assert_eq!(ask(&s, &mut c, find), 0);
    assert_eq!(ask(&s, &mut c, r#"{"count": "c"}"#), 0);
    assert_eq!(run(&s, &mut c, "e", json(find)), 0);
    assert_eq!(ask(&s, &mut c, r#"{"ping": 1}"#), 0);
    let events = trail.new_events();
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0]["param"]["args"]["filter"]["a"], 1);
    s.service().config.log.set_redacts(true);
    assert_eq!(ask(&s, &mut c, find), 0);
    assert_eq!(trail.new_events()[0]["param"]["args"]["filter"]["a"], "###");
    assert_eq!(run(&s, &mut c, "admin", set(false)), 0);
    assert_eq!(ask(&s, &mut c, find), 0);
    assert!(trail.kinds().is_empty());
    // Clients may only change the filter if the server was started with that option.
    let change = doc! { "setAuditConfig": 1i32, "filter": {},
    "auditAuthorizationSuccess": true };
    assert_eq!(run(&s, &mut c, "admin", change), 20);
}

#[test]
fn clients_change_the_filter_where_they_may_and_a_restart_keeps_it() {
    let store = logging_store();
    let s = serve(Config::default(), Arc::clone(&store));
    let mut c = s.connect("127.0.0.1:9");
    let get = || doc! { "getAuditConfig": 1i32 };
    assert_eq!(run(&s, &mut c, "admin", get()), 59, "there is no audit yet");
    let mut trail = Trail::begin(&s, "{}", true);
    let set = |filter: &str, success: bool| {
        let filter = json(filter);
        doc! { "setAuditConfig": 1i32, "filter": &filter,
        "auditAuthorizationSuccess": success }
    };
    assert_eq!(run(&s, &mut c, "d", set("{}", true)), 13);
    assert_eq!(
        run(&s, &mut c, "admin", doc! { "setAuditConfig": 1i32 }),
        40_414
    );
    assert_eq!(run(&s, &mut c, "admin", set(r#"{"$no": 1}"#, true)), 2);
    let parameter = doc! { "setParameter": 1i32, "auditAuthorizationSuccess": true };
    assert_eq!(run(&s, &mut c, "admin", parameter), 20);
    assert!(trail.kinds().is_empty());
    let wanted = r#"{"param.command": "find"}"#;
    assert_eq!(run(&s, &mut c, "admin", set(wanted, true)), 0);
    let events = trail.new_events();
    assert_eq!(events.len(), 1, "the filter does not hide its own coming");
    assert_eq!(events[0]["atype"], "auditConfigure");
    assert_eq!(
        events[0]["param"]["previous"]["auditAuthorizationSuccess"],
        false
    );
    assert_eq!(
        events[0]["param"]["config"]["filter"]["param.command"],
        "find"
    );
    assert_eq!(ask(&s, &mut c, r#"{"find": "c"}"#), 0);
    assert_eq!(ask(&s, &mut c, r#"{"create": "c"}"#), 0);
    assert_eq!(trail.kinds(), kinds(&[("authCheck", 0)]));
    drop((s, c, trail));

    let s = serve(Config::default(), store);
    let mut c = s.connect("127.0.0.1:9");
    let mut trail = Trail::begin(&s, "{}", true);
    let reply: DocBuf = send(&s, &mut c, "admin", get().doc());
    let filter = reply.doc().field("filter").as_doc().unwrap().to_buf();
    assert_eq!(filter, json(wanted));
    let success = reply.doc().field("auditAuthorizationSuccess");
    assert_eq!(success.as_bool(), Some(true));
    assert_eq!(ask(&s, &mut c, r#"{"find": "c"}"#), 0);
    assert_eq!(trail.kinds(), kinds(&[("authCheck", 0)]));
}

#[test]
fn application_messages_parameters_and_rotations_are_audited() {
    let s = open_server();
    let mut c = s.connect("/tmp/x.sock");
    let mut trail = Trail::begin(&s, "{}", false);
    let message = doc! { "logApplicationMessage": "release 7" };
    assert_eq!(run(&s, &mut c, "admin", message), 0);
    let events = trail.new_events();
    assert_eq!(events[0]["atype"], "applicationMessage");
    assert_eq!(events[0]["param"]["msg"], "release 7");
    assert!(events[0]["remote"]["unix"].is_string(), "{events:?}");
    let lines = s.service().config.log.lines().0;
    assert!(lines.iter().any(|l| l.contains("release 7")), "{lines:?}");
    let set = doc! { "setParameter": 1i32, "quiet": true };
    assert_eq!(run(&s, &mut c, "admin", set), 0);
    let events = trail.new_events();
    assert_eq!(events[0]["atype"], "setParameter");
    assert_eq!(events[0]["param"]["name"], "quiet");
    assert_eq!(run(&s, &mut c, "admin", doc! { "logRotate": "audit" }), 0);
    trail.read = 0;
    let events = trail.new_events();
    assert_eq!(events.len(), 1, "{events:?}");
    let status = &events[0]["param"]["logRotationStatus"];
    assert_eq!(status["status"], "OK");
    let old = std::fs::read_to_string(status["rotatedLogPath"].as_str().unwrap()).unwrap();
    assert!(old.contains("applicationMessage"), "{old}");
    // A long message of a client is shortened.
    let long = "x".repeat(1_000_000);
    let message = doc! { "logApplicationMessage": long.as_str() };
    assert_eq!(run(&s, &mut c, "admin", message), 0);
    let line = trail.text();
    assert!(line.len() < 10_000 && line.contains("$truncated"));
}
