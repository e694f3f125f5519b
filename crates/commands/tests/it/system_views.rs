//! `system.views` is listed and read like the collection in which MongoDB stores a database's
//! views.

use crate::behaviour::{send, serve, store};
use commands::{Config, Connection, Dispatcher};
use model::extjson;
use serde_json::{Value as Json, json};
use std::sync::Arc;

struct Server {
    service: Arc<Dispatcher>,
    conn: Connection,
}

impl Server {
    fn new() -> Server {
        let service = serve(Config::default(), store());
        let conn = service.connect("127.0.0.1:50000");
        Server { service, conn }
    }

    fn ask(&mut self, command: &Json) -> Json {
        let command = extjson::document(command).expect("a document");
        let reply = send(&self.service, &mut self.conn, "d", command.doc());
        extjson::from_document(reply.doc(), extjson::Mode::Relaxed)
    }

    fn batch(&mut self, command: &Json) -> Vec<Json> {
        let reply = self.ask(command);
        let batch = reply["cursor"]["firstBatch"].as_array().cloned();
        batch.unwrap_or_else(|| panic!("{command} {reply}"))
    }

    fn names(&mut self) -> Vec<String> {
        let all = self.batch(&json!({ "listCollections": 1, "nameOnly": true }));
        let name = |one: &Json| one["name"].as_str().unwrap_or_default().to_owned();
        let mut names: Vec<String> = all.iter().map(name).collect();
        names.sort();
        names
    }
}

#[test]
fn it_is_there_as_long_as_there_is_a_view() {
    let mut s = Server::new();
    s.ask(&json!({ "insert": "c", "documents": [{ "_id": 1, "a": 1 }] }));
    assert_eq!(s.names(), ["c"]);
    assert!(s.batch(&json!({ "find": "system.views" })).is_empty());
    let missing = s.ask(&json!({ "listIndexes": "system.views" }));
    assert_eq!(missing["code"], 26, "{missing}");

    let pipeline = json!([{ "$match": { "a": 1 } }]);
    s.ask(&json!({ "create": "w", "viewOn": "c", "pipeline": [] }));
    s.ask(&json!({ "create": "v", "viewOn": "c", "pipeline": pipeline,
        "collation": { "locale": "fr" } }));
    assert_eq!(s.names(), ["c", "system.views", "v", "w"]);
    let listed = s.batch(&json!({ "listCollections": 1, "filter": { "name": "system.views" } }));
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0]["type"], "collection");
    assert_eq!(listed[0]["info"]["readOnly"], false);
    assert_eq!(listed[0]["idIndex"]["name"], "_id_");
    let indexes = s.batch(&json!({ "listIndexes": "system.views" }));
    assert_eq!(
        indexes,
        [json!({ "v": 2, "key": { "_id": 1 }, "name": "_id_" })]
    );

    let views = s.batch(&json!({ "find": "system.views" }));
    assert_eq!(views.len(), 2);
    assert_eq!(views[0]["_id"], "d.v");
    assert_eq!(views[0]["collation"]["locale"], "fr");
    assert_eq!(
        views[1],
        json!({ "_id": "d.w", "viewOn": "c", "pipeline": [] })
    );
    let found = s.batch(
        &json!({ "find": "system.views", "filter": { "pipeline.$match.a": 1 },
        "projection": { "viewOn": 1 } }),
    );
    assert_eq!(found, [json!({ "_id": "d.v", "viewOn": "c" })]);
    let found = s.batch(&json!({ "find": "system.views", "filter": { "_id": "d.v" },
        "projection": { "pipeline": 1, "_id": 0 } }));
    assert_eq!(found, [json!({ "pipeline": pipeline })]);
    let counted = s.ask(&json!({ "count": "system.views", "query": { "viewOn": "c" } }));
    assert_eq!(counted["n"], 2, "{counted}");
    let distinct = s.ask(&json!({ "distinct": "system.views", "key": "_id" }));
    assert_eq!(distinct["values"], json!(["d.v", "d.w"]));
    let joined = s.batch(&json!({ "aggregate": "c", "cursor": {}, "pipeline": [
        { "$lookup": { "from": "system.views", "pipeline": [{ "$sort": { "_id": -1 } }],
            "as": "views" } }, { "$project": { "views._id": 1 } }] }));
    assert_eq!(
        joined[0]["views"],
        json!([{ "_id": "d.w" }, { "_id": "d.v" }])
    );

    s.ask(&json!({ "drop": "v" }));
    s.ask(&json!({ "drop": "w" }));
    assert_eq!(s.names(), ["c"]);
}

#[test]
fn a_time_series_is_a_view_of_its_buckets() {
    let mut s = Server::new();
    s.ask(&json!({ "create": "t", "timeseries": { "timeField": "at", "metaField": "m" } }));
    assert_eq!(s.names(), ["system.buckets.t", "system.views", "t"]);
    let views = s.batch(&json!({ "find": "system.views" }));
    assert_eq!(views.len(), 1);
    assert_eq!(views[0]["viewOn"], "system.buckets.t");
    let unpack = &views[0]["pipeline"][0]["$_internalUnpackBucket"];
    assert_eq!(unpack["timeField"], "at");
    assert_eq!(unpack["metaField"], "m");
}

#[test]
fn the_profilers_collection_has_no_index() {
    let mut s = Server::new();
    s.ask(&json!({ "profile": 2 }));
    assert!(
        s.batch(&json!({ "listIndexes": "system.profile" }))
            .is_empty()
    );
    let set = s.ask(&json!({ "profile": 1, "filter": { "op": "query", "millis": { "$gt": 5 } } }));
    assert_eq!(set["ok"], 1.0, "{set}");
    let told = s.ask(&json!({ "profile": -1 }));
    let filter = json!({ "$and": [{ "op": { "$eq": "query" } }, { "millis": { "$gt": 5 } }] });
    assert_eq!(told["filter"], filter);
}
