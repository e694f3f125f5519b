//! A random workload of commands by seed: documents, indexes, collections of every kind,
//! transactions, retryable writes. It goes through the dispatcher, like a client's commands.

use commands::workers::{self, Schedule};
use commands::{Config, Connection, Dispatcher, Outcome, Request, Service, SystemClock, registry};
use model::{Doc, DocBuf, extjson};
use proof::Random;
use query::segments::Sizes;
use std::sync::Arc;
use store::Store;

/// One client of one server.
pub(crate) struct Client {
    server: Arc<Dispatcher>,
    conn: Connection,
    random: Random,
    /// The number of the last retryable write or transaction.
    number: i64,
    /// Number of replies by code; 0 means success.
    pub(crate) replies: std::collections::BTreeMap<i64, usize>,
    /// The device has failed: later commands may be refused.
    pub(crate) failed: bool,
}

const PLAIN: [&str; 3] = ["c0", "c1", "c2"];

impl Client {
    pub(crate) fn of(store: Arc<Store>, seed: u64) -> Client {
        let config = Config {
            column_segments: Sizes {
                docs_max: 16,
                docs_min: 3,
            },
            ..Config::default()
        };
        let service = Service::new(config, Arc::new(SystemClock::default()), store);
        let server = Arc::new(registry::dispatcher(service.into_shared()));
        let conn = server.connect("127.0.0.1:1");
        Client {
            server,
            conn,
            random: Random::new(seed),
            number: 0,
            replies: std::collections::BTreeMap::new(),
            failed: false,
        }
    }

    fn store(&self) -> Arc<Store> {
        Arc::clone(&self.server.service().store)
    }

    /// One step: a command, or a background task of a server.
    pub(crate) fn step(&mut self) {
        match self.random.below(62) {
            0 | 1 => {
                let flushed = self.store().engine().flush();
                self.failed |= flushed.is_err();
            }
            2 => {
                let truncated = self.store().truncate_log();
                self.failed |= truncated.is_err();
            }
            3..=5 => self.run_worker("columnSegments"),
            60 | 61 => self.run_worker("references"),
            6..=8 => self.transaction(),
            9..=13 => self.retryable(),
            _ => {
                let command = self.command();
                self.send(&command, "");
            }
        }
    }

    /// One round of a worker.
    fn run_worker(&self, name: &str) {
        let worker = workers::find(name).expect("the worker");
        let service = self.server.service().arc().expect("a shared service");
        Schedule::new(&service, [worker]).run_due(&service, &|| true);
    }

    /// Sends a command written with single quotes, with more fields after it.
    pub(crate) fn send(&mut self, command: &str, more: &str) -> DocBuf {
        let concern = match self.random.chance(50) && !more.contains("startTransaction") {
            true if !more.contains("autocommit") || command.contains("commit") => {
                ", 'writeConcern': {'j': true}"
            }
            _ => "",
        };
        let db = match command.contains("commitTransaction") || command.contains("renameColl") {
            true => "admin",
            false => "d",
        };
        let text = format!("{{{command}{more}{concern}, '$db': '{db}'}}").replace('\'', "\"");
        let body = extjson::parse_document(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
        let reply = self.handle(body.doc());
        let code = reply.doc().field("code").as_i64_exact().unwrap_or(0);
        *self.replies.entry(code).or_default() += 1;
        reply
    }

    fn handle(&mut self, body: Doc<'_>) -> DocBuf {
        let mut reply = Vec::new();
        match self
            .server
            .handle(&mut self.conn, &Request::new(body), &mut reply)
        {
            Outcome::Durable(pos) => {
                let store = self.store();
                self.failed |= store.wait_durable(store::CommitPos(pos)).is_err();
            }
            Outcome::Reply => {}
            other => panic!("{body:?}: {other:?}"),
        }
        DocBuf::from_bytes(reply).expect("one document")
    }

    fn session(&mut self, kind: u8) -> String {
        self.number += 1;
        let number = self.number;
        format!(
            ", 'lsid': {{'id': {{'$uuid': '00000000-0000-4000-8000-0000000000{kind:02}'}}}}, \
             'txnNumber': {{'$numberLong': '{number}'}}"
        )
    }

    fn retryable(&mut self) {
        let session = self.session(1);
        let command = match self.random.chance(50) {
            true => self.insert(),
            false => self.find_and_modify(),
        };
        let first = self.send(&command, &session);
        if self.random.chance(30) {
            let again = self.send(&command, &session);
            let n = |d: &DocBuf| d.doc().field("n").as_i64_exact();
            let both_well = [&first, &again]
                .iter()
                .all(|d| d.doc().field("code").as_i64_exact().is_none());
            assert!(
                self.failed || !both_well || n(&first) == n(&again),
                "a retry of {command} counts anew: {first:?}, {again:?}"
            );
        }
    }

    fn transaction(&mut self) {
        let session = format!("{}, 'autocommit': false", self.session(2));
        for i in 0..1 + self.random.below(4) {
            let start = if i == 0 {
                ", 'startTransaction': true"
            } else {
                ""
            };
            let command = match self.random.below(3) {
                0 => self.insert(),
                1 => self.find_and_modify(),
                _ => self.update(),
            };
            let reply = self.send(&command, &format!("{session}{start}"));
            if reply.doc().field("ok").as_f64() != Some(1.0) {
                return;
            }
        }
        if self.random.chance(80) {
            self.send("'commitTransaction': 1", &session);
        } else {
            let abort = "'abortTransaction': 1, 'writeConcern': {}, 'comment': 'commitTransaction'";
            self.send(abort, &session);
        }
    }

    fn pick_collection(&mut self) -> &'static str {
        PLAIN[self.random.below(PLAIN.len())]
    }

    fn document(&mut self, id: bool) -> String {
        let r = &mut self.random;
        let tags: Vec<String> = (0..r.below(4)).map(|_| r.below(6).to_string()).collect();
        let long = match r.below(30) {
            0 => 30_000 + r.below(20_000),
            // The log refers to documents of 200 bytes or more.
            1..=9 => 200 + r.below(400),
            _ => r.below(60),
        };
        let (a, text) = (r.below(40), "wind and sea ".repeat(long / 13 + 1));
        let id = match id {
            true => format!("'_id': {}, ", r.below(120)),
            false => String::new(),
        };
        format!(
            "{id}'a': {a}, 'b': [{}], 's': '{}'",
            tags.join(","),
            &text[..long]
        )
    }

    fn insert(&mut self) -> String {
        let coll = self.pick_collection();
        let documents: Vec<String> = (0..1 + self.random.below(5))
            .map(|_| format!("{{{}}}", self.document(true)))
            .collect();
        let ordered = self.random.chance(50);
        format!(
            "'insert': '{coll}', 'documents': [{}], 'ordered': {ordered}",
            documents.join(",")
        )
    }

    fn update(&mut self) -> String {
        let (coll, a, multi) = (
            self.pick_collection(),
            self.random.below(40),
            self.random.chance(50),
        );
        let change = match self.random.below(4) {
            0 => "{'$inc': {'a': 1}}".to_owned(),
            1 => format!("{{'$push': {{'b': {}}}}}", self.random.below(9)),
            2 => "{'$set': {'s': 'changed', 'w.x': [1, 2]}}".to_owned(),
            _ => "{'$unset': {'b': 1}, '$set': {'c': {'x': 1}}}".to_owned(),
        };
        let upsert = !multi && self.random.chance(20);
        format!(
            "'update': '{coll}', 'updates': [{{'q': {{'a': {{'$gte': {a}}}}}, 'u': {change}, \
             'multi': {multi}, 'upsert': {upsert}}}]"
        )
    }

    fn find_and_modify(&mut self) -> String {
        let (coll, id) = (self.pick_collection(), self.random.below(120));
        let new = self.document(false);
        let what = match self.random.below(3) {
            0 => "'remove': true".to_owned(),
            1 => "'update': {'$inc': {'a': 5}}".to_owned(),
            _ => format!("'update': {{{new}}}, 'upsert': true"),
        };
        format!("'findAndModify': '{coll}', 'query': {{'_id': {id}}}, {what}")
    }

    fn index(&mut self) -> String {
        let coll = self.pick_collection();
        let indexes = [
            "{'key': {'a': 1}, 'name': 'a'}",
            "{'key': {'b': 1, 'a': -1}, 'name': 'b_a'}",
            "{'key': {'s': 'text'}, 'name': 'text'}",
            "{'key': {'$**': 1}, 'name': 'all'}",
            "{'key': {'s': 1}, 'name': 'half', 'partialFilterExpression': {'a': {'$gt': 9}}}",
            "{'key': {'w.x': 1}, 'name': 'w', 'sparse': true}",
            "{'key': {'b': -1}, 'name': 'whole', 'clustering': true}",
            "{'key': {'a': 'columnstore', 'w.x': 'columnstore'}, 'name': 'columns'}",
            "{'key': {'$**': 'columnstore'}, 'name': 'every'}",
        ];
        let index = indexes[self.random.below(indexes.len())];
        match self.random.below(3) {
            0 => format!("'dropIndexes': '{coll}', 'index': '*'"),
            _ => format!("'createIndexes': '{coll}', 'indexes': [{index}]"),
        }
    }

    fn command(&mut self) -> String {
        let (coll, n) = (self.pick_collection(), self.random.below(1000));
        match self.random.below(40) {
            0..=11 => self.insert(),
            12..=18 => self.update(),
            19..=22 => self.find_and_modify(),
            23 => format!(
                "'delete': '{coll}', 'deletes': [{{'q': {{'b': {}}}, 'limit': 0}}]",
                n % 6
            ),
            24..=26 => self.index(),
            27 => "'create': 'capped', 'capped': true, 'size': 4096, 'max': 7".to_owned(),
            28 | 29 => format!("'insert': 'capped', 'documents': [{{'n': {n}}}, {{'n': {n}}}]"),
            30 => {
                "'create': 'series', 'timeseries': {'timeField': 't', 'metaField': 'm'}".to_owned()
            }
            31 | 32 => format!(
                "'insert': 'series', 'documents': [{{'t': {{'$date': {}}}, 'm': {}, 'v': {n}}}]",
                1_700_000_000_000u64 + 700_000 * n as u64,
                n % 3
            ),
            33 => format!("'aggregate': '{coll}', 'pipeline': [{{'$out': 'o'}}], 'cursor': {{}}"),
            34 => format!(
                "'aggregate': '{coll}', 'cursor': {{}}, 'pipeline': [{{'$merge': {{'into': \
                 'c0'}}}}]"
            ),
            35 => format!("'renameCollection': 'd.o', 'to': 'd.{coll}', 'dropTarget': true"),
            36 => format!("'drop': '{}'", ["o", "capped", "series", coll][n % 4]),
            37 => format!("'convertToCapped': '{coll}', 'size': 65536"),
            38 => format!("'compact': '{coll}', 'force': true"),
            _ => format!(
                "'collMod': '{coll}', 'validationAction': 'warn', 'validator': {{'a': {{'$lt': \
                 {}}}}}",
                900 + n
            ),
        }
    }
}
