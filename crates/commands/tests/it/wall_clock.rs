//! The wall clock of the machine is set ahead or back. Promises: what is open does not end by it,
//! and does not outlive its limit by it.

use crate::transactions::{Client, FIND, Server, code, pairs};
use commands::workers::run_shared_once;
use model::{DocBuf, Value};

const DAY_MS: i64 = 86_400_000;

fn open_cursor(client: &mut Client) -> i64 {
    let reply = client.run(r#"{"find": "c", "batchSize": 2}"#);
    let cursor = reply.doc().field("cursor");
    let id = cursor.as_doc().map(|c| c.field("id").as_i64_exact());
    id.flatten().expect("a cursor")
}

fn get_more(client: &mut Client, id: i64) -> DocBuf {
    let id = format!(r#"{{"$numberLong": "{id}"}}"#);
    client.run(&format!(
        r#"{{"getMore": {id}, "collection": "c", "batchSize": 2}}"#
    ))
}

/// A retryable write, sent by a driver for the first or the second time.
const INCREMENT: &str = r#"{"update": "c", "updates": [{"q": {"_id": 0}, "u": {"$inc": {"a": 1}}}],
    "lsid": {"id": {"$binary": {"base64": "CQkJCQkJCQkJCQkJCQkJCQ==", "subType": "04"}}},
    "txnNumber": {"$numberLong": "1"}}"#;

fn snapshot_time(reply: &DocBuf) -> String {
    let cursor = reply.doc().field("cursor");
    let at = cursor.as_doc().map(|c| c.field("atClusterTime"));
    let Some(Value::Timestamp(at)) = at else {
        panic!("no time in {reply:?}");
    };
    let (t, i) = (at.time, at.increment);
    format!(r#", "atClusterTime": {{"$timestamp": {{"t": {t}, "i": {i}}}}}"#)
}

fn read_snapshot(client: &mut Client, at: &str) -> DocBuf {
    client.run(&format!(
        r#"{{"find": "c", "readConcern": {{"level": "snapshot"{at}}}}}"#
    ))
}

#[test]
fn a_wall_clock_that_is_set_ahead_ends_nothing() {
    let s = Server::with_documents(9);
    let (mut t, mut other) = (s.client(1), s.client(2));
    assert_eq!(code(&t.begin().set(1, 5)), 0);
    let cursor = open_cursor(&mut other);
    assert_eq!(code(&other.run(INCREMENT)), 0);
    let first = read_snapshot(&mut other, "");
    let at = snapshot_time(&first);
    s.set_wall_ahead_ms(DAY_MS);
    run_shared_once(s.dispatcher().service());
    assert_eq!(code(&t.commit()), 0);
    assert_eq!(pairs(&get_more(&mut other, cursor)), [(2, 2), (3, 3)]);
    let retried = other.run(INCREMENT);
    assert!(retried.doc().contains("retriedStmtIds"), "{retried:?}");
    assert_eq!(pairs(&other.run(FIND))[..2], [(0, 1), (1, 5)]);
    assert_eq!(pairs(&read_snapshot(&mut other, &at)), pairs(&first));
}

#[test]
fn a_wall_clock_that_is_set_back_keeps_nothing_open() {
    let s = Server::with_documents(9);
    let (mut t, mut other) = (s.client(1), s.client(2));
    assert_eq!(code(&t.begin().set(1, 5)), 0);
    let cursor = open_cursor(&mut other);
    let at = snapshot_time(&read_snapshot(&mut other, ""));
    s.set_wall_ahead_ms(-DAY_MS);
    s.advance_ms(61_000);
    run_shared_once(s.dispatcher().service());
    assert_eq!(code(&t.commit()), 251, "its minute is over");
    s.advance_ms(240_000);
    run_shared_once(s.dispatcher().service());
    assert_eq!(code(&read_snapshot(&mut other, &at)), 239);
    s.advance_ms(300_000);
    run_shared_once(s.dispatcher().service());
    assert_eq!(code(&get_more(&mut other, cursor)), 43);
    let sessions = &s.dispatcher().service().state.sessions;
    assert_eq!(sessions.len(), 1);
    s.advance_ms(30 * 60_000);
    run_shared_once(s.dispatcher().service());
    assert_eq!(sessions.len(), 0);
}
