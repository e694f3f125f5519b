//! Read concern `snapshot`: all batches of a cursor read one state, which can be read again by its
//! cluster time.

use crate::behaviour::send;
use crate::interrupts::{code, fill, json};
use crate::protocol::service;
use commands::{Connection, Dispatcher};
use model::{DocBuf, Timestamp, Value};

struct Client<'s> {
    service: &'s Dispatcher,
    conn: Connection,
}

impl Client<'_> {
    fn run(&mut self, command: &str) -> DocBuf {
        send(self.service, &mut self.conn, "db", json(command).doc())
    }

    /// The `_id` values of all batches, and the cluster time of the first; `between` runs after the
    /// first batch.
    fn read_all(&mut self, command: &str, between: &[&str]) -> (Vec<i64>, Option<Timestamp>) {
        let mut reply = self.run(command);
        assert_eq!(code(&reply), 0, "{reply:?}");
        let (mut ids, mut at, mut batch) = (Vec::new(), None, "firstBatch");
        for command in between {
            let other = self.run(command);
            assert_eq!(code(&other), 0, "{other:?}");
        }
        loop {
            let cursor = reply.doc().field("cursor").as_doc().expect("a cursor");
            if let Value::Timestamp(t) = cursor.field("atClusterTime") {
                at = at.or(Some(t));
            }
            let found = cursor.field(batch).as_array().expect("a batch");
            ids.extend(
                found
                    .iter()
                    .filter_map(|d| d.as_doc()?.field("_id").as_i64_exact()),
            );
            let id = cursor.field("id").as_i64_exact().unwrap_or(0);
            if id == 0 {
                return (ids, at);
            }
            batch = "nextBatch";
            // Drivers send the session's read concern with every command.
            let concern = at.map_or_else(String::new, |at| {
                format!(
                    r#", "readConcern": {{"level": "snapshot", "atClusterTime":
                        {{"$timestamp": {{"t": {}, "i": {}}}}}}}"#,
                    at.time, at.increment
                )
            });
            let more = format!(
                r#"{{"getMore": {{"$numberLong": "{id}"}}, "collection": "c", "batchSize": 7
                    {concern}}}"#
            );
            reply = self.run(&more);
            assert_eq!(code(&reply), 0, "{reply:?}");
        }
    }
}

const CHANGES: &[&str] = &[
    r#"{"delete": "c", "deletes": [{"q": {"_id": {"$gte": 15}}, "limit": 0}]}"#,
    r#"{"insert": "c", "documents": [{"_id": 100, "a": 3}, {"_id": -5, "a": 3}]}"#,
    r#"{"update": "c", "updates": [{"q": {"_id": 3}, "u": {"$set": {"a": -1, "b": 1000}}}]}"#,
];

#[test]
fn a_cursor_reads_one_state_and_its_time_names_it() {
    let s = service();
    fill(&s, 40);
    let mut c = Client {
        service: &s,
        conn: s.connect("127.0.0.1:1"),
    };
    assert_eq!(
        code(&c.run(
            r#"{"createIndexes": "c", "indexes": [{"key": {"b": 1}, "name": "b"},
        {"key": {"t.l": 1}, "name": "t"}]}"#
        )),
        0
    );
    let reads = [
        r#"{"find": "c", "filter": {}, "batchSize": 3, "readConcern": {"level": "snapshot"AT}}"#,
        r#"{"find": "c", "filter": {"b": {"$lte": 0}}, "sort": {"b": -1}, "batchSize": 3,
            "readConcern": {"level": "snapshot"AT}}"#,
        r#"{"find": "c", "filter": {"t.l": {"$gte": 1}}, "batchSize": 3,
            "readConcern": {"level": "snapshot"AT}}"#,
        r#"{"aggregate": "c", "pipeline": [{"$match": {"a": {"$gte": 0}}}],
            "cursor": {"batchSize": 3}, "readConcern": {"level": "snapshot"AT}}"#,
    ];
    for read in reads {
        c.run(r#"{"delete": "c", "deletes": [{"q": {}, "limit": 0}]}"#);
        fill(&s, 40);
        let (mut seen, at) = c.read_all(&read.replace("AT", ""), CHANGES);
        seen.sort_unstable();
        assert_eq!(seen, (0..40).collect::<Vec<_>>(), "{read}");
        // The same state again by its time, and the current state without one.
        let at = at.expect("the time of the state");
        let again = format!(
            r#", "atClusterTime": {{"$timestamp": {{"t": {}, "i": {}}}}}"#,
            at.time, at.increment
        );
        let (mut seen, said) = c.read_all(&read.replace("AT", &again), &[]);
        seen.sort_unstable();
        assert_eq!(
            (seen, said),
            ((0..40).collect::<Vec<_>>(), Some(at)),
            "{read}"
        );
        let (now, _) = c.read_all(&read.replace("AT", ""), &[]);
        assert!(now.len() < 20, "{read}: {now:?}");
    }
}

#[test]
fn distinct_reads_the_state_too_and_indexes_made_later_are_not_used() {
    let s = service();
    fill(&s, 10);
    let mut c = Client {
        service: &s,
        conn: s.connect("127.0.0.1:1"),
    };
    let first = c.run(r#"{"distinct": "c", "key": "a", "readConcern": {"level": "snapshot"}}"#);
    let Value::Timestamp(at) = first.doc().field("atClusterTime") else {
        panic!("{first:?}")
    };
    c.run(r#"{"update": "c", "updates": [{"q": {}, "u": {"$set": {"a": 50}}, "multi": true}]}"#);
    assert_eq!(
        code(&c.run(r#"{"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a"}]}"#)),
        0
    );
    let concern = format!(
        r#""readConcern": {{"level": "snapshot", "atClusterTime": {{"$timestamp": {{"t": {},
            "i": {}}}}}}}"#,
        at.time, at.increment
    );
    let again = c.run(&format!(r#"{{"distinct": "c", "key": "a", {concern}}}"#));
    let values = |d: &DocBuf| format!("{:?}", d.doc().field("values"));
    assert_eq!(values(&again), values(&first));
    let (found, _) = c.read_all(
        &format!(r#"{{"find": "c", "filter": {{"a": {{"$lt": 7}}}}, {concern}}}"#),
        &[],
    );
    assert_eq!(found.len(), 10);
    let (found, _) = c.read_all(r#"{"find": "c", "filter": {"a": {"$lt": 7}}}"#, &[]);
    assert_eq!(found.len(), 0);
}

#[test]
fn times_whose_state_is_not_kept_are_refused() {
    let s = service();
    fill(&s, 1);
    let mut c = Client {
        service: &s,
        conn: s.connect("127.0.0.1:1"),
    };
    let at = |t: u32| {
        format!(
            r#"{{"find": "c", "readConcern": {{"level": "snapshot",
                "atClusterTime": {{"$timestamp": {{"t": {t}, "i": 1}}}}}}}}"#
        )
    };
    assert_eq!(code(&c.run(&at(5))), 239);
    assert_eq!(
        code(&c.run(r#"{"find": "c", "readConcern": {"level": "snapshot"}}"#)),
        0
    );
    assert_eq!(code(&c.run(&at(5))), 239);
    assert_eq!(code(&c.run(&at(4_000_000_000))), 246);
}
