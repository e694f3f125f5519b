//! `setQuerySettings` and `removeQuerySettings`: shapes, rejection, allowed indexes.

use crate::behaviour::{send, serve, store};
use commands::{Config, Connection, Dispatcher};
use model::{DocBuf, extjson};
use std::sync::Arc;

struct Db {
    service: Arc<Dispatcher>,
    conn: Connection,
}

impl Db {
    fn connect_to(store: Arc<store::Store>) -> Db {
        let service = serve(Config::default(), store);
        let conn = service.connect("127.0.0.1:50000");
        Db { service, conn }
    }

    fn new() -> Db {
        let mut db = Db::connect_to(store());
        db.run(
            "test",
            "{'insert': 'c', 'documents': [{'a': 1, 'b': 1}, {'a': 2, 'b': 2}]}",
        );
        db.run(
            "test",
            "{'createIndexes': 'c', 'indexes': [{'key': {'a': 1}, 'name': 'a'}, \
                {'key': {'b': 1}, 'name': 'b'}]}",
        );
        db
    }

    fn run(&mut self, name: &str, command: &str) -> DocBuf {
        let command = extjson::parse_document(&command.replace('\'', "\"")).expect(command);
        send(&self.service, &mut self.conn, name, command.doc())
    }

    fn code(&mut self, name: &str, command: &str) -> i64 {
        let reply = self.run(name, command);
        reply.doc().field("code").as_i64_exact().unwrap_or(0)
    }

    /// The index that a find uses.
    fn index(&mut self, filter: &str) -> Option<String> {
        let explain = format!("{{'explain': {{'find': 'c', 'filter': {filter}}}}}");
        let reply = self.run("test", &explain);
        let mut at = reply
            .doc()
            .field("queryPlanner")
            .as_doc()?
            .field("winningPlan")
            .as_doc()?
            .to_buf();
        loop {
            if let Some(name) = at.doc().field("indexName").as_str() {
                return Some(name.to_owned());
            }
            at = at.doc().field("inputStage").as_doc()?.to_buf();
        }
    }
}

const SHAPE: &str = "{'find': 'c', 'filter': {'a': 5, 'b': 5}, '$db': 'test'}";

#[test]
fn queries_of_a_shape_are_rejected_until_the_settings_are_removed() {
    let mut db = Db::new();
    let set = format!("{{'setQuerySettings': {SHAPE}, 'settings': {{'reject': true}}}}");
    let reply = db.run("admin", &set);
    let hash = reply
        .doc()
        .field("queryShapeHash")
        .as_str()
        .unwrap_or_default()
        .to_owned();
    assert_eq!(hash.len(), 64, "{:?}", reply.doc());
    for (command, code) in [
        ("{'find': 'c', 'filter': {'a': 1, 'b': 2}}", 411),
        ("{'find': 'c', 'filter': {'b': 1, 'a': 2}}", 0),
        ("{'find': 'c', 'filter': {'a': 1}}", 0),
        ("{'find': 'c', 'filter': {'a': 'x', 'b': 2}}", 0),
        (
            "{'find': 'c', 'filter': {'a': 1, 'b': 2}, 'sort': {'a': 1}}",
            0,
        ),
        ("{'find': 'd', 'filter': {'a': 1, 'b': 2}}", 0),
        ("{'explain': {'find': 'c', 'filter': {'a': 1, 'b': 2}}}", 0),
    ] {
        assert_eq!(db.code("test", command), code, "{command}");
    }
    let list = db.run(
        "admin",
        "{'aggregate': 1, 'pipeline': [{'$querySettings': {}}], 'cursor': {}}",
    );
    assert!(format!("{:?}", list.doc()).contains(&hash));
    let explained = db.run(
        "test",
        "{'explain': {'find': 'c', 'filter': {'a': 1, 'b': 2}}}",
    );
    assert_eq!(
        explained.doc().field("queryShapeHash").as_str(),
        Some(hash.as_str())
    );
    assert_eq!(
        db.code("admin", &format!("{{'removeQuerySettings': '{hash}'}}")),
        0
    );
    assert_eq!(
        db.code("test", "{'find': 'c', 'filter': {'a': 1, 'b': 2}}"),
        0
    );
    for (kind, command) in [
        (
            "aggregate",
            "{'aggregate': 'c', 'pipeline': [{'$match': {'a': 1}}], 'cursor': {}, '$db': 'test'}",
        ),
        (
            "distinct",
            "{'distinct': 'c', 'key': 'a', 'query': {'b': 1}, '$db': 'test'}",
        ),
    ] {
        let set = format!("{{'setQuerySettings': {command}, 'settings': {{'reject': true}}}}");
        assert_eq!(db.code("admin", &set), 0, "{kind}");
        assert_eq!(db.code("test", command), 411, "{kind}");
    }
}

#[test]
fn only_allowed_indexes_are_used_as_long_as_one_can_be() {
    let mut db = Db::new();
    assert_eq!(db.index("{'a': 1, 'b': 1}").as_deref(), Some("a"));
    let allow = |what: &str| {
        format!(
            "{{'setQuerySettings': {SHAPE}, 'settings': {{'indexHints': [{{'ns': {{'db': 'test', \
                'coll': 'c'}}, 'allowedIndexes': [{what}]}}]}}}}"
        )
    };
    for (allowed, used) in [
        ("'b'", "b"),
        ("{'b': 1}", "b"),
        ("'a'", "a"),
        ("'none'", "a"),
    ] {
        assert_eq!(db.code("admin", &allow(allowed)), 0, "{allowed}");
        assert_eq!(
            db.index("{'a': 1, 'b': 1}").as_deref(),
            Some(used),
            "{allowed}"
        );
    }
}

#[test]
fn arguments() {
    let mut db = Db::new();
    let ns = "'ns': {'db': 'test', 'coll': 'c'}";
    for (settings, code) in [
        ("{}".to_owned(), 8727502),
        ("{'reject': false}".to_owned(), 7746604),
        ("{'comment': 'x'}".to_owned(), 7746604),
        ("{'reject': 1}".to_owned(), 14),
        ("{'reject': null}".to_owned(), 14),
        ("{'queryFramework': 'x'}".to_owned(), 2),
        ("{'queryFramework': 'sbe'}".to_owned(), 0),
        ("{'what': 1}".to_owned(), 40415),
        ("{'indexHints': 1}".to_owned(), 14),
        ("{'indexHints': [1]}".to_owned(), 14),
        ("{'indexHints': [{'allowedIndexes': []}]}".to_owned(), 40414),
        (format!("{{'indexHints': [{{{ns}}}]}}"), 40414),
        (
            format!("{{'indexHints': [{{{ns}, 'allowedIndexes': 'a'}}]}}"),
            14,
        ),
        (
            format!("{{'indexHints': [{{{ns}, 'allowedIndexes': [1]}}]}}"),
            9,
        ),
        (
            format!("{{'indexHints': [{{{ns}, 'allowedIndexes': [{{}}]}}]}}"),
            9646000,
        ),
        (
            format!("{{'indexHints': {{{ns}, 'allowedIndexes': ['a']}}}}"),
            0,
        ),
        (
            "{'indexHints': [{'ns': {'coll': 'c'}, 'allowedIndexes': []}]}".to_owned(),
            8727500,
        ),
        (
            "{'indexHints': [{'ns': {'db': 'c'}, 'allowedIndexes': []}]}".to_owned(),
            8727501,
        ),
    ] {
        let command = format!("{{'setQuerySettings': {SHAPE}, 'settings': {settings}}}");
        assert_eq!(db.code("admin", &command), code, "{settings}");
    }
    let unknown = "0".repeat(64);
    for (shape, code) in [
        ("''".to_owned(), 16),
        ("'ABCD'".to_owned(), 16),
        (format!("'{}'", "G".repeat(64)), 2),
        (format!("'{unknown}'"), 7746401),
        ("1".to_owned(), 14),
        ("null".to_owned(), 14),
        ("{}".to_owned(), 7746402),
        ("{'count': 'c', '$db': 'test'}".to_owned(), 7746402),
        ("{'find': 'c'}".to_owned(), 40414),
        ("{'find': 'c', '$db': ''}".to_owned(), 73),
        ("{'find': 'c', '$db': 'admin'}".to_owned(), 8584900),
        ("{'find': 'system.x', '$db': 'test'}".to_owned(), 8584901),
    ] {
        let command = format!("{{'setQuerySettings': {shape}, 'settings': {{'reject': true}}}}");
        assert_eq!(db.code("admin", &command), code, "{shape}");
    }
    assert_eq!(
        db.code("admin", &format!("{{'removeQuerySettings': '{unknown}'}}")),
        0
    );
    assert_eq!(
        db.code(
            "admin",
            &format!("{{'removeQuerySettings': {SHAPE}, 'x': 1}}")
        ),
        40415
    );
}

#[test]
fn they_survive_a_restart() {
    let mut db = Db::new();
    let set =
        |what: &str| format!("{{'setQuerySettings': {SHAPE}, 'settings': {what}, '$db': 'admin'}}");
    let hints = "{'indexHints': [{'ns': {'db': 'test', 'coll': 'c'}, 'allowedIndexes': ['b']}]}";
    let listed = "{'aggregate': 1, 'pipeline': [{'$querySettings': {}}], 'cursor': {}}";
    db.run("admin", &set(hints));
    let batch = |db: &mut Db| {
        let reply = db.run("admin", listed);
        let cursor = reply.doc().field("cursor").as_doc().expect("a cursor");
        cursor.field("firstBatch").to_owned_value()
    };
    let before = batch(&mut db);
    let mut db = Db::connect_to(Arc::clone(&db.service.service().store));
    assert_eq!(batch(&mut db), before);
    assert_eq!(db.index("{'a': 1, 'b': 1}").as_deref(), Some("b"));
    db.run("admin", &set("{'reject': true}"));
    let mut db = Db::connect_to(Arc::clone(&db.service.service().store));
    assert_eq!(
        db.code("test", "{'find': 'c', 'filter': {'a': 1, 'b': 1}}"),
        411
    );
    db.run(
        "admin",
        &format!("{{'removeQuerySettings': {SHAPE}, '$db': 'admin'}}"),
    );
    let mut db = Db::connect_to(Arc::clone(&db.service.service().store));
    assert_eq!(
        db.code("test", "{'find': 'c', 'filter': {'a': 1, 'b': 1}}"),
        0
    );
    let none = batch(&mut db).get().as_array().map(|a| a.iter().count());
    assert_eq!(none, Some(0));
}
