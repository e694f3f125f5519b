//! After a restart, all server-wide settings of clients have their values, except those that
//! MongoDB loses as well.

use crate::access::{code, run};
use crate::behaviour::{send, serve};
use commands::{Config, Connection, Dispatcher, StoreHooks, SystemClock};
use model::{DocBuf, Value, doc, extjson};
use std::sync::Arc;

/// The commands that set something, with their databases.
const SET: &[(&str, &str)] = &[
    (
        "admin",
        "{'setClusterParameter': {'changeStreamOptions': {'preAndPostImages': \
            {'expireAfterSeconds': 77}}}}",
    ),
    (
        "admin",
        "{'setClusterParameter': {'changeStreams': {'expireAfterSeconds': 78}}}",
    ),
    (
        "admin",
        "{'setClusterParameter': {'defaultMaxTimeMS': {'readOperations': 79}}}",
    ),
    (
        "admin",
        "{'setClusterParameter': {'fleDisableSubstringPreviewParameterLimits': {'enabled': true}}}",
    ),
    (
        "admin",
        "{'setClusterParameter': {'pauseMigrationsDuringMultiUpdates': {'enabled': true}}}",
    ),
    (
        "admin",
        "{'setDefaultRWConcern': 1, 'defaultReadConcern': {'level': 'available'}, \
            'defaultWriteConcern': {'w': 1, 'j': true, 'wtimeout': 5}}",
    ),
    (
        "admin",
        "{'setQuerySettings': {'find': 'c', 'filter': {'a': 1}, '$db': 'd'}, 'settings': \
            {'reject': true}}",
    ),
    (
        "admin",
        "{'setFeatureCompatibilityVersion': 'BEFORE', 'confirm': true}",
    ),
    (
        "admin",
        "{'replSetResizeOplog': 1, 'size': 1234, 'minRetentionHours': 2.5}",
    ),
    (
        "d",
        "{'create': 'c', 'validator': {'a': {'$type': 'int'}}, 'validationLevel': 'moderate', \
            'validationAction': 'warn', 'collation': {'locale': 'de'}, 'expireAfterSeconds': 60, \
            'clusteredIndex': {'key': {'_id': 1}, 'unique': true}}",
    ),
    (
        "d",
        "{'create': 'capped', 'capped': true, 'size': 8192, 'max': 5}",
    ),
    (
        "d",
        "{'create': 'series', 'timeseries': {'timeField': 't', 'metaField': 'm', 'granularity': \
            'hours'}, 'expireAfterSeconds': 90}",
    ),
    (
        "d",
        "{'create': 'view', 'viewOn': 'capped', 'pipeline': [{'$match': {'a': 1}}]}",
    ),
    (
        "d",
        "{'createIndexes': 'capped', 'indexes': [{'key': {'a': 1}, 'name': 'a', 'sparse': true, \
            'unique': true}, {'key': {'t': 1}, 'name': 't', 'expireAfterSeconds': 40}, {'key': \
            {'h': 1}, 'name': 'h', 'hidden': true}]}",
    ),
    (
        "d",
        "{'collMod': 'capped', 'changeStreamPreAndPostImages': {'enabled': true}}",
    ),
    (
        "d",
        "{'collMod': 'capped', 'index': {'name': 't', 'expireAfterSeconds': 41}}",
    ),
    (
        "admin",
        "{'createUser': 'u', 'pwd': 'pw', 'roles': ['read']}",
    ),
    (
        "admin",
        "{'createRole': 'r', 'roles': ['read'], 'privileges': [], 'authenticationRestrictions': \
            [{'clientSource': ['10.0.0.0/8']}]}",
    ),
    // Last, because it blocks later commands.
    (
        "admin",
        "{'setUserWriteBlockMode': 1, 'global': true, 'reason': \
            'DiskUseThresholdExceeded'}",
    ),
];

/// The commands that read the settings.
const ASKED: &[(&str, &str)] = &[
    ("admin", "{'getClusterParameter': '*'}"),
    ("admin", "{'getDefaultRWConcern': 1}"),
    (
        "admin",
        "{'aggregate': 1, 'pipeline': [{'$querySettings': {}}], 'cursor': {}}",
    ),
    (
        "admin",
        "{'getParameter': 1, 'featureCompatibilityVersion': 1}",
    ),
    (
        "local",
        "{'aggregate': 'oplog.rs', 'pipeline': [{'$collStats': {'storageStats': {}}}, {'$project': \
            {'storageStats.maxSize': 1}}], 'cursor': {}}",
    ),
    (
        "local",
        "{'listCollections': 1, 'filter': {'name': 'oplog.rs'}}",
    ),
    ("d", "{'listCollections': 1}"),
    ("d", "{'listIndexes': 'capped'}"),
    ("d", "{'listIndexes': 'c'}"),
    ("admin", "{'usersInfo': 1, 'showCredentials': true}"),
    (
        "admin",
        "{'rolesInfo': 1, 'showAuthenticationRestrictions': true}",
    ),
    ("d", "{'insert': 'capped', 'documents': [{}]}"),
];

/// Settings that are lost, as in MongoDB: the command that sets each, and the one that reads it.
const FORGOTTEN: &[(&str, &str, &str)] = &[
    (
        "admin",
        "{'setParameter': 1, 'cursorTimeoutMillis': 12345}",
        "{'getParameter': 1, 'cursorTimeoutMillis': 1}",
    ),
    ("d", "{'profile': 2, 'slowms': 7}", "{'profile': -1}"),
    (
        "d",
        "{'planCacheSetFilter': 'capped', 'query': {'a': 1}, 'indexes': [{'a': 1}]}",
        "{'planCacheListFilters': 'capped'}",
    ),
];

fn json(text: &str) -> DocBuf {
    let text = text.replace('\'', "\"").replace("BEFORE", "8.0");
    extjson::parse_document(&text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn start(engine: &Arc<storage::MemoryEngine>) -> (Arc<Dispatcher>, Connection) {
    let hooks = StoreHooks::new(Arc::new(SystemClock::default())).with_log(1 << 30);
    let engine: Arc<dyn storage::Engine> = engine.clone();
    let store = store::Store::open(engine, Arc::new(hooks)).expect("a store");
    let server = serve(Config::default(), Arc::new(store));
    server.service().keep_version().expect("the version");
    let conn = server.connect("127.0.0.1:9");
    (server, conn)
}

/// The reply without the parts that differ each time.
fn ask(s: &Dispatcher, c: &mut Connection, (db, command): (&str, &str)) -> String {
    let reply = send(s, c, db, json(command).doc());
    let kept = DocBuf::build(|w| {
        for (name, value) in reply.doc().iter() {
            if !matches!(
                name,
                "$clusterTime" | "operationTime" | "localUpdateWallClockTime"
            ) {
                w.put(name, value);
            }
        }
    });
    Value::Document(kept.doc()).to_string()
}

#[test]
fn settings_survive_a_restart() {
    let (s, mut c) = start(&Arc::new(storage::MemoryEngine::new()));
    let fresh: Vec<String> = ASKED.iter().map(|a| ask(&s, &mut c, *a)).collect();
    let engine = Arc::new(storage::MemoryEngine::new());
    let (s, mut c) = start(&engine);
    let forgotten = |s: &Dispatcher, c: &mut Connection| -> Vec<String> {
        let asked = FORGOTTEN.iter().map(|(db, _, get)| (*db, *get));
        asked.map(|a| ask(s, c, a)).collect()
    };
    for (db, command) in SET.iter().take(SET.len() - 1) {
        let reply = send(&s, &mut c, db, json(command).doc());
        assert_eq!(code(&reply), 0, "{command}: {reply:?}");
    }
    let defaults = forgotten(&s, &mut c);
    for (db, set, _) in FORGOTTEN {
        assert_eq!(run(&s, &mut c, db, json(set)), 0, "{set}");
    }
    let changed = forgotten(&s, &mut c);
    for ((before, after), (_, set, _)) in defaults.iter().zip(&changed).zip(FORGOTTEN) {
        assert_ne!(before, after, "{set}");
    }
    // Profiling creates a collection, which is kept.
    assert_eq!(run(&s, &mut c, "d", json("{'profile': 0}")), 0);
    let (db, block) = SET[SET.len() - 1];
    assert_eq!(run(&s, &mut c, db, json(block)), 0);
    let before: Vec<String> = ASKED.iter().map(|a| ask(&s, &mut c, *a)).collect();
    for ((old, new), (_, command)) in fresh.iter().zip(&before).zip(ASKED) {
        assert_ne!(old, new, "nothing was set that {command} tells");
    }
    drop((c, s));
    let (s, mut c) = start(&engine);
    for (was, asked) in before.iter().zip(ASKED) {
        assert_eq!(&ask(&s, &mut c, *asked), was, "{asked:?}");
    }
    assert_eq!(forgotten(&s, &mut c), defaults);
}

/// Every existing cluster parameter is among the commands above.
#[test]
fn every_cluster_parameter_is_set_before_the_restart() {
    let (s, mut c) = start(&Arc::new(storage::MemoryEngine::new()));
    let all = send(
        &s,
        &mut c,
        "admin",
        doc! { "getClusterParameter": "*" }.doc(),
    );
    let list = all.doc().field("clusterParameters").as_array();
    for one in list.expect("a list").iter().filter_map(|v| v.as_doc()) {
        let name = one.field("_id").as_str().expect("a name");
        let is_set = |(_, command): &(&str, &str)| command.contains(&format!("'{name}'"));
        assert!(SET.iter().any(is_set), "{name}");
    }
}
