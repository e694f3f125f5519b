//! `fsync` with `lock: true`: which operations wait, how the waits end, and where the lock is
//! reported.

use crate::behaviour::{send, serve, store};
use commands::{Config, Connection, Dispatcher};
use model::{DocBuf, extjson};
use std::sync::Arc;

fn ask(s: &Dispatcher, c: &mut Connection, db: &str, command: &str) -> DocBuf {
    let command = extjson::parse_document(&command.replace('\'', "\""));
    send(s, c, db, command.expect("a command").doc())
}

fn code(d: &DocBuf) -> i64 {
    d.doc().field("code").as_i64_exact().unwrap_or(0)
}

fn server() -> (Arc<Dispatcher>, Connection) {
    let s = serve(Config::default(), store());
    let mut c = s.connect("127.0.0.1:9");
    let insert = "{'insert': 'c', 'documents': [{'_id': 1, 'a': 1}]}";
    assert_eq!(code(&ask(&s, &mut c, "d", insert)), 0);
    (s, c)
}

/// Writes, including those that begin as reads.
const WRITES: &[&str] = &[
    "{'insert': 'c', 'documents': [{}], 'maxTimeMS': 50}",
    "{'update': 'c', 'updates': [{'q': {}, 'u': {'$set': {'a': 2}}}], 'maxTimeMS': 50}",
    "{'delete': 'c', 'deletes': [{'q': {}, 'limit': 0}], 'maxTimeMS': 50}",
    "{'findAndModify': 'c', 'update': {'$set': {'a': 2}}, 'maxTimeMS': 50}",
    "{'create': 'new', 'maxTimeMS': 50}",
    "{'drop': 'c', 'maxTimeMS': 50}",
    "{'aggregate': 'c', 'pipeline': [{'$out': 'new'}], 'cursor': {}, 'maxTimeMS': 50}",
    "{'aggregate': 'c', 'pipeline': [{'$merge': 'new'}], 'cursor': {}, 'maxTimeMS': 50}",
    "{'mapReduce': 'c', 'map': 'function() {}', 'reduce': 'function() {}', 'out': 'new', \
        'maxTimeMS': 50}",
];

#[test]
fn a_write_that_waits_for_the_lock_ends_by_its_time() {
    let (s, mut c) = server();
    let lock = ask(&s, &mut c, "admin", "{'fsync': 1, 'lock': true}");
    assert_eq!(code(&lock), 0);
    for write in WRITES {
        let reply = ask(&s, &mut c, "d", write);
        assert_eq!(code(&reply), 50, "{write}: {reply:?}");
    }
    let find = ask(&s, &mut c, "d", "{'find': 'c', 'maxTimeMS': 5000}");
    assert_eq!(code(&find), 0, "reads go on");
    let unlock = ask(&s, &mut c, "admin", "{'fsyncUnlock': 1}");
    assert_eq!(code(&unlock), 0);
    let there = ask(
        &s,
        &mut c,
        "d",
        "{'listCollections': 1, 'filter': {'name': 'new'}}",
    );
    assert!(!format!("{there:?}").contains("\"new\""), "{there:?}");
    let insert = "{'insert': 'c', 'documents': [{'_id': 2}], 'maxTimeMS': 5000}";
    assert_eq!(code(&ask(&s, &mut c, "d", insert)), 0);
}

#[test]
fn current_op_reports_a_held_fsync_lock() {
    let (s, mut c) = server();
    let told = |c: &mut Connection| {
        let reply = ask(&s, c, "admin", "{'currentOp': 1}");
        reply.doc().field("fsyncLock").as_bool()
    };
    assert_eq!(told(&mut c), None);
    for _ in 0..2 {
        ask(&s, &mut c, "admin", "{'fsync': 1, 'lock': true}");
    }
    assert_eq!(told(&mut c), Some(true));
    ask(&s, &mut c, "admin", "{'fsyncUnlock': 1}");
    assert_eq!(told(&mut c), Some(true), "it is locked twice");
    ask(&s, &mut c, "admin", "{'fsyncUnlock': 1}");
    assert_eq!(told(&mut c), None);
}

/// Commands that would scan a collection for a filter.
const SCANS: &[&str] = &[
    "{'find': 'c', 'filter': {'a': 1}}",
    "{'find': 'c', 'filter': {'_id': 1}, 'hint': {'$natural': 1}}",
    "{'find': 'c', 'filter': {'$or': [{'_id': 1}, {'a': 1}]}}",
    "{'count': 'c', 'query': {'a': 1}}",
    "{'distinct': 'c', 'key': 'a', 'query': {'a': 1}}",
    "{'aggregate': 'c', 'pipeline': [{'$match': {'a': 1}}], 'cursor': {}}",
    "{'explain': {'find': 'c', 'filter': {'a': 1}}}",
    "{'findAndModify': 'c', 'query': {'a': 1}, 'remove': true}",
];

#[test]
fn without_table_scans_a_filter_needs_an_index() {
    let (s, mut c) = server();
    let set = |c: &mut Connection, on: bool| {
        let set = format!("{{'setParameter': 1, 'notablescan': {on}}}");
        assert_eq!(code(&ask(&s, c, "admin", &set)), 0);
    };
    let index = "{'createIndexes': 'c', 'indexes': [{'key': {'b': 1}, 'name': 'b'}]}";
    assert_eq!(code(&ask(&s, &mut c, "d", index)), 0);
    set(&mut c, true);
    for scan in SCANS {
        let reply = ask(&s, &mut c, "d", scan);
        assert_eq!(code(&reply), 291, "{scan}: {reply:?}");
    }
    for write in [
        "{'update': 'c', 'updates': [{'q': {'a': 1}, 'u': {'$set': {'z': 1}}}]}",
        "{'delete': 'c', 'deletes': [{'q': {'a': 1}, 'limit': 0}]}",
    ] {
        let reply = ask(&s, &mut c, "d", write);
        let errors = reply.doc().field("writeErrors").as_array();
        let first = errors.and_then(|e| e.get(0)?.as_doc());
        let number = first.and_then(|e| e.field("code").as_i64_exact());
        assert_eq!(number, Some(291), "{write}: {reply:?}");
    }
    for fine in [
        "{'find': 'c', 'filter': {'_id': 1}}",
        "{'find': 'c', 'filter': {'b': 1}}",
        "{'find': 'c', 'filter': {'$or': [{'_id': 1}, {'b': 1}]}}",
        "{'find': 'c'}",
        "{'find': 'c', 'filter': {}}",
        "{'count': 'c'}",
        "{'aggregate': 'c', 'pipeline': [{'$group': {'_id': '$a'}}], 'cursor': {}}",
        "{'find': 'absent', 'filter': {'a': 1}}",
    ] {
        let reply = ask(&s, &mut c, "d", fine);
        assert_eq!(code(&reply), 0, "{fine}: {reply:?}");
    }
    let of_the_server = "{'find': 'system.version', 'filter': {'a': 1}}";
    assert_eq!(code(&ask(&s, &mut c, "admin", of_the_server)), 0);
    set(&mut c, false);
    for scan in SCANS.iter().take(SCANS.len() - 1) {
        assert_eq!(code(&ask(&s, &mut c, "d", scan)), 0, "{scan}");
    }
}
