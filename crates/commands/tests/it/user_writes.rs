//! `setUserWriteBlockMode`: which writes it blocks, which users may write in spite of it, and that
//! a restart does not lift the block.

use crate::access::{log_in, run as run_code, user, with_root};
use crate::behaviour::{logging_store, send, serve};
use crate::interrupts::json;
use commands::{Config, Connection, Dispatcher, ttl};
use model::{DocBuf, doc};
use std::sync::Arc;

pub(crate) struct Client {
    service: Arc<Dispatcher>,
    conn: Connection,
}

impl Client {
    pub(crate) fn connect_to(store: Arc<store::Store>) -> Client {
        let service = serve(Config::default(), store);
        let conn = service.connect("127.0.0.1:50000");
        Client { service, conn }
    }

    /// The reply to a command on the database `d`, or on the database that the command names.
    pub(crate) fn run(&mut self, command: &str) -> DocBuf {
        let command = json(&command.replace('\'', "\""));
        send(&self.service, &mut self.conn, "d", command.doc())
    }

    /// The code of the command or of its first failed write; 0 for success.
    pub(crate) fn code(&mut self, command: &str) -> i64 {
        let reply = self.run(command);
        let code = |d: model::Doc<'_>| d.field("code").as_i64_exact();
        let first = reply.doc().field("writeErrors").as_array();
        let failed = first.and_then(|a| code(a.iter().next()?.as_doc()?));
        let batch = reply.doc().field("cursor").as_doc();
        let batch = batch.and_then(|c| c.field("firstBatch").as_array());
        let of_bulk = batch.and_then(|a| code(a.iter().next()?.as_doc()?));
        code(reply.doc()).or(failed).or(of_bulk).unwrap_or(0)
    }

    fn block(&mut self, yes: bool) {
        let command = format!("{{'setUserWriteBlockMode': 1, 'global': {yes}, '$db': 'admin'}}");
        assert_eq!(self.code(&command), 0);
    }
}

/// A server with some data of every kind.
pub(crate) fn start_filled() -> Client {
    let mut c = Client::connect_to(logging_store());
    for command in [
        "{'insert': 'c', 'documents': [{'_id': 1, 'a': 1}, {'_id': 2, 'a': 2}]}",
        "{'createIndexes': 'c', 'indexes': [{'key': {'a': 1}, 'name': 'a'}]}",
        "{'create': 'other'}",
    ] {
        assert_eq!(c.code(command), 0, "{command}");
    }
    c
}

pub(crate) const WRITES: &[&str] = &[
    "{'insert': 'c', 'documents': [{'_id': 3}]}",
    "{'insert': 'c', 'documents': [{'_id': 3}], 'ordered': false}",
    "{'insert': 'fresh', 'documents': [{'_id': 3}]}",
    "{'update': 'c', 'updates': [{'q': {'a': 1}, 'u': {'$set': {'b': 1}}}]}",
    "{'update': 'c', 'updates': [{'q': {'a': 9}, 'u': {'$set': {'b': 1}}, 'upsert': true}]}",
    "{'delete': 'c', 'deletes': [{'q': {'a': 1}, 'limit': 1}]}",
    "{'findAndModify': 'c', 'query': {'a': 1}, 'update': {'$set': {'b': 1}}}",
    "{'findAndModify': 'c', 'query': {'a': 1}, 'remove': true}",
    "{'bulkWrite': 1, 'ops': [{'insert': 0, 'document': {'_id': 5}}], \
        'nsInfo': [{'ns': 'd.c'}], '$db': 'admin'}",
    "{'aggregate': 'c', 'pipeline': [{'$merge': 'other'}], 'cursor': {}}",
    "{'aggregate': 'c', 'pipeline': [{'$out': 'other'}], 'cursor': {}}",
    "{'create': 'fresh'}",
    "{'create': 'view', 'viewOn': 'c', 'pipeline': []}",
    "{'createIndexes': 'c', 'indexes': [{'key': {'b': 1}, 'name': 'b'}]}",
    "{'dropIndexes': 'c', 'index': 'a'}",
    "{'collMod': 'c', 'index': {'name': 'a', 'hidden': true}}",
    "{'collMod': 'c', 'validator': {'a': 1}}",
    "{'renameCollection': 'd.c', 'to': 'd.e', '$db': 'admin'}",
    "{'drop': 'c'}",
    "{'dropDatabase': 1}",
    "{'convertToCapped': 'c', 'size': 100000}",
    "{'cloneCollectionAsCapped': 'c', 'toCollection': 'e', 'size': 100000}",
    "{'applyOps': [{'op': 'i', 'ns': 'd.c', 'o': {'_id': 7}}], '$db': 'admin'}",
];

const NO_WRITES: &[&str] = &[
    "{'find': 'c'}",
    "{'aggregate': 'c', 'pipeline': [{'$group': {'_id': '$a'}}], 'cursor': {}}",
    "{'update': 'c', 'updates': [{'q': {'a': 77}, 'u': {'$set': {'b': 1}}}]}",
    "{'update': 'c', 'updates': [{'q': {'a': 1}, 'u': {'$set': {'a': 1}}}]}",
    "{'delete': 'c', 'deletes': [{'q': {'a': 77}, 'limit': 0}]}",
    "{'createIndexes': 'c', 'indexes': [{'key': {'a': 1}, 'name': 'a'}]}",
    "{'drop': 'never'}",
    "{'insert': 'c', 'documents': [{'_id': 3}], '$db': 'config'}",
    "{'insert': 'c', 'documents': [{'_id': 4}], 'mayBypassWriteBlocking': true}",
];

#[test]
fn user_writes_are_blocked_until_they_are_let_pass() {
    let mut c = start_filled();
    let state = |c: &mut Client| c.run("{'dbHash': 1}").doc().field("md5").to_owned_value();
    c.block(true);
    let before = state(&mut c);
    for command in WRITES {
        assert_eq!(c.code(command), 371, "{command}");
    }
    assert_eq!(state(&mut c), before);
    for command in NO_WRITES {
        assert_eq!(c.code(command), 0, "{command}");
    }
    c.block(false);
    assert_eq!(c.code(WRITES[0]), 0);
}

#[test]
fn an_unordered_insert_names_every_document() {
    let mut c = start_filled();
    c.block(true);
    let many = |ordered: bool| {
        format!("{{'insert': 'c', 'documents': [{{}}, {{}}], 'ordered': {ordered}}}")
    };
    for (ordered, wanted) in [(true, 1), (false, 2)] {
        let reply = c.run(&many(ordered));
        let errors = reply.doc().field("writeErrors").as_array().expect("errors");
        assert_eq!(errors.iter().count(), wanted);
    }
}

#[test]
fn it_survives_a_restart() {
    let store = logging_store();
    let mut c = Client::connect_to(Arc::clone(&store));
    let with = "{'setUserWriteBlockMode': 1, 'global': true, \
        'reason': 'DiskUseThresholdExceeded', '$db': 'admin'}";
    assert_eq!(c.code(with), 0);
    drop(c);
    let mut c = Client::connect_to(Arc::clone(&store));
    assert_eq!(c.code(WRITES[0]), 371);
    // Writes that are blocked for one reason cannot be blocked for another.
    let other = "{'setUserWriteBlockMode': 1, 'global': true, '$db': 'admin'}";
    assert_eq!((c.code(other), c.code(with)), (20, 0));
    // The block cannot be lifted for another reason either.
    let ends = with.replace("true", "false");
    assert_eq!(c.code(&other.replace("true", "false")), 20);
    assert_eq!((c.code(WRITES[0]), c.code(&ends)), (371, 0));
    drop(c);
    assert_eq!(Client::connect_to(store).code(WRITES[0]), 0);
}

#[test]
fn a_transaction_does_not_commit_past_it() {
    let mut c = start_filled();
    let lsid = "'lsid': {'id': {'$binary': {'base64': 'AAAAAAAAAAAAAAAAAAAAAA==', \
        'subType': '04'}}}, 'txnNumber': {'$numberLong': '1'}, 'autocommit': false";
    let insert = format!(
        "{{'insert': 'c', 'documents': [{{'_id': 3}}], {lsid}, \
        'startTransaction': true}}"
    );
    assert_eq!(c.code(&insert), 0);
    c.block(true);
    let commit = format!("{{'commitTransaction': 1, {lsid}, '$db': 'admin'}}");
    assert_eq!(c.code(&commit), 371);
    c.block(false);
    assert_eq!((c.code(&commit), c.code(&commit)), (0, 0));
}

#[test]
fn documents_do_not_expire_meanwhile() {
    let mut c = start_filled();
    let setup = [
        "{'createIndexes': 't', 'indexes': [{'key': {'at': 1}, 'name': 'at', \
        'expireAfterSeconds': 1}]}",
        "{'insert': 't', 'documents': [{'at': {'$date': 0}}]}",
    ];
    assert_eq!(setup.map(|s| c.code(s)), [0, 0]);
    let left = |c: &mut Client| {
        ttl::Monitor::default().pass(c.service.service(), &|| true);
        c.run("{'count': 't'}").doc().field("n").as_i64_exact()
    };
    c.block(true);
    assert_eq!(left(&mut c), Some(1));
    c.block(false);
    assert_eq!(left(&mut c), Some(0));
}

#[test]
fn users_with_the_right_pass() {
    let (s, mut root) = with_root();
    let mut writer = user(&s, &mut root, "w", doc! { "r": ["readWriteAnyDatabase"] });
    let mut restorer = user(
        &s,
        &mut root,
        "r",
        doc! { "r": ["restore", "readWriteAnyDatabase"] },
    );
    let insert = || doc! { "insert": "c", "documents": [{}] };
    let block = doc! { "setUserWriteBlockMode": 1i32, "global": true };
    assert_eq!(run_code(&s, &mut writer, "admin", block.clone()), 13);
    assert_eq!(run_code(&s, &mut root, "admin", block), 0);
    let failed = |c: &mut Connection, command: DocBuf| {
        let reply = send(&s, c, "d", command.doc());
        reply.doc().contains("writeErrors") || reply.doc().contains("code")
    };
    assert!(failed(&mut writer, insert()));
    assert!(!failed(&mut restorer, insert()));
    let mut claims = insert();
    claims.put("mayBypassWriteBlocking", true);
    assert_eq!(run_code(&s, &mut writer, "d", claims), 6_317_500);
    // Users are stored in `admin`, which is not blocked.
    let mut again = s.connect("127.0.0.1:50001");
    assert_eq!(log_in(&s, &mut again, ("w", "admin"), "pw"), 0);
}

#[test]
fn arguments() {
    let mut c = start_filled();
    for (rest, code) in [
        ("", 40414),
        (", 'global': null", 40414),
        (", 'global': 1", 14),
        (", 'global': 'true'", 14),
        (", 'global': false, 'reason': null", 0),
        (", 'global': false, 'reason': 'DiskUseThresholdExceeded'", 0),
        (", 'global': false, 'reason': ''", 2),
        (", 'global': false, 'reason': 'unspecified'", 2),
        (", 'global': false, 'reason': 1", 14),
        (", 'global': false, 'other': 1", 40415),
    ] {
        let command = format!("{{'setUserWriteBlockMode': 1{rest}, '$db': 'admin'}}");
        assert_eq!(c.code(&command), code, "{command}");
    }
    let elsewhere = "{'setUserWriteBlockMode': 1, 'global': false}";
    assert_eq!(c.code(elsewhere), 13);
    let config = Config {
        replica_set: None,
        ..Config::default()
    };
    let service = serve(config, logging_store());
    let mut conn = service.connect("127.0.0.1:50000");
    let block = doc! { "setUserWriteBlockMode": 1i32, "global": true };
    assert_eq!(run_code(&service, &mut conn, "admin", block), 20);
}
