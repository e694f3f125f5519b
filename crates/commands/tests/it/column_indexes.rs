//! Column indexes: when they are used and what they refuse; and a server for tests of them.

use crate::behaviour::{logging_store, send, serve};
use commands::workers::{self, Schedule};
use commands::{Config, Connection, Dispatcher, StoreHooks, SystemClock};
use model::extjson;
use query::segments::Sizes;
use serde_json::{Value as Json, json};
use std::sync::Arc;
use storage::{CursorOpts, Durability, Engine, KeyRange, MemoryEngine, Table, WriteBatch};
use store::Store;
use store::format::segment::SegmentColumn;

/// A member of a replica set whose segments are small.
pub(crate) struct Server {
    service: Arc<Dispatcher>,
    conn: Connection,
    number: i64,
}

fn long(n: i64) -> Json {
    json!({ "$numberLong": n.to_string() })
}

impl Server {
    pub(crate) fn new() -> Server {
        Server::of(Sizes {
            docs_max: 24,
            docs_min: 5,
        })
    }

    pub(crate) fn of(column_segments: Sizes) -> Server {
        Server::start_on(column_segments, logging_store())
    }

    fn start_on(column_segments: Sizes, store: Arc<Store>) -> Server {
        let config = Config {
            column_segments,
            ..Config::default()
        };
        let service = serve(config, store);
        let conn = service.connect("127.0.0.1:50000");
        Server {
            service,
            conn,
            number: 0,
        }
    }

    pub(crate) fn send(&mut self, command: &Json) -> Json {
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

    pub(crate) fn ok(&mut self, command: &Json) -> Json {
        let reply = self.send(command);
        assert_eq!(
            reply["ok"]["$numberDouble"],
            json!("1.0"),
            "{command}: {reply}"
        );
        assert!(reply.get("writeErrors").is_none(), "{command}: {reply}");
        reply
    }

    pub(crate) fn work(&self) {
        let worker = workers::find("columnSegments").expect("the worker");
        let service = self.service.service().arc().expect("a shared service");
        Schedule::new(&service, [worker]).run_due(&service, &|| true);
    }

    /// The results of a pipeline by segments and by documents; `more` has additional fields of the
    /// command.
    pub(crate) fn run_both(&mut self, stages: &[Json], more: &Json) -> [Result<Json, Json>; 2] {
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

    /// The documents of a find batch by batch, the number of a count, or the values of a distinct,
    /// as text, which shows the order of fields and all types. The worker may run between batches.
    pub(crate) fn answer(
        &mut self,
        command: &Json,
        more: &Json,
        works: bool,
    ) -> Result<String, Json> {
        let mut reply = self.send(&with_fields(command.clone(), more));
        let mut all = Vec::new();
        loop {
            if let Some(code) = reply.get("code") {
                return Err(json!([code, reply["errmsg"]]));
            }
            let Some(cursor) = reply.get_mut("cursor") else {
                return Ok(json!([reply["n"], reply["values"]]).to_string());
            };
            for batch in ["firstBatch", "nextBatch"] {
                all.extend(cursor[batch].as_array().into_iter().flatten().cloned());
            }
            let id = cursor["id"].clone();
            if id["$numberLong"] == json!("0") {
                return Ok(json!(all).to_string());
            }
            if works {
                self.work();
            }
            let mut next = json!({ "getMore": id, "collection": "c", "batchSize": 9 });
            for name in ["lsid", "txnNumber", "autocommit"] {
                if let Some(value) = more.get(name) {
                    next[name] = value.clone();
                }
            }
            reply = self.send(&next);
        }
    }

    fn session(&self) -> Json {
        json!({ "id": { "$binary": { "base64": "AAAAAAAAAAAAAAAAAAAAAA==", "subType": "04" } } })
    }

    /// The fields of a statement in the current transaction.
    pub(crate) fn transaction_fields(&mut self, begins: bool) -> Json {
        self.number += i64::from(begins);
        let mut fields = json!({ "lsid": self.session(), "txnNumber": long(self.number),
            "autocommit": false });
        if begins {
            fields["startTransaction"] = json!(true);
        }
        fields
    }

    /// The counters in the last stages of an explained pipeline.
    pub(crate) fn explain_stages(&mut self, stages: &[Json]) -> Json {
        let inner = json!({ "aggregate": "c", "pipeline": stages, "cursor": {} });
        let mut reply = self.ok(&json!({ "explain": inner, "verbosity": "executionStats" }));
        lowest(reply["stages"][0]["$cursor"]["executionStats"]["executionStages"].take())
    }

    pub(crate) fn validate(&mut self) {
        let reply = self.ok(&json!({ "validate": "c", "full": true }));
        assert_eq!(reply["valid"], json!(true), "{reply}");
    }
}

/// The stage that reads.
pub(crate) fn lowest(mut stage: Json) -> Json {
    while let Some(below) = stage.get_mut("inputStage") {
        stage = below.take();
    }
    stage
}

pub(crate) fn with_fields(mut command: Json, more: &Json) -> Json {
    for (name, value) in more.as_object().into_iter().flatten() {
        command[name] = value.clone();
    }
    command
}

/// 300 documents, in segments of 100.
fn start_filled(key: &Json) -> Server {
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

fn column_key() -> Json {
    json!({ "a": "columnstore", "s.t": "columnstore", "u.x": "columnstore" })
}

#[test]
fn groups_are_read_from_segments_and_touched_documents() {
    let mut server = start_filled(&column_key());
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
    let stage = server.explain_stages(std::slice::from_ref(&group));
    assert_eq!(stage["stage"], json!("COLUMN_SCAN"), "{stage}");
    assert_eq!(counted(&stage), ["3", "0", "300", "0"]);
    // Two segments contain no value between 12 and 15.
    let range = json!({ "$match": { "a": { "$gte": 12, "$lt": 15 } } });
    let stages = [range, group.clone()];
    assert_eq!(
        counted(&server.explain_stages(&stages)),
        ["1", "2", "100", "0"]
    );
    server.ok(
        &json!({ "update": "c", "updates": [{ "q": { "_id": 7 }, "u": { "$set": { "a": 13 } } }] }),
    );
    server.ok(&json!({ "delete": "c", "deletes": [{ "q": { "_id": 130 }, "limit": 1 }] }));
    server.ok(&json!({ "insert": "c", "documents": [{ "_id": 1000, "a": 14 }] }));
    assert_eq!(
        counted(&server.explain_stages(&stages)),
        ["1", "2", "99", "2"]
    );
    let [by_columns, by_documents] = server.run_both(&stages, &json!({}));
    assert_eq!(by_columns, by_documents);
    // The path leads through arrays: each document would be read, so a scan is used.
    let below = [json!({ "$group": { "_id": "$u.x" } })];
    assert_eq!(server.explain_stages(&below)["stage"], json!("COLLSCAN"));
    // A field without a column.
    let other = [json!({ "$group": { "_id": "$z" } })];
    assert_eq!(server.explain_stages(&other)["stage"], json!("COLLSCAN"));
    server.validate();
}

#[test]
fn all_top_level_fields_are_columns_of_one_index() {
    let mut server = start_filled(&json!({ "$**": "columnstore" }));
    let stage =
        server.explain_stages(&[json!({ "$group": { "_id": "$a", "z": { "$max": "$z" } } })]);
    assert_eq!(
        stage["rowsFromSegments"],
        json!({ "$numberInt": "300" }),
        "{stage}"
    );
    // A path below a field is read from the field's values.
    let below = [json!({ "$group": { "_id": "$s.t", "n": { "$sum": 1 } } })];
    let stage = server.explain_stages(&below);
    assert_eq!(
        stage["rowsFromSegments"],
        json!({ "$numberInt": "300" }),
        "{stage}"
    );
    let [by_columns, by_documents] = server.run_both(&below, &json!({}));
    assert_eq!(by_columns, by_documents);
    let find = json!({ "find": "c", "filter": { "s.t": "x1" }, "projection": { "s.t": 1 },
        "batchSize": 1 });
    let found = server.ok(&find)["cursor"]["firstBatch"][0].to_string();
    let wanted = json!({ "_id": { "$numberInt": "1" }, "s": { "t": "x1" } });
    assert_eq!(found, wanted.to_string());
}

#[test]
fn hints_and_hiding_say_whether_columns_are_read() {
    let mut server = start_filled(&column_key());
    let stages = [json!({ "$group": { "_id": "$a" } })];
    let stage = |server: &mut Server, hint: Json| {
        let inner = json!({ "aggregate": "c", "pipeline": stages, "cursor": {}, "hint": hint });
        let reply = server.send(&json!({ "explain": inner, "verbosity": "queryPlanner" }));
        let plan = &reply["stages"][0]["$cursor"]["queryPlanner"]["winningPlan"];
        lowest(plan.clone())["stage"].clone()
    };
    assert_eq!(stage(&mut server, json!("columns")), json!("COLUMN_SCAN"));
    assert_eq!(stage(&mut server, column_key()), json!("COLUMN_SCAN"));
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
    let [by_columns, by_documents] = server.run_both(&stages, &json!({}));
    assert_eq!(by_columns, by_documents);
    // A find of whole documents reads the documents, even if the index is hinted.
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
        let index = with_fields(json!({ "key": key, "name": "n" }), &option);
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

/// The rows of the first segment: their keys, and its columns by number.
fn columns_of(engine: &dyn Engine, rows: usize) -> Vec<(Vec<u8>, SegmentColumn)> {
    let range = KeyRange::new(&[], &[0xFE; 4]);
    let cursor = engine.cursor(Table::Idx, range, CursorOpts::default());
    let mut cursor = cursor.expect("a cursor");
    let mut all = Vec::new();
    let each = &mut |key: &[u8], value: &[u8]| {
        if key.get(4) == Some(&3) {
            let column = SegmentColumn::decode(value, rows).expect("a column");
            all.push((key.to_vec(), column));
        }
        true
    };
    while cursor.visit(100, each).expect("rows") {}
    all
}

#[test]
fn a_full_validate_reports_an_index_value_that_differs_from_its_document() {
    let engine = Arc::new(MemoryEngine::new());
    let hooks = StoreHooks::new(Arc::new(SystemClock::default()));
    let store = Store::open(engine.clone(), Arc::new(hooks)).expect("a store");
    let sizes = Sizes {
        docs_max: 50,
        docs_min: 10,
    };
    let mut server = Server::start_on(sizes, Arc::new(store));
    let docs: Vec<Json> = (0..50)
        .map(|i| json!({ "_id": i, "a": i * 7, "s": { "t": "x" } }))
        .collect();
    server.ok(&json!({ "insert": "c", "documents": docs }));
    let key = json!({ "a": "columnstore", "s.t": "columnstore" });
    let index = json!({ "key": key, "name": "columns" });
    server.ok(&json!({ "createIndexes": "c", "indexes": [index] }));
    server.work();
    server.validate();
    let put = |key: &[u8], column: &SegmentColumn| {
        let mut batch = WriteBatch::new();
        batch.put(Table::Idx, key, &column.encode());
        let durability = Durability::Buffered;
        engine.apply(&batch, durability).expect("a write");
    };
    let whole = columns_of(engine.as_ref(), 50);
    // The columns are: ids, `a`, `s.t`, `_id`, shapes.
    assert_eq!(whole.len(), 5);
    let mut errors = |full: bool| {
        let reply = server.ok(&json!({ "validate": "c", "full": full }));
        reply["errors"].clone()
    };
    let (key, sound) = &whole[1];
    let mut damaged = sound.clone();
    damaged.words[13] += 1;
    put(key, &damaged);
    assert_eq!(errors(false), json!([]));
    let told = errors(true).to_string();
    assert!(
        told.contains("column a: the value of the document at"),
        "{told}"
    );
    put(key, sound);
    assert_eq!(errors(true), json!([]));
    let (key, sound) = &whole[4];
    let mut damaged = SegmentColumn::default();
    (0..50).for_each(|_| damaged.push_long(model::Tag::BINARY, &[2, 0]));
    put(key, &damaged);
    let told = errors(true).to_string();
    assert!(
        told.contains("the column of shapes: the value of the document at"),
        "{told}"
    );
    put(key, sound);
    // The row of a changed document is not validated.
    let change = json!({ "q": { "_id": 13 }, "u": { "$set": { "a": "other" } } });
    server.ok(&json!({ "update": "c", "updates": [change] }));
    server.validate();
}
