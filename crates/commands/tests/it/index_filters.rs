//! `planCacheSetFilter`: the indexes that queries of a shape use, whatever they hint.

use crate::behaviour::{send, serve, store};
use crate::interrupts::json;
use commands::{Config, Connection, Dispatcher};
use model::DocBuf;
use std::sync::Arc;

struct Db {
    service: Arc<Dispatcher>,
    conn: Connection,
}

impl Db {
    fn new() -> Db {
        let service = serve(Config::default(), store());
        let conn = service.connect("127.0.0.1:50000");
        let mut db = Db { service, conn };
        for command in [
            "{'insert': 'c', 'documents': [{'a': 1, 'b': 1}, {'a': 2, 'b': 2}]}",
            "{'createIndexes': 'c', 'indexes': [{'key': {'a': 1}, 'name': 'a'}, \
                {'key': {'b': 1}, 'name': 'b'}, {'key': {'z': 1}, 'name': 'z'}]}",
        ] {
            db.run(command);
        }
        db
    }

    fn run(&mut self, command: &str) -> DocBuf {
        let command = json(&command.replace('\'', "\""));
        let reply = send(&self.service, &mut self.conn, "d", command.doc());
        assert!(!reply.doc().contains("code"), "{command:?} {reply:?}");
        reply
    }

    /// The index that a command uses, or the stage that reads without an index; and whether explain
    /// reports a filter.
    fn plan(&mut self, command: &str) -> (String, bool) {
        let reply = self.run(&format!("{{'explain': {command}}}"));
        let text = format!("{reply:?}");
        let filtered = text.contains("indexFilterSet: true");
        let index = text.split("indexName: \"").nth(1);
        let index = index.and_then(|rest| rest.split('"').next());
        let scan = if text.contains("COLLSCAN") {
            "COLLSCAN"
        } else {
            ""
        };
        (index.unwrap_or(scan).to_owned(), filtered)
    }
}

fn expected_plan(name: &str, filtered: bool) -> (String, bool) {
    (name.to_owned(), filtered)
}

const SET_B: &str = "{'planCacheSetFilter': 'c', 'query': {'a': 1, 'b': {'$gt': 1}}, \
    'indexes': [{'b': 1}]}";

#[test]
fn all_commands_of_a_shape_use_what_the_filter_allows() {
    let mut db = Db::new();
    let q = "{'b': {'$gt': 0}, 'a': 2}";
    let commands = [
        format!("{{'find': 'c', 'filter': {q}}}"),
        "{'find': 'c', 'filter': {'$and': [{'a': 7}, {'b': {'$gt': 9}}]}}".to_owned(),
        format!("{{'find': 'c', 'filter': {q}, 'hint': 'a'}}"),
        format!("{{'find': 'c', 'filter': {q}, 'hint': {{'$natural': 1}}}}"),
        format!("{{'count': 'c', 'query': {q}}}"),
        format!("{{'distinct': 'c', 'key': 'x', 'query': {q}}}"),
        format!("{{'aggregate': 'c', 'pipeline': [{{'$match': {q}}}], 'cursor': {{}}}}"),
        format!("{{'update': 'c', 'updates': [{{'q': {q}, 'u': {{'$set': {{'x': 1}}}}}}]}}"),
        format!("{{'delete': 'c', 'deletes': [{{'q': {q}, 'limit': 0}}]}}"),
        format!("{{'findAndModify': 'c', 'query': {q}, 'remove': true}}"),
    ];
    for command in &commands {
        assert_ne!(db.plan(command), expected_plan("b", true), "{command}");
    }
    db.run(SET_B);
    for command in &commands {
        assert_eq!(db.plan(command), expected_plan("b", true), "{command}");
    }
    db.run("{'planCacheClearFilters': 'c'}");
    assert_eq!(db.plan(&commands[0]), expected_plan("a", false));
    // The executed plan is the one that explain shows.
    db.run(SET_B);
    let done = db.run(&format!("{{'count': 'c', 'query': {q}}}"));
    assert_eq!(done.doc().field("n").as_i64_exact(), Some(1));
    let update =
        format!("{{'update': 'c', 'updates': [{{'q': {q}, 'u': {{'$set': {{'x': 1}}}}}}]}}");
    assert_eq!(
        db.run(&update).doc().field("nModified").as_i64_exact(),
        Some(1)
    );
    let find = db.run(&commands[0]);
    let batch = find.doc().field("cursor").as_doc().expect("a cursor");
    let batch = batch.field("firstBatch").as_array().expect("a batch");
    assert_eq!(batch.iter().count(), 1);
}

#[test]
fn other_shapes_are_free() {
    let mut db = Db::new();
    db.run(SET_B);
    for command in [
        "{'find': 'c', 'filter': {'a': 2, 'b': 2}}",
        "{'find': 'c', 'filter': {'a': 2, 'b': {'$lt': 2}}}",
        "{'find': 'c', 'filter': {'a': 2, 'b': {'$gt': 0}}, 'sort': {'a': 1}}",
        "{'find': 'c', 'filter': {'a': 2, 'b': {'$gt': 0}}, 'projection': {'a': 1}}",
        "{'find': 'other', 'filter': {'a': 2, 'b': {'$gt': 0}}}",
    ] {
        assert!(!db.plan(command).1, "{command}");
    }
    let collation = "'collation': {'locale': 'de'}";
    let number = "{'find': 'c', 'filter': {'a': 2, 'b': {'$gt': 0}}";
    assert!(!db.plan(&format!("{number}, {collation}}}")).1);
    db.run(&SET_B.replace("'indexes'", &format!("{collation}, 'indexes'")));
    assert!(db.plan(&format!("{number}, {collation}}}")).1);
    db.run("{'planCacheClearFilters': 'c', 'query': {'b': {'$gt': 77}, 'a': 77}}");
    assert!(!db.plan(&format!("{number}}}")).1);
    assert!(db.plan(&format!("{number}, {collation}}}")).1);
}

#[test]
fn without_an_index_of_use_the_collection_is_read() {
    let mut db = Db::new();
    for index in ["'z'", "'never'", "{'never': 1}"] {
        db.run(&SET_B.replace("{'b': 1}", index));
        let find = "{'find': 'c', 'filter': {'a': 2, 'b': {'$gt': 0}}}";
        assert_eq!(db.plan(find), expected_plan("COLLSCAN", true), "{index}");
    }
    // A lookup by `_id` is not planned.
    db.run("{'planCacheSetFilter': 'c', 'query': {'_id': 1}, 'indexes': ['a']}");
    assert_ne!(db.plan("{'find': 'c', 'filter': {'_id': 3}}").0, "COLLSCAN");
    // Filters are removed together with the collection.
    db.run("{'drop': 'c'}");
    db.run("{'insert': 'c', 'documents': [{'a': 1}]}");
    assert!(
        !db.plan("{'find': 'c', 'filter': {'a': 2, 'b': {'$gt': 0}}}")
            .1
    );
}

#[test]
fn settings_of_a_query_come_before_its_filter() {
    let mut db = Db::new();
    db.run(SET_B);
    // The hint is part of the shape, and is ignored once there are settings.
    for hint in ["", ", 'hint': 'z'"] {
        let query = format!("{{'find': 'c', 'filter': {{'a': 1, 'b': {{'$gt': 1}}}}{hint}");
        db.run(&format!(
            "{{'setQuerySettings': {query}, '$db': 'd'}}, 'settings': {{'indexHints': {{'ns': \
                {{'db': 'd', 'coll': 'c'}}, 'allowedIndexes': ['a']}}}}, '$db': 'admin'}}"
        ));
        assert_eq!(db.plan(&format!("{query}}}")), expected_plan("a", false));
    }
}
