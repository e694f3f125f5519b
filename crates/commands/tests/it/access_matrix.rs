//! Runs each command as each built-in role and compares with the matrix of the manual; each letter
//! stands for a role that may run the command.

use crate::access::{log_in, run, with_root};
use commands::registry;
use model::{DocBuf, doc};
use std::collections::BTreeSet;

/// Letter, role, database.
const ROLES: &[(char, &str, &str)] = &[
    ('r', "read", "d"),
    ('w', "readWrite", "d"),
    ('a', "dbAdmin", "d"),
    ('o', "dbOwner", "d"),
    ('u', "userAdmin", "d"),
    ('M', "clusterMonitor", "admin"),
    ('G', "clusterManager", "admin"),
    ('H', "hostManager", "admin"),
    ('C', "clusterAdmin", "admin"),
    ('R', "readAnyDatabase", "admin"),
    ('W', "readWriteAnyDatabase", "admin"),
    ('U', "userAdminAnyDatabase", "admin"),
    ('A', "dbAdminAnyDatabase", "admin"),
    ('B', "backup", "admin"),
    ('S', "restore", "admin"),
    ('X', "root", "admin"),
];
const ALL: &str = "rwaouMGHCRWUABSX";

type Row = (&'static str, fn() -> DocBuf, &'static str);

/// Database, command, letters of the roles that may run it.
const MATRIX: &[Row] = &[
    ("d", || doc! { "find": "c" }, "rwoRWBX"),
    ("d", || doc! { "count": "c" }, "rwoRWBX"),
    ("d", || doc! { "distinct": "c", "key": "a" }, "rwoRWBX"),
    (
        "d",
        || doc! { "aggregate": "c", "pipeline": [], "cursor": {} },
        "rwoRWBX",
    ),
    ("d", || doc! { "explain": { "find": "c" } }, "rwoRWBX"),
    ("d", || doc! { "dataSize": "d.c" }, "rwoRWBX"),
    ("d", || doc! { "filemd5": 1i32, "root": "fs" }, "rwoRWBX"),
    (
        "d",
        || doc! { "mapReduce": "c", "map": "m", "reduce": "r", "out": { "inline": 1i32 } },
        "rwoRWBX",
    ),
    ("d", || doc! { "dbHash": 1i32 }, "rwoRWX"),
    ("d", || doc! { "insert": "c", "documents": [{}] }, "woWSX"),
    (
        "d",
        || doc! { "update": "c", "updates": [{ "q": {}, "u": { "$set": { "a": 1i32 } } }] },
        "woWX",
    ),
    (
        "d",
        || doc! { "delete": "c", "deletes": [{ "q": { "no": 1i32 }, "limit": 0i32 }] },
        "woWX",
    ),
    (
        "d",
        || doc! { "findAndModify": "c", "update": { "$set": { "a": 1i32 } } },
        "woWX",
    ),
    (
        "admin",
        || {
            doc! { "bulkWrite": 1i32, "ops": [{ "insert": 0i32, "document": {} }],
            "nsInfo": [{ "ns": "d.c" }] }
        },
        "woWSX",
    ),
    (
        "d",
        || doc! { "cleanupStructuredEncryptionData": "c", "cleanupTokens": {} },
        "woWX",
    ),
    (
        "d",
        || doc! { "compactStructuredEncryptionData": "c", "compactionTokens": {} },
        "woWX",
    ),
    (
        "d",
        || doc! { "cloneCollectionAsCapped": "c", "toCollection": "k", "size": 4096i32 },
        "woWX",
    ),
    (
        "d",
        || doc! { "createIndexes": "c", "indexes": [{ "key": { "a": 1i32 }, "name": "a" }] },
        "waoWASX",
    ),
    ("d", || doc! { "dropIndexes": "c", "index": "b" }, "waoWAX"),
    ("d", || doc! { "listIndexes": "c" }, "rwaoRWABX"),
    ("d", || doc! { "create": "n" }, "waoWASX"),
    ("d", || doc! { "drop": "n" }, "waoWASX"),
    (
        "d",
        || doc! { "convertToCapped": "c", "size": 4096i32 },
        "waoWASX",
    ),
    ("d", || doc! { "collMod": "c" }, "aoASX"),
    (
        "admin",
        || doc! { "renameCollection": "d.p", "to": "d.q" },
        "waoWAX",
    ),
    ("d", || doc! { "dropDatabase": 1i32 }, "aoCAX"),
    ("d", || doc! { "listCollections": 1i32 }, "rwaoRWABSX"),
    ("admin", || doc! { "listDatabases": 1i32 }, ALL),
    ("d", || doc! { "collStats": "c" }, "rwaoMCRWABX"),
    ("d", || doc! { "dbStats": 1i32 }, "rwaoMCRWAX"),
    ("d", || doc! { "validate": "c" }, "aoAX"),
    ("d", || doc! { "compact": "c" }, "aoAX"),
    (
        "admin",
        || {
            doc! { "validateDBMetadata": 1i32, "db": "d",
            "apiParameters": { "version": "1" } }
        },
        "aoAX",
    ),
    ("d", || doc! { "profile": -1i32 }, "aoMCABX"),
    ("d", || doc! { "profile": 0i32 }, "aoAX"),
    ("d", || doc! { "planCacheClear": "c" }, "aoAX"),
    ("d", || doc! { "planCacheListFilters": "c" }, "aoAX"),
    (
        "d",
        || doc! { "planCacheSetFilter": "c", "query": {}, "indexes": ["a"] },
        "aoAX",
    ),
    ("d", || doc! { "planCacheClearFilters": "c" }, "aoAX"),
    ("admin", || doc! { "top": 1i32 }, "MCX"),
    ("admin", || doc! { "serverStatus": 1i32 }, "MCBX"),
    ("admin", || doc! { "getDiagnosticData": 1i32 }, "MCX"),
    ("admin", || doc! { "getLog": "global" }, "MCX"),
    ("admin", || doc! { "getCmdLineOpts": 1i32 }, "MCX"),
    ("admin", || doc! { "hostInfo": 1i32 }, "MCX"),
    ("admin", || doc! { "connPoolStats": 1i32 }, "MCX"),
    ("admin", || doc! { "lockInfo": 1i32 }, "MCBX"),
    (
        "admin",
        || doc! { "getParameter": 1i32, "quiet": 1i32 },
        "MCBSX",
    ),
    (
        "admin",
        || doc! { "setParameter": 1i32, "quiet": false },
        "HCX",
    ),
    (
        "admin",
        || doc! { "configureFailPoint": "no", "mode": "off" },
        "HCX",
    ),
    ("admin", || doc! { "logRotate": 1i32 }, "HCX"),
    ("admin", || doc! { "getAuditConfig": 1i32 }, "HCX"),
    ("admin", || doc! { "setAuditConfig": 1i32 }, "HCX"),
    ("admin", || doc! { "logApplicationMessage": "m" }, "GHCX"),
    ("admin", || doc! { "fsync": 1i32 }, "HCX"),
    ("admin", || doc! { "fsyncUnlock": 1i32 }, "HCX"),
    ("admin", || doc! { "rotateCertificates": 1i32 }, "HCX"),
    ("admin", || doc! { "rotateEncryptionKey": 1i32 }, "HCX"),
    ("admin", || doc! { "autoCompact": false }, ""),
    ("admin", || doc! { "killOp": 1i32, "op": 12345i32 }, "HCX"),
    ("admin", || doc! { "currentOp": 1i32 }, "MCX"),
    (
        "d",
        || doc! { "killAllSessionsByPattern": [{ "uid": bytes(&[1; 32]) }] },
        "HCX",
    ),
    (
        "d",
        || doc! { "killAllSessions": [{ "user": "other", "db": "d" }] },
        "HCX",
    ),
    ("d", || doc! { "killSessions": [] }, ALL),
    ("d", || doc! { "startSession": 1i32 }, ALL),
    ("d", || doc! { "endSessions": [] }, ALL),
    ("d", || doc! { "refreshSessions": [] }, ALL),
    ("d", || doc! { "getMore": 1i64, "collection": "c" }, ALL),
    ("d", || doc! { "killCursors": "c", "cursors": [1i64] }, ALL),
    ("admin", || doc! { "commitTransaction": 1i32 }, ALL),
    ("admin", || doc! { "abortTransaction": 1i32 }, ALL),
    ("admin", || doc! { "replSetGetStatus": 1i32 }, "MGCX"),
    ("admin", || doc! { "replSetGetConfig": 1i32 }, "MGCX"),
    ("admin", || doc! { "replSetGetRBID": 1i32 }, "MGCX"),
    ("admin", || doc! { "replSetInitiate": {} }, "GCX"),
    ("admin", || doc! { "quarryPair": 1i32 }, "GCX"),
    ("admin", || doc! { "replSetReconfig": {} }, "GCX"),
    ("admin", || doc! { "replSetStepDown": 60i32 }, "GCX"),
    ("admin", || doc! { "replSetStepUp": 1i32 }, "GCX"),
    ("admin", || doc! { "replSetFreeze": 1i32 }, "GCX"),
    ("admin", || doc! { "replSetMaintenance": true }, "GCX"),
    ("admin", || doc! { "replSetSyncFrom": "h:1" }, "GCX"),
    (
        "admin",
        || doc! { "replSetAbortPrimaryCatchUp": 1i32 },
        "GCX",
    ),
    ("admin", || doc! { "shutdown": 1i32 }, "HCX"),
    ("d", || doc! { "refreshLogicalSessionCacheNow": 1i32 }, ALL),
    (
        "d",
        || doc! { "setIndexCommitQuorum": "c", "indexNames": ["i"], "commitQuorum": 1i32 },
        "waoWASX",
    ),
    (
        "d",
        || doc! { "createSearchIndexes": "c", "indexes": [] },
        "waoWASX",
    ),
    (
        "d",
        || doc! { "dropSearchIndex": "c", "name": "i" },
        "waoWAX",
    ),
    ("d", || doc! { "listSearchIndexes": "c" }, "rwaoRWABX"),
    (
        "d",
        || doc! { "updateSearchIndex": "c", "name": "i", "definition": {} },
        "waoWASX",
    ),
    ("admin", || doc! { "getDefaultRWConcern": 1i32 }, "MGCX"),
    ("admin", || doc! { "setDefaultRWConcern": 1i32 }, "GCX"),
    ("admin", || doc! { "getClusterParameter": "*" }, "GCX"),
    (
        "admin",
        || doc! { "setClusterParameter": { "no": 1i32 } },
        "GCX",
    ),
    (
        "admin",
        || doc! { "setUserWriteBlockMode": 1i32, "global": false },
        "BSX",
    ),
    (
        "admin",
        || {
            doc! { "setQuerySettings": { "find": "c", "$db": "d" },
            "settings": { "reject": false } }
        },
        "GCX",
    ),
    (
        "admin",
        || doc! { "removeQuerySettings": { "find": "c", "$db": "d" } },
        "GCX",
    ),
    (
        "admin",
        || doc! { "setFeatureCompatibilityVersion": "1" },
        "GCX",
    ),
    ("admin", || doc! { "invalidateUserCache": 1i32 }, "HCUX"),
    ("d", || doc! { "usersInfo": 1i32 }, "uoUSX"),
    ("d", || doc! { "rolesInfo": 1i32 }, "uoUSX"),
    (
        "d",
        || doc! { "createUser": "z", "pwd": "", "roles": ["read"] },
        "uoUSX",
    ),
    (
        "d",
        || doc! { "updateUser": "z", "customData": {} },
        "uoUSX",
    ),
    ("d", || doc! { "dropUser": "z" }, "uoUSX"),
    (
        "d",
        || doc! { "grantRolesToUser": "z", "roles": ["read"] },
        "uoUSX",
    ),
    (
        "d",
        || doc! { "revokeRolesFromUser": "z", "roles": ["read"] },
        "uoUSX",
    ),
    (
        "d",
        || doc! { "createRole": "z", "roles": [], "privileges": [] },
        "uoUSX",
    ),
    (
        "d",
        || doc! { "updateRole": "z", "authenticationRestrictions": [] },
        "uoUSX",
    ),
    ("d", || doc! { "updateRole": "z", "roles": [] }, "USX"),
    (
        "d",
        || {
            doc! { "grantPrivilegesToRole": "z", "privileges": [ { "resource": { "db": "d",
            "collection": "" }, "actions": ["find"] } ] }
        },
        "uoUSX",
    ),
    (
        "d",
        || {
            doc! { "revokePrivilegesFromRole": "z", "privileges": [ { "resource": { "db": "d",
            "collection": "" }, "actions": ["find"] } ] }
        },
        "uoUSX",
    ),
    (
        "d",
        || doc! { "grantRolesToRole": "z", "roles": ["read"] },
        "uoUSX",
    ),
    (
        "d",
        || doc! { "revokeRolesFromRole": "z", "roles": ["read"] },
        "uoUSX",
    ),
    ("d", || doc! { "dropRole": "z" }, "uoUSX"),
    ("d", || doc! { "dropAllRolesFromDatabase": 1i32 }, "uoUSX"),
    ("d", || doc! { "dropAllUsersFromDatabase": 1i32 }, "uoUSX"),
    (
        "admin",
        || {
            doc! { "_mergeAuthzCollections": 1i32, "db": "",
            "tempUsersCollection": "admin.tempusers" }
        },
        "SX",
    ),
    (
        "admin",
        || doc! { "appendOplogNote": 1i32, "data": {} },
        "GCBX",
    ),
    (
        "admin",
        || doc! { "replSetResizeOplog": 1i32, "size": 990i32 },
        "HCX",
    ),
    (
        "admin",
        || doc! { "dropConnections": 1i32, "hostAndPort": [] },
        "HCX",
    ),
    ("admin", || doc! { "applyOps": [] }, "ASX"),
    (
        "admin",
        || doc! { "applyOps": [{ "op": "i", "ns": "d.c", "o": { "_id": 1i32 } }] },
        "SX",
    ),
    (
        "admin",
        || doc! { "applyOps": [{ "op": "c", "ns": "d.$cmd", "o": { "create": "w" } }] },
        "ASX",
    ),
    (
        "admin",
        || {
            doc! { "applyOps": [{ "op": "i", "ns": "admin.system.roles",
            "o": { "_id": "d.x" } }] }
        },
        "",
    ),
    ("d", || doc! { "hello": 1i32 }, ALL),
    ("d", || doc! { "isMaster": 1i32 }, ALL),
    ("d", || doc! { "ping": 1i32 }, ALL),
    ("d", || doc! { "buildInfo": 1i32 }, ALL),
    ("d", || doc! { "whatsmyuri": 1i32 }, ALL),
    ("d", || doc! { "connectionStatus": 1i32 }, ALL),
    ("d", || doc! { "listCommands": 1i32 }, ALL),
    (
        "d",
        || doc! { "saslStart": 1i32, "mechanism": "no", "payload": "" },
        ALL,
    ),
    (
        "d",
        || doc! { "saslContinue": 1i32, "conversationId": 1i32, "payload": "" },
        ALL,
    ),
    ("d", || doc! { "authenticate": 1i32 }, ALL),
    ("d", || doc! { "logout": 1i32 }, ALL),
];

fn bytes(bytes: &[u8]) -> model::Value<'_> {
    model::Value::Binary(model::Binary { subtype: 0, bytes })
}

#[test]
fn every_command_is_in_the_matrix() {
    let made: Vec<DocBuf> = MATRIX.iter().map(|(_, command, _)| command()).collect();
    let tried: BTreeSet<&str> = made
        .iter()
        .filter_map(|d| Some(d.doc().first()?.0))
        .collect();
    for command in registry::all() {
        assert!(
            tried.contains(command.spec.name),
            "{} is not tried",
            command.spec.name
        );
    }
}

#[test]
fn built_in_roles_allow_what_the_manual_says() {
    let (s, mut root) = with_root();
    let mut wrong = Vec::new();
    for (letter, role, db) in ROLES {
        let mut c = s.connect("10.0.0.1:5");
        // The users of the test must not be dropped by a command of the matrix.
        let name = format!("the_{role}");
        let create = doc! { "createUser": name.as_str(), "pwd": "pw",
        "roles": [{ "role": *role, "db": *db }] };
        assert_eq!(run(&s, &mut root, "admin", create), 0);
        assert_eq!(log_in(&s, &mut c, (&name, "admin"), "pw"), 0);
        for (db, command, who) in MATRIX {
            let command = command();
            let code = run(&s, &mut c, db, command.clone());
            let (may, should) = (code != 13, who.contains(*letter));
            if may != should {
                let word = if may { "may" } else { "may not" };
                wrong.push(format!("{role} {word} run {command:?}"));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differences:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
