//! Column indexes give what documents give: random documents of all types, nested paths and arrays,
//! under random writes and transactions, with the worker at work at random moments, read now, in
//! transactions, and at snapshots that were opened before. `{ $natural: 1 }` reads documents.
//! `QUARRY_COLUMNS=n` runs n rounds instead of a few; `QUARRY_SEED=n` begins with another seed.

use crate::behaviour::{logging_store, send, serve};
use crate::columns::{Dice, PATHS, document, filter, group};
use commands::workers::{self, Schedule};
use commands::{Config, Connection, Dispatcher};
use model::extjson;
use query::segments::Sizes;
use serde_json::{Value as Json, json};
use std::sync::Arc;

const QUICK_ROUNDS: u64 = 10;
const STEPS: usize = 120;

/// A member of a replica set whose segments are small.
struct Server {
    service: Arc<Dispatcher>,
    conn: Connection,
    number: i64,
}

fn long(n: i64) -> Json {
    json!({ "$numberLong": n.to_string() })
}

impl Server {
    fn new() -> Server {
        Server::of(Sizes {
            docs_max: 24,
            docs_min: 5,
        })
    }

    fn of(column_segments: Sizes) -> Server {
        let config = Config {
            column_segments,
            ..Config::default()
        };
        let service = serve(config, logging_store());
        let conn = service.connect("127.0.0.1:50000");
        Server {
            service,
            conn,
            number: 0,
        }
    }

    fn send(&mut self, command: &Json) -> Json {
        let db = match command
            .get("commitTransaction")
            .or(command.get("abortTransaction"))
        {
            Some(_) => "admin",
            None => "db",
        };
        let command = extjson::document(command).expect("a document");
        let reply = send(&self.service, &mut self.conn, db, command.doc());
        extjson::from_document(reply.doc(), extjson::Mode::Canonical)
    }

    fn ok(&mut self, command: &Json) -> Json {
        let reply = self.send(command);
        assert_eq!(
            reply["ok"]["$numberDouble"],
            json!("1.0"),
            "{command}: {reply}"
        );
        assert!(reply.get("writeErrors").is_none(), "{command}: {reply}");
        reply
    }

    fn work(&self) {
        let worker = workers::find("columnSegments").expect("the worker");
        let service = self.service.service().arc().expect("a shared service");
        Schedule::new(&service, [worker]).run_due(&service, &|| true);
    }

    /// What a pipeline gives by segments, and document by document; more fields as in `more`.
    fn both(&mut self, stages: &[Json], more: &Json) -> [Result<Json, Json>; 2] {
        [json!({}), json!({ "$natural": 1 })].map(|hint| {
            let mut command = json!({ "aggregate": "c", "pipeline": stages, "hint": hint,
                "cursor": { "batchSize": 100_000 } });
            for (name, value) in more.as_object().into_iter().flatten() {
                command[name] = value.clone();
            }
            let mut reply = self.send(&command);
            match reply.get("code") {
                Some(code) => Err(json!([code, reply["errmsg"]])),
                None => Ok(reply["cursor"]["firstBatch"].take()),
            }
        })
    }

    fn session(&self) -> Json {
        json!({ "id": { "$binary": { "base64": "AAAAAAAAAAAAAAAAAAAAAA==", "subType": "04" } } })
    }

    /// The fields of a statement of the transaction at hand.
    fn in_transaction(&mut self, begins: bool) -> Json {
        self.number += i64::from(begins);
        let mut fields = json!({ "lsid": self.session(), "txnNumber": long(self.number),
            "autocommit": false });
        if begins {
            fields["startTransaction"] = json!(true);
        }
        fields
    }

    /// Numbers of what the last stages of an explained pipeline counted.
    fn explained(&mut self, stages: &[Json]) -> Json {
        let inner = json!({ "aggregate": "c", "pipeline": stages, "cursor": {} });
        let mut reply = self.ok(&json!({ "explain": inner, "verbosity": "executionStats" }));
        lowest(reply["stages"][0]["$cursor"]["executionStats"]["executionStages"].take())
    }

    fn validate(&mut self) {
        let reply = self.ok(&json!({ "validate": "c" }));
        assert_eq!(reply["valid"], json!(true), "{reply}");
    }
}

/// The stage that reads.
fn lowest(mut stage: Json) -> Json {
    while let Some(below) = stage.get_mut("inputStage") {
        stage = below.take();
    }
    stage
}

fn with(mut command: Json, more: &Json) -> Json {
    for (name, value) in more.as_object().into_iter().flatten() {
        command[name] = value.clone();
    }
    command
}

fn index(g: &mut Dice) -> Json {
    let mut key = serde_json::Map::new();
    match g.roll(3) {
        0 => _ = key.insert("$**".to_owned(), json!("columnstore")),
        _ => {
            for path in PATHS {
                if g.roll(6) > 0 {
                    key.insert((*path).to_owned(), json!("columnstore"));
                }
            }
            key.insert("a".to_owned(), json!("columnstore"));
        }
    }
    json!({ "createIndexes": "c", "indexes": [{ "key": key, "name": "columns" }] })
}

/// What happens to one collection.
struct Story {
    g: Dice,
    server: Server,
    /// Ids may come in any order.
    clustered: bool,
    plain: bool,
    next: usize,
    /// Times of snapshots.
    moments: Vec<Json>,
    answered: usize,
    failed: usize,
}

impl Story {
    fn new(seed: u64) -> Story {
        let mut g = Dice(seed.wrapping_mul(0x1000_0000_01B3));
        let mut server = Server::new();
        let clustered = g.roll(2) == 0;
        if clustered {
            server.ok(&json!({ "create": "c",
                "clusteredIndex": { "key": { "_id": 1 }, "unique": true } }));
        } else {
            server.ok(&json!({ "create": "c" }));
        }
        Story {
            plain: g.roll(3) == 0,
            g,
            server,
            clustered,
            next: 0,
            moments: Vec::new(),
            answered: 0,
            failed: 0,
        }
    }

    fn documents(&mut self, number: usize) -> Vec<Json> {
        let mut all: Vec<Json> = Vec::new();
        for _ in 0..number {
            self.next += 1;
            let id = match self.clustered {
                true => self.g.roll(400),
                false => self.next,
            };
            if all.iter().all(|d| d["_id"] != json!(id as i32)) {
                let mut one = document(&mut self.g, id, self.plain);
                if self.g.roll(60) == 0 {
                    one["b"] = json!("long ".repeat(1000));
                }
                all.push(one);
            }
        }
        all
    }

    fn some_id(&mut self) -> i32 {
        let below = if self.clustered { 400 } else { self.next + 1 };
        self.g.roll(below) as i32
    }

    /// One write; its reply may be an error.
    fn write(&mut self, more: &Json) {
        let id = self.some_id();
        let command = match self.g.roll(9) {
            0..=2 => {
                let number = 1 + self.g.roll(12);
                let docs = self.documents(number);
                json!({ "insert": "c", "documents": docs, "ordered": false })
            }
            3 => {
                let mut new = document(&mut self.g, id as usize, self.plain);
                new["_id"] = json!(id);
                json!({ "update": "c", "updates": [{ "q": { "_id": id }, "u": new }] })
            }
            4 => {
                json!({ "update": "c", "updates": [{ "q": { "_id": { "$gte": id, "$lt": id + 9 } },
                "u": { "$set": { "a": id % 5, "d.x": id % 3 } }, "multi": true }] })
            }
            5 => json!({ "update": "c", "updates": [{ "q": { "_id": id },
                "u": { "$unset": { "b": 1 }, "$set": { "c": [1, { "y": id }] } } }] }),
            6 => json!({ "delete": "c", "deletes": [{ "q": { "_id": id }, "limit": 1 }] }),
            7 => json!({ "delete": "c", "deletes": [
                { "q": { "_id": { "$gte": id, "$lt": id + 15 } }, "limit": 0 }] }),
            _ => json!({ "findAndModify": "c", "query": { "_id": id },
                "update": { "$inc": { "n": 1 } } }),
        };
        self.server.send(&with(command, more));
    }

    fn transaction(&mut self) {
        let begin = self.server.in_transaction(true);
        self.server
            .send(&with(json!({ "find": "c", "limit": 1 }), &begin));
        let inside = self.server.in_transaction(false);
        for _ in 0..1 + self.g.roll(4) {
            match self.g.roll(4) {
                // An error ends the transaction.
                0 if !self.compare(&inside) => return,
                0 => {}
                _ => self.write(&inside),
            }
        }
        if self.g.roll(4) == 0 {
            self.server.work();
        }
        let end = self
            .g
            .pick(&["commitTransaction", "commitTransaction", "abortTransaction"]);
        let end = with(json!({ end: 1 }), &inside);
        self.server.send(&end);
    }

    /// False after an error.
    fn compare(&mut self, more: &Json) -> bool {
        let mut stages = Vec::new();
        if self.g.roll(2) == 0 {
            stages.push(json!({ "$match": filter(&mut self.g, 2) }));
        }
        stages.push(json!({ "$group": group(&mut self.g) }));
        let mut more = more.clone();
        if self.g.roll(5) == 0 {
            more["collation"] = json!({ "locale": "en", "strength": 2 });
        }
        let [by_columns, by_documents] = self.server.both(&stages, &more);
        if by_columns.is_err() && more.get("autocommit").is_some() {
            return false;
        }
        match by_documents.is_ok() {
            true => self.answered += 1,
            false => self.failed += 1,
        }
        assert_eq!(by_columns, by_documents, "{}, {more}", json!(stages));
        by_documents.is_ok()
    }

    fn remember(&mut self) {
        let find = json!({ "find": "c", "limit": 1, "readConcern": { "level": "snapshot" } });
        let reply = self.server.ok(&find);
        self.moments.push(reply["cursor"]["atClusterTime"].clone());
    }

    fn step(&mut self) {
        match self.g.roll(40) {
            0..=11 => self.write(&json!({})),
            12..=13 => self.transaction(),
            14..=18 => self.server.work(),
            19 => self.remember(),
            20..=24 if !self.moments.is_empty() => {
                let at = self.g.roll(self.moments.len());
                let at = self.moments[at].clone();
                let concern = json!({ "level": "snapshot", "atClusterTime": at });
                _ = self.compare(&json!({ "readConcern": concern }));
            }
            25 => {
                let drop = json!({ "dropIndexes": "c", "index": "columns" });
                let create = index(&mut self.g);
                self.server.send(&drop);
                self.server.ok(&create);
            }
            _ => _ = self.compare(&json!({})),
        }
    }
}

#[test]
fn column_indexes_give_what_documents_give() {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let rounds = number("QUARRY_COLUMNS").unwrap_or(QUICK_ROUNDS);
    let first = number("QUARRY_SEED").unwrap_or(1);
    let (mut answered, mut failed, mut rows, mut documents) = (0, 0, 0, 0);
    for seed in first..first + rounds {
        let mut story = Story::new(seed);
        let some = 20 + story.g.roll(80);
        let docs = story.documents(some);
        if story.g.roll(2) == 0 {
            let create = index(&mut story.g);
            story.server.ok(&create);
            story
                .server
                .ok(&json!({ "insert": "c", "documents": docs }));
        } else {
            story
                .server
                .ok(&json!({ "insert": "c", "documents": docs }));
            let create = index(&mut story.g);
            story.server.ok(&create);
        }
        eprintln!("seed {seed}");
        (0..STEPS).for_each(|_| story.step());
        let stages = [json!({ "$group": { "_id": "$a", "n": { "$sum": 1 } } })];
        let stage = story.server.explained(&stages);
        if stage["stage"] == json!("COLUMN_SCAN") {
            let counted = |name: &str| stage[name]["$numberInt"].as_str()?.parse::<u64>().ok();
            rows += counted("rowsFromSegments").expect("a number");
            documents += counted("docsExamined").expect("a number");
        }
        story.server.validate();
        answered += story.answered;
        failed += story.failed;
    }
    println!("{answered} answered, {failed} failed alike; {rows} rows, {documents} documents");
    assert!(rounds < QUICK_ROUNDS || answered > 150 && failed > 10 && rows > 100 && documents > 16);
}

/// 300 documents, in segments of 100.
fn filled(key: &Json) -> Server {
    let mut server = Server::of(Sizes {
        docs_max: 100,
        docs_min: 50,
    });
    let docs: Vec<Json> = (0..300)
        .map(|i| json!({ "_id": i, "a": i / 10, "s": { "t": format!("x{}", i % 3) }, "u": [i] }))
        .collect();
    server.ok(&json!({ "insert": "c", "documents": docs }));
    let index = json!({ "key": key, "name": "columns" });
    server.ok(&json!({ "createIndexes": "c", "indexes": [index] }));
    server.work();
    server
}

fn chosen() -> Json {
    json!({ "a": "columnstore", "s.t": "columnstore", "u.x": "columnstore" })
}

#[test]
fn groups_are_read_from_segments_and_touched_documents() {
    let mut server = filled(&chosen());
    let group = json!({ "$group": { "_id": "$s.t", "n": { "$sum": "$a" } } });
    let counted = |stage: &Json| {
        [
            "segmentsRead",
            "segmentsSkipped",
            "rowsFromSegments",
            "docsExamined",
        ]
        .map(|name| {
            stage[name]["$numberInt"]
                .as_str()
                .unwrap_or("none")
                .to_owned()
        })
    };
    let stage = server.explained(std::slice::from_ref(&group));
    assert_eq!(stage["stage"], json!("COLUMN_SCAN"), "{stage}");
    assert_eq!(counted(&stage), ["3", "0", "300", "0"]);
    // Two segments have nothing between 12 and 15.
    let range = json!({ "$match": { "a": { "$gte": 12, "$lt": 15 } } });
    let stages = [range, group.clone()];
    assert_eq!(counted(&server.explained(&stages)), ["1", "2", "100", "0"]);
    server.ok(
        &json!({ "update": "c", "updates": [{ "q": { "_id": 7 }, "u": { "$set": { "a": 13 } } }] }),
    );
    server.ok(&json!({ "delete": "c", "deletes": [{ "q": { "_id": 130 }, "limit": 1 }] }));
    server.ok(&json!({ "insert": "c", "documents": [{ "_id": 1000, "a": 14 }] }));
    assert_eq!(counted(&server.explained(&stages)), ["1", "2", "99", "2"]);
    let [by_columns, by_documents] = server.both(&stages, &json!({}));
    assert_eq!(by_columns, by_documents);
    // A path with arrays on its way: each document is read.
    let below = [json!({ "$group": { "_id": "$u.x" } })];
    assert_eq!(counted(&server.explained(&below)), ["3", "0", "0", "300"]);
    // What is in no column.
    let other = [json!({ "$group": { "_id": "$z" } })];
    assert_eq!(server.explained(&other)["stage"], json!("COLLSCAN"));
    server.validate();
}

#[test]
fn all_top_level_fields_are_columns_of_one_index() {
    let mut server = filled(&json!({ "$**": "columnstore" }));
    let stage = server.explained(&[json!({ "$group": { "_id": "$a", "z": { "$max": "$z" } } })]);
    assert_eq!(
        stage["rowsFromSegments"],
        json!({ "$numberInt": "300" }),
        "{stage}"
    );
    let stage = server.explained(&[json!({ "$group": { "_id": "$s.t" } })]);
    assert_eq!(stage["stage"], json!("COLLSCAN"));
}

#[test]
fn hints_and_hiding_say_whether_columns_are_read() {
    let mut server = filled(&chosen());
    let stages = [json!({ "$group": { "_id": "$a" } })];
    let stage = |server: &mut Server, hint: Json| {
        let inner = json!({ "aggregate": "c", "pipeline": stages, "cursor": {}, "hint": hint });
        let reply = server.send(&json!({ "explain": inner, "verbosity": "queryPlanner" }));
        let plan = &reply["stages"][0]["$cursor"]["queryPlanner"]["winningPlan"];
        lowest(plan.clone())["stage"].clone()
    };
    assert_eq!(stage(&mut server, json!("columns")), json!("COLUMN_SCAN"));
    assert_eq!(stage(&mut server, chosen()), json!("COLUMN_SCAN"));
    assert_eq!(
        stage(&mut server, json!({ "$natural": 1 })),
        json!("COLLSCAN")
    );
    let hide = |yes: bool| json!({ "collMod": "c", "index": { "name": "columns", "hidden": yes } });
    server.ok(&hide(true));
    assert_eq!(stage(&mut server, json!({})), json!("COLLSCAN"));
    server.ok(&json!({ "insert": "c", "documents": [{ "_id": 1000, "a": 99 }] }));
    server.ok(&hide(false));
    assert_eq!(stage(&mut server, json!({})), json!("COLUMN_SCAN"));
    let [by_columns, by_documents] = server.both(&stages, &json!({}));
    assert_eq!(by_columns, by_documents);
    // A find reads documents, also when it is told of the index.
    let find = json!({ "find": "c", "filter": { "a": 3 }, "hint": "columns" });
    let found = server.ok(&find);
    assert_eq!(
        found["cursor"]["firstBatch"].as_array().map(Vec::len),
        Some(10)
    );
    server.ok(&json!({ "renameCollection": "db.c", "to": "db.d", "$db": "admin" }));
}

#[test]
fn what_a_column_index_cannot_have_is_refused() {
    let mut server = Server::new();
    server.ok(&json!({ "create": "capped", "capped": true, "size": 9999 }));
    server.ok(&json!({ "create": "series", "timeseries": { "timeField": "t" } }));
    let mut code = |coll: &str, key: Json, option: Json| {
        let index = with(json!({ "key": key, "name": "n" }), &option);
        let reply = server.send(&json!({ "createIndexes": coll, "indexes": [index] }));
        reply["code"]["$numberInt"]
            .as_str()
            .unwrap_or("0")
            .to_owned()
    };
    let all = || json!({ "$**": "columnstore" });
    for option in [
        json!({ "unique": true }),
        json!({ "sparse": true }),
        json!({ "expireAfterSeconds": 5 }),
        json!({ "partialFilterExpression": { "a": 1 } }),
        json!({ "collation": { "locale": "de" } }),
        json!({ "clustering": true }),
        json!({ "columnstoreProjection": { "a": 1 } }),
    ] {
        assert_eq!(code("c", all(), option.clone()), "67", "{option}");
    }
    for key in [
        json!({ "a": "columnstore", "b": 1 }),
        json!({ "$**": "columnstore", "b": "columnstore" }),
        json!({ "a.$**": "columnstore" }),
        json!({ "a": "columnstore", "b": "hashed" }),
    ] {
        assert_eq!(code("c", key.clone(), json!({})), "67", "{key}");
    }
    assert_eq!(code("capped", all(), json!({})), "72");
    assert_eq!(code("series", all(), json!({})), "72");
    assert_eq!(code("c", all(), json!({})), "0");
    let change = json!({ "collMod": "c", "index": { "name": "n", "expireAfterSeconds": 9 } });
    assert_eq!(server.send(&change)["code"]["$numberInt"], json!("72"));
}
