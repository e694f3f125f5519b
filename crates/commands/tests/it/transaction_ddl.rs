//! Collections and indexes that are created in a transaction: other clients do not see them before
//! its commit, and an abort removes them.

use crate::behaviour::{logging_store, send, serve};
use crate::interrupts::json;
use commands::{Config, Connection, Dispatcher};
use model::{Binary, DocBuf, doc};
use std::sync::Arc;

struct Client {
    service: Arc<Dispatcher>,
    conn: Connection,
    session: u8,
    number: i64,
    started: bool,
}

impl Client {
    fn new() -> Client {
        Client::of(&serve(Config::default(), logging_store()), 3)
    }

    /// Another client of the same server.
    fn second_client(&self) -> Client {
        Client::of(&self.service, self.session + 1)
    }

    fn of(service: &Arc<Dispatcher>, session: u8) -> Client {
        Client {
            service: Arc::clone(service),
            conn: service.connect("127.0.0.1:50000"),
            session,
            number: 0,
            started: true,
        }
    }

    fn send(&mut self, db: &str, command: &DocBuf) -> i64 {
        let reply = send(&self.service, &mut self.conn, db, command.doc());
        reply.doc().field("code").as_i64_exact().unwrap_or(0)
    }

    /// Runs a command outside of a transaction.
    fn run(&mut self, command: &str) -> i64 {
        self.send("d", &json(&command.replace('\'', "\"")))
    }

    fn begin(&mut self) {
        (self.number, self.started) = (self.number + 1, false);
    }

    fn say_to(&mut self, db: &str, command: &str) -> i64 {
        let mut command = json(&command.replace('\'', "\""));
        if !std::mem::replace(&mut self.started, true) {
            command.put("startTransaction", true);
        }
        let bytes = [self.session; 16];
        command.put("lsid", &doc! { "id": Binary { subtype: 4, bytes: &bytes } });
        command.put("txnNumber", self.number);
        command.put("autocommit", false);
        self.send(db, &command)
    }

    /// Runs a statement of the transaction.
    fn say(&mut self, command: &str) -> i64 {
        self.say_to("d", command)
    }

    /// How many documents a command finds.
    fn count_documents(&mut self, db: &str, command: &DocBuf) -> usize {
        let reply = send(&self.service, &mut self.conn, db, command.doc());
        let cursor = reply.doc().field("cursor").as_doc().expect("a cursor");
        cursor
            .field("firstBatch")
            .as_array()
            .expect("a batch")
            .len()
    }

    fn count(&mut self, command: &str) -> usize {
        self.count_documents("d", &json(&command.replace('\'', "\"")))
    }

    /// The same as a statement of the transaction.
    fn count_within(&mut self, command: &str) -> usize {
        let mut command = json(&command.replace('\'', "\""));
        let bytes = [self.session; 16];
        command.put("lsid", &doc! { "id": Binary { subtype: 4, bytes: &bytes } });
        command.put("txnNumber", self.number);
        command.put("autocommit", false);
        self.count_documents("d", &command)
    }

    fn commit(&mut self) {
        assert_eq!(self.say_to("admin", "{'commitTransaction': 1}"), 0);
    }

    fn abort(&mut self) {
        assert_eq!(self.say_to("admin", "{'abortTransaction': 1}"), 0);
    }

    /// The names of collections, and of the indexes of `n`.
    fn names(&mut self) -> (Vec<String>, Vec<String>) {
        let mut names = |command: DocBuf| {
            let reply = send(&self.service, &mut self.conn, "d", command.doc());
            let batch = reply.doc().field("cursor").as_doc();
            let batch = batch.and_then(|c| c.field("firstBatch").as_array());
            let name = |v: model::Value<'_>| {
                v.as_doc()
                    .and_then(|d| d.field("name").as_str())
                    .map(str::to_owned)
            };
            let names = batch.into_iter().flat_map(|b| b.iter().filter_map(name));
            let mut names: Vec<String> = names.collect();
            names.sort();
            names
        };
        (
            names(doc! { "listCollections": 1i32 }),
            names(doc! { "listIndexes": "n" }),
        )
    }
}

const CREATE: &str = "{'create': 'n'}";
const INDEX: &str = "{'createIndexes': 'n', 'indexes': [{'key': {'a': 1}, 'name': 'a'}]}";
const UNIQUE: &str =
    "{'createIndexes': 'n', 'indexes': [{'key': {'u': 1}, 'name': 'u', 'unique': true}]}";
const INSERT: &str = "{'insert': 'n', 'documents': [{'a': 1, 'u': 1}]}";

fn lists(names: &[&str]) -> Vec<String> {
    names.iter().map(|n| (*n).to_owned()).collect()
}

#[test]
fn collections_and_indexes_of_a_transaction_remain_only_if_it_commits() {
    for made in [
        &[CREATE, INDEX, UNIQUE][..],
        &[INDEX, UNIQUE],
        &[CREATE],
        &[CREATE, UNIQUE],
    ] {
        let mut c = Client::new();
        c.begin();
        for command in made.iter().chain([&INSERT]) {
            assert_eq!(c.say(command), 0, "{command}");
        }
        c.abort();
        c.begin();
        assert_eq!(c.say("{'find': 'n'}"), 0);
        c.commit();
        assert_eq!(c.names(), (vec![], vec![]), "{made:?}");
        c.begin();
        for command in made.iter().chain([&INSERT]) {
            assert_eq!(c.say(command), 0, "{command}");
        }
        c.commit();
        let (collections, indexes) = c.names();
        assert_eq!(collections, lists(&["n"]));
        assert_eq!(
            indexes.len(),
            1 + made.iter().filter(|m| m.contains("Indexes")).count()
        );
        assert_eq!(c.run("{'find': 'n', 'filter': {'a': 1}}"), 0);
    }
}

#[test]
fn only_collections_of_its_own_get_indexes() {
    let mut c = Client::new();
    assert_eq!(c.run(CREATE), 0);
    assert_eq!(c.run(INDEX), 0);
    let refused = |c: &mut Client, commands: &[&str], code: i64| {
        c.begin();
        let (last, before) = commands.split_last().expect("a command");
        for command in before {
            assert_eq!(c.say(command), 0, "{command}");
        }
        assert_eq!(c.say(last), code, "{commands:?}");
    };
    // The index exists, so nothing has to be built.
    refused(&mut c, &[INDEX], 0);
    refused(&mut c, &[UNIQUE], 263);
    let other = |command: &str| command.replace("'n'", "'m'");
    refused(
        &mut c,
        &[&other(CREATE), &other(INSERT), &other(UNIQUE)],
        263,
    );
    refused(&mut c, &[&other(INSERT), &other(INDEX)], 263);
    refused(
        &mut c,
        &["{'create': 'v', 'viewOn': 'n', 'pipeline': []}"],
        263,
    );
    refused(
        &mut c,
        &["{'create': 't', 'timeseries': {'timeField': 't'}}"],
        263,
    );
    refused(
        &mut c,
        &["{'create': 'n', 'capped': true, 'size': 4096}"],
        48,
    );
    refused(&mut c, &[CREATE], 48);
    refused(&mut c, &[&other(CREATE), &other(CREATE)], 48);
    assert_eq!(c.names().0, lists(&["n"]));
}

const FIND: &str = "{'find': 'n'}";
const JOIN: &str = "{'aggregate': 'other', 'cursor': {}, 'pipeline': [
    {'$lookup': {'from': 'n', 'localField': 'a', 'foreignField': 'a', 'as': 'l'}},
    {'$unwind': '$l'}]}";
const LISTED: &str = "{'listCollections': 1, 'filter': {'name': 'n'}}";
const COUNTED: &str = "{'aggregate': 'n', 'cursor': {}, 'pipeline': [{'$count': 'n'}]}";

#[test]
fn only_the_transaction_sees_what_it_has_made_before_the_commit() {
    for made in [&[CREATE, INDEX][..], &[INDEX], &[INSERT]] {
        let mut c = Client::new();
        let mut other = c.second_client();
        assert_eq!(c.run("{'insert': 'other', 'documents': [{'a': 1}]}"), 0);
        c.begin();
        for command in made.iter().chain([&INSERT]) {
            assert_eq!(c.say(command), 0, "{command}");
        }
        let inserts = 1 + usize::from(made[0] == INSERT);
        for command in [FIND, "{'find': 'n', 'filter': {'a': 1}}", JOIN] {
            assert_eq!(other.count(command), 0, "{made:?} {command}");
            assert_eq!(c.count_within(command), inserts, "{made:?} {command}");
        }
        assert_eq!(
            c.count_within("{'aggregate': 'n', 'cursor': {}, 'pipeline': []}"),
            inserts
        );
        assert_eq!(other.count(COUNTED), 0);
        assert_eq!(other.count(LISTED), 0);
        assert_eq!(other.run("{'drop': 'n'}"), 0);
        assert_eq!(other.run("{'listIndexes': 'n'}"), 26);
        assert_eq!(
            c.say(
                "{'update': 'n', 'updates': [{'q': {'a': 1}, 'u': {'$set': {'b': 1}},
            'multi': true}]}"
            ),
            0
        );
        c.commit();
        assert_eq!(other.count(LISTED), 1);
        assert_eq!(other.count("{'find': 'n', 'filter': {'b': 1}}"), inserts);
        assert_eq!(other.count(JOIN), inserts);
    }
}

#[test]
fn two_transactions_that_create_one_collection_conflict() {
    let mut a = Client::new();
    let mut b = a.second_client();
    // The first of two transactions may create it.
    a.begin();
    assert_eq!(a.say(INSERT), 0);
    b.begin();
    assert_eq!(b.say(INSERT), 112);
    a.commit();
    assert_eq!(a.count(FIND), 1);
    // A client outside of a transaction may create it without waiting.
    assert_eq!(a.run("{'drop': 'n'}"), 0);
    for made in [CREATE, INSERT, INDEX] {
        a.begin();
        assert_eq!(a.say(CREATE), 0);
        assert_eq!(b.run(made), 0);
        assert_eq!(a.say_to("admin", "{'commitTransaction': 1}"), 112);
        assert_eq!(a.say_to("admin", "{'commitTransaction': 1}"), 251);
        assert_eq!(a.count(LISTED), 1);
        assert_eq!(a.run("{'drop': 'n'}"), 0);
    }
    // After an abort, the name can be used again.
    a.begin();
    assert_eq!(a.say(CREATE), 0);
    a.abort();
    b.begin();
    assert_eq!(b.say(CREATE), 0);
    b.commit();
    assert_eq!(a.count(LISTED), 1);
}

#[test]
fn the_log_tells_of_a_collection_within_the_entry_of_its_transaction() {
    let mut c = Client::new();
    c.begin();
    for command in [CREATE, INDEX, INSERT] {
        assert_eq!(c.say(command), 0, "{command}");
    }
    let wanted = "{'find': 'oplog.rs', 'filter': {'op': 'c', 'o.create': 'n'}}";
    let inner = "{'find': 'oplog.rs', 'filter': {'o.applyOps.0.o.create': 'n',
        'o.applyOps.1.o.createIndexes': 'n', 'o.applyOps.2.op': 'i'}}";
    let entries = |c: &mut Client, command: &str| {
        c.count_documents("local", &json(&command.replace('\'', "\"")))
    };
    assert_eq!(entries(&mut c, inner), 0);
    c.commit();
    assert_eq!(entries(&mut c, inner), 1);
    assert_eq!(entries(&mut c, wanted), 0);
}
