//! Which release of MongoDB is followed: 8.2 unless told otherwise, and what 9.0 does otherwise.

use crate::behaviour::{send, serve};
use crate::interrupts::{code, json};
use crate::observability::int;
use crate::truths::batch;
use commands::{Config, Connection, Dispatcher, Profile, StoreHooks, SystemClock};
use model::DocBuf;
use std::sync::Arc;

struct Followed {
    server: Arc<Dispatcher>,
    conn: Connection,
}

impl Followed {
    fn new(profile: Profile) -> Followed {
        let hooks = StoreHooks::new(Arc::new(SystemClock::default())).following(profile);
        let engine = Arc::new(storage::MemoryEngine::new());
        let store = store::Store::open(engine, Arc::new(hooks)).expect("an empty store");
        let config = Config {
            profile,
            ..Config::default()
        };
        let server = serve(config, Arc::new(store));
        let conn = server.connect("127.0.0.1:77");
        Followed { server, conn }
    }

    fn run(&mut self, db: &str, command: &str) -> DocBuf {
        send(&self.server, &mut self.conn, db, json(command).doc())
    }

    fn ok(&mut self, command: &str) -> DocBuf {
        let reply = self.run("db", command);
        assert_eq!(code(&reply), 0, "{command}: {reply:?}");
        reply
    }

    fn code(&mut self, command: &str) -> i64 {
        code(&self.run("db", command))
    }

    fn ids(&mut self, filter: &str) -> Vec<i64> {
        let find = format!(r#"{{"find": "c", "filter": {filter}, "sort": {{"_id": 1}}}}"#);
        batch(&self.ok(&find))
            .iter()
            .map(|d| int(d, "_id"))
            .collect()
    }
}

#[test]
fn each_release_tells_its_own_versions() {
    for (profile, version, wire, fcv, other) in [
        (Profile::V8_2, "8.2.0", 27, "8.2", "9.0"),
        (Profile::V9_0, "9.0.0", 29, "9.0", "8.2"),
    ] {
        let mut s = Followed::new(profile);
        let build = s.ok(r#"{"buildInfo": 1}"#);
        assert_eq!(build.doc().field("version").as_str(), Some(version));
        let status = s.run("admin", r#"{"serverStatus": 1}"#);
        assert_eq!(status.doc().field("version").as_str(), Some(version));
        assert_eq!(int(&s.ok(r#"{"hello": 1}"#), "maxWireVersion"), wire);
        let get = r#"{"getParameter": 1, "featureCompatibilityVersion": 1}"#;
        let told = s.run("admin", get);
        let told = told.doc().field("featureCompatibilityVersion").as_doc();
        let told = told.map(|d| d.field("version").as_str().unwrap_or("").to_owned());
        assert_eq!(told.as_deref(), Some(fcv));
        let set =
            |v: &str| format!(r#"{{"setFeatureCompatibilityVersion": "{v}", "confirm": true}}"#);
        assert_eq!(code(&s.run("admin", &set("8.0"))), 0);
        assert_eq!(code(&s.run("admin", &set(fcv))), 0);
        assert_eq!(code(&s.run("admin", &set(other))), 4_926_900);
    }
}

#[test]
fn what_9_0_refuses_and_knows_is_unknown_to_8_2() {
    let pipeline =
        |stage: &str| format!(r#"{{"aggregate": "c", "cursor": {{}}, "pipeline": [{stage}]}}"#);
    let hash = r#"{"$project": {"h": {"$hash": {"input": "a", "algorithm": "md5"}}}}"#;
    let index = r#"{"$project": {"i": {"$filter": {"input": [1, 2], "cond": "$$IDX"}}}}"#;
    let sum = r#"{"$project": {"i": {"$reduce": {"input": [5, 5], "initialValue": 0,
        "arrayIndexAs": "n", "valueAs": "v", "in": {"$add": ["$$v", "$$n"]}}}}}"#;
    let group = r#"{"$group": {"_id": 1, "": {"$sum": 1}}}"#;
    let rows = [
        (hash, 168, 0),
        (index, 17276, 0),
        (sum, 40076, 0),
        (group, 0, 15998),
    ];
    for (stage, old, new) in rows {
        let command = pipeline(stage);
        assert_eq!(Followed::new(Profile::V8_2).code(&command), old, "{stage}");
        assert_eq!(Followed::new(Profile::V9_0).code(&command), new, "{stage}");
    }
    for (profile, refused) in [(Profile::V8_2, 16755), (Profile::V9_0, 510)] {
        let mut s = Followed::new(profile);
        s.ok(r#"{"createIndexes": "g", "indexes": [{"key": {"p": "2dsphere"}, "name": "p"}]}"#);
        let insert = s.run("db", r#"{"insert": "g", "documents": [{"p": 1}]}"#);
        let errors = insert
            .doc()
            .field("writeErrors")
            .as_array()
            .expect("a refusal");
        let first = errors.get(0).and_then(|v| v.as_doc().map(|d| d.to_buf()));
        assert_eq!(int(&first.expect("a document"), "code"), refused);
    }
}

#[test]
fn null_is_found_in_arrays_whatever_index_there_is() {
    let documents = r#"{"insert": "c", "documents": [
        {"_id": 0, "a": [1]}, {"_id": 1, "a": []}, {"_id": 2, "a": [[{"b": 3}]]},
        {"_id": 3, "a": [[{"b": 2}], {"b": 3}]}, {"_id": 4, "a": [{"b": 3}]},
        {"_id": 5, "a": {"b": 3}}, {"_id": 6, "a": 1}, {"_id": 7}, {"_id": 8, "a": {"b": null}},
        {"_id": 9, "a": [{"c": 1}]}]}"#;
    let indexes = [
        r#"{"key": {"a.b": 1}, "name": "i"}"#,
        r#"{"key": {"a.b": 1, "a.c": 1}, "name": "i"}"#,
        r#"{"key": {"a.b": 1}, "name": "i", "sparse": true}"#,
        r#"{"key": {"a.b": 1}, "name": "i", "partialFilterExpression": {"a.b": null}}"#,
        r#"{"key": {"a.$**": 1}, "name": "i"}"#,
        r#"{"key": {"$**": 1}, "name": "i"}"#,
    ];
    let filters: [(&str, &[i64], &[i64]); 5] = [
        (r#"{"a.b": null}"#, &[6, 7, 8, 9], &[0, 1, 2, 3, 6, 7, 8, 9]),
        (
            r#"{"a.b": {"$in": [null, 5]}}"#,
            &[6, 7, 8, 9],
            &[0, 1, 2, 3, 6, 7, 8, 9],
        ),
        (r#"{"a.b": {"$ne": null}}"#, &[0, 1, 2, 3, 4, 5], &[4, 5]),
        (
            r#"{"$or": [{"a.b": null}, {"a.b": 3}]}"#,
            &[3, 4, 5, 6, 7, 8, 9],
            &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
        ),
        (r#"{"a.b": 3}"#, &[3, 4, 5], &[3, 4, 5]),
    ];
    for index in [None].into_iter().chain(indexes.map(Some)) {
        for profile in Profile::ALL {
            let mut s = Followed::new(profile);
            if let Some(index) = index {
                s.ok(&format!(
                    r#"{{"createIndexes": "c", "indexes": [{index}]}}"#
                ));
            }
            s.ok(documents);
            for (filter, old, new) in filters {
                let wanted = match profile {
                    Profile::V8_2 => old,
                    Profile::V9_0 => new,
                };
                assert_eq!(s.ids(filter), wanted, "{profile:?} {filter} {index:?}");
            }
        }
    }
}
