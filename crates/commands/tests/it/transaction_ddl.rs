//! Collections and indexes that are made in a transaction: they go when it is aborted.

use crate::behaviour::{logging_store, send, serve};
use crate::interrupts::json;
use commands::{Config, Connection, Dispatcher};
use model::{Binary, DocBuf, doc};
use std::sync::Arc;

struct Client {
    service: Arc<Dispatcher>,
    conn: Connection,
    number: i64,
    started: bool,
}

impl Client {
    fn new() -> Client {
        let service = serve(Config::default(), logging_store());
        let conn = service.connect("127.0.0.1:50000");
        Client {
            service,
            conn,
            number: 0,
            started: true,
        }
    }

    fn send(&mut self, db: &str, command: &DocBuf) -> i64 {
        let reply = send(&self.service, &mut self.conn, db, command.doc());
        reply.doc().field("code").as_i64_exact().unwrap_or(0)
    }

    /// Outside of a transaction.
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
        let bytes = [3; 16];
        command.put("lsid", &doc! { "id": Binary { subtype: 4, bytes: &bytes } });
        command.put("txnNumber", self.number);
        command.put("autocommit", false);
        self.send(db, &command)
    }

    /// A statement of the transaction.
    fn say(&mut self, command: &str) -> i64 {
        self.say_to("d", command)
    }

    fn commit(&mut self) {
        assert_eq!(self.say_to("admin", "{'commitTransaction': 1}"), 0);
    }

    fn abort(&mut self) {
        assert_eq!(self.say_to("admin", "{'abortTransaction': 1}"), 0);
    }

    /// The names of collections and of the indexes of `n`.
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
fn what_a_transaction_makes_stays_with_its_commit_and_goes_with_its_abort() {
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
    // Nothing has to be built.
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
    assert_eq!(c.names().0, lists(&["n"]));
}
