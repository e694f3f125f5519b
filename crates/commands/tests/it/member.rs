//! Administrative commands for a member of a set, for search and for the process: the replies of a
//! single server.

use crate::behaviour::{logging_store, send, serve};
use crate::interrupts::json;
use commands::{Config, Dispatcher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn server(set: bool) -> Arc<Dispatcher> {
    let config = Config {
        replica_set: set.then(|| "rs0".to_owned()),
        ..Config::default()
    };
    serve(config, logging_store())
}

fn code(service: &Dispatcher, command: &str) -> i64 {
    let command = json(&command.replace('\'', "\""));
    let mut conn = service.connect("127.0.0.1:1");
    let reply = send(service, &mut conn, "d", command.doc());
    reply.doc().field("code").as_i64_exact().unwrap_or(0)
}

#[test]
fn codes_of_a_member_and_of_a_standalone_server() {
    let (member, standalone) = (server(true), server(false));
    for s in [&member, &standalone] {
        code(
            s,
            "{'createIndexes': 'c', 'indexes': [{'key': {'a': 1}, 'name': 'a'}]}",
        );
    }
    for (command, of_member, of_standalone) in [
        ("'replSetStepDown': 60", 262, 76),
        ("'replSetStepDown': 0", 262, 76),
        ("'replSetStepDown': -1", 2, 76),
        ("'replSetStepDown': 5", 2, 76),
        (
            "'replSetStepDown': 5, 'secondaryCatchUpPeriodSecs': 5",
            262,
            76,
        ),
        (
            "'replSetStepDown': 5, 'secondaryCatchUpPeriodSecs': -1",
            2,
            76,
        ),
        (
            "'replSetStepDown': 5, 'secondaryCatchUpPeriodSecs': 'x'",
            14,
            76,
        ),
        ("'replSetStepDown': 60, 'force': 'yes'", 14, 76),
        ("'replSetStepUp': 1", 0, 76),
        ("'replSetFreeze': 10", 95, 76),
        ("'replSetFreeze': 0", 95, 76),
        ("'replSetMaintenance': true", 95, 76),
        ("'replSetSyncFrom': 'h:1'", 95, 76),
        ("'replSetSyncFrom': 1", 14, 76),
        ("'replSetAbortPrimaryCatchUp': 1", 20, 76),
    ] {
        let command = format!("{{{command}, '$db': 'admin'}}");
        assert_eq!(code(&member, &command), of_member, "{command}");
        assert_eq!(code(&standalone, &command), of_standalone, "{command}");
        let elsewhere = command.replace("'admin'", "'d'");
        assert_eq!(code(&member, &elsewhere), 13, "{elsewhere}");
    }
    for (command, of_member, of_standalone) in [
        (
            "{'setIndexCommitQuorum': 'c', 'indexNames': ['a'], 'commitQuorum': 1}",
            27,
            20,
        ),
        (
            "{'setIndexCommitQuorum': 'c', 'indexNames': ['x'], 'commitQuorum': 1}",
            27,
            20,
        ),
        (
            "{'setIndexCommitQuorum': 'c', 'indexNames': [1], 'commitQuorum': 1}",
            14,
            20,
        ),
        (
            "{'setIndexCommitQuorum': 'no', 'indexNames': ['x'], 'commitQuorum': 1}",
            26,
            20,
        ),
        (
            "{'setIndexCommitQuorum': 'c', 'indexNames': ['a']}",
            40414,
            40414,
        ),
        ("{'refreshLogicalSessionCacheNow': 1}", 0, 0),
        (
            "{'createSearchIndexes': 'c', 'indexes': [{'definition': {}}]}",
            8,
            8,
        ),
        ("{'createSearchIndexes': 'c'}", 40414, 40414),
        ("{'createSearchIndexes': 'c', 'indexes': {}}", 14, 14),
        ("{'createSearchIndexes': 1, 'indexes': []}", 73, 73),
        ("{'listSearchIndexes': 'c', 'name': 'x'}", 0, 0),
        ("{'dropSearchIndex': 'c', 'other': 'x'}", 40415, 40415),
        ("{'updateSearchIndex': 'c', 'name': 'x'}", 40414, 40414),
        (
            "{'updateSearchIndex': 'c', 'name': 'x', 'definition': {}}",
            27,
            27,
        ),
        ("{'setAuditConfig': 1}", 59, 59),
        ("{'clearJumboFlag': 'd.c'}", 59, 59),
    ] {
        assert_eq!(code(&member, command), of_member, "{command}");
        assert_eq!(code(&standalone, command), of_standalone, "{command}");
    }
}

#[test]
fn a_client_on_this_machine_ends_the_server() {
    let s = server(true);
    let shutdown = json(r#"{"shutdown": 1, "$db": "admin"}"#);
    assert_eq!(
        code(&s, "{'shutdown': 1, '$db': 'admin'}"),
        20,
        "a part of another process"
    );
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let ask = || _ = ASKED.fetch_add(1, Ordering::Relaxed);
    assert!(s.service().state.shut_down.set(Box::new(ask)).is_ok());
    let mut far = s.connect("10.0.0.1:1");
    let refused = send(&s, &mut far, "admin", shutdown.doc());
    assert_eq!(refused.doc().field("code").as_i64_exact(), Some(13));
    assert_eq!(
        code(&s, "{'shutdown': 1, 'timeoutSecs': -1, '$db': 'admin'}"),
        2
    );
    assert_eq!(code(&s, "{'shutdown': 1}"), 13);
    assert_eq!(ASKED.load(Ordering::Relaxed), 0);
    let mut near = s.connect("127.0.0.1:1");
    let request = commands::Request::new(shutdown.doc());
    let mut reply = Vec::new();
    let outcome = s.handle(&mut near, &request, &mut reply);
    assert_eq!((outcome, reply), (commands::Outcome::Close, Vec::new()));
    assert_eq!(ASKED.load(Ordering::Relaxed), 1);
}

#[test]
fn the_version_is_kept_where_tools_look_for_it() {
    let store = logging_store();
    let start = || {
        let s = serve(Config::default(), Arc::clone(&store));
        s.service().keep_version().unwrap();
        s
    };
    let shown = |s: &Dispatcher| {
        let mut conn = s.connect("127.0.0.1:1");
        let find = json(r#"{"find": "system.version"}"#);
        let found = send(s, &mut conn, "admin", find.doc());
        let get = json(r#"{"getParameter": 1, "featureCompatibilityVersion": 1}"#);
        let parameter = send(s, &mut conn, "admin", get.doc());
        let cursor = found.doc().field("cursor").as_doc().unwrap().to_buf();
        let first = cursor.doc().field("firstBatch").as_array().unwrap();
        let parameter = parameter.doc().field("featureCompatibilityVersion");
        let version = parameter
            .as_doc()
            .unwrap()
            .field("version")
            .as_str()
            .unwrap();
        (
            first.get(0).unwrap().as_doc().unwrap().to_buf(),
            version.to_owned(),
        )
    };
    let id = "featureCompatibilityVersion";
    let (document, version) = shown(&start());
    assert_eq!(document, model::doc! { "_id": id, "version": "8.2" });
    assert_eq!(version, "8.2");
    let set = "{'setFeatureCompatibilityVersion': '8.0', 'confirm': true, '$db': 'admin'}";
    assert_eq!(code(&start(), set), 0);
    let (document, version) = shown(&start());
    assert_eq!(document, model::doc! { "_id": id, "version": "8.0" });
    assert_eq!(version, "8.0");
}

#[test]
fn hello_names_the_servers_that_can_take_over() {
    let config = Config {
        host: "a:1".to_owned(),
        successors: vec!["b:2".to_owned(), "a:1".to_owned()],
        ..Config::default()
    };
    let service = serve(config, logging_store());
    let mut conn = service.connect("127.0.0.1:1");
    let command = json(r#"{"hello": 1}"#);
    let reply = send(&service, &mut conn, "d", command.doc());
    let hosts = reply.doc().field("hosts").as_array().unwrap();
    let hosts: Vec<_> = hosts.iter().filter_map(|host| host.as_str()).collect();
    assert_eq!(hosts, ["a:1", "b:2"]);
    assert_eq!(reply.doc().field("primary").as_str(), Some("a:1"));
}

#[test]
fn a_server_among_equal_servers_greets_as_a_router() {
    let config = Config {
        is_one_of_equals: true,
        ..Config::default()
    };
    let service = serve(config, logging_store());
    let mut conn = service.connect("127.0.0.1:1");
    let command = json(r#"{"hello": 1}"#);
    let reply = send(&service, &mut conn, "d", command.doc());
    let reply = reply.doc();
    assert_eq!(reply.field("msg").as_str(), Some("isdbgrid"));
    assert!(reply.field("isWritablePrimary").truthy() && !reply.contains("setName"));
    assert!(reply.contains("logicalSessionTimeoutMinutes"));
    assert!(!reply.contains("serviceId"));
    // Behind a load balancer, clients tell servers apart by it.
    let balanced = json(r#"{"hello": 1, "loadBalanced": true}"#);
    let id = |service: &Dispatcher| {
        let mut conn = service.connect("127.0.0.1:1");
        let reply = send(service, &mut conn, "d", balanced.doc());
        match reply.doc().field("serviceId") {
            model::Value::ObjectId(id) => Some(id),
            _ => None,
        }
    };
    assert!(id(&service).is_some());
    assert_eq!(id(&service), id(&service));
    assert_eq!(id(&serve(Config::default(), logging_store())), None);
}

/// The identifier of a set from `replSetGetConfig`.
fn set_id(store: &Arc<store::Store>) -> model::ObjectId {
    let service = serve(Config::default(), Arc::clone(store));
    let mut conn = service.connect("127.0.0.1:1");
    let ask = json(r#"{"replSetGetConfig": 1}"#);
    let reply = send(&service, &mut conn, "admin", ask.doc());
    let config = reply.doc().field("config").as_doc().unwrap().to_buf();
    let settings = config.doc().field("settings").as_doc().unwrap();
    match settings.field("replicaSetId") {
        model::Value::ObjectId(id) => id,
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_set_has_an_identifier_of_its_own() {
    let (one, other) = (logging_store(), logging_store());
    let id = set_id(&one);
    assert_ne!(id, set_id(&other));
    // Also after a restart.
    assert_eq!(id, set_id(&one));
}

#[test]
fn the_time_of_an_operation_is_a_time() {
    let service = serve(Config::default(), logging_store());
    let mut conn = service.connect("127.0.0.1:1");
    let ask = json(r#"{"currentOp": 1}"#);
    let reply = send(&service, &mut conn, "admin", ask.doc());
    let all = reply.doc().field("inprog").as_array().unwrap();
    let own = all
        .iter()
        .find_map(|op| op.as_doc()?.field("currentOpTime").as_str());
    let time = own.expect("this operation").to_owned();
    // 2026-01-31T12:00:00.000+00:00
    assert!(
        time.len() == 29 && time.ends_with("+00:00") && time.as_bytes()[10] == b'T',
        "{time}"
    );
}
