//! The followed release of MongoDB: 8.2 by default, and the differences of 9.0.

use crate::behaviour::{send, serve};
use crate::interrupts::{code, json};
use crate::observability::int;
use crate::truths::batch;
use commands::{Config, Connection, Dispatcher, Profile, StoreHooks, SystemClock};
use model::DocBuf;
use std::sync::Arc;

struct ProfiledServer {
    server: Arc<Dispatcher>,
    conn: Connection,
}

impl ProfiledServer {
    fn new(profile: Profile) -> ProfiledServer {
        let hooks = StoreHooks::new(Arc::new(SystemClock::default())).with_profile(profile);
        let engine = Arc::new(storage::MemoryEngine::new());
        let store = store::Store::open(engine, Arc::new(hooks)).expect("an empty store");
        let config = Config {
            profile,
            ..Config::default()
        };
        let server = serve(config, Arc::new(store));
        let conn = server.connect("127.0.0.1:77");
        ProfiledServer { server, conn }
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
        let mut s = ProfiledServer::new(profile);
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

fn pipeline(stage: &str) -> String {
    format!(
        r#"{{"aggregate": 1, "cursor": {{}}, "pipeline": [{{"$documents": [{{}}]}}, {stage}]}}"#
    )
}

#[test]
fn what_8_3_added_is_known_in_every_profile() {
    let rows = [
        (
            r#"{"$hexHash": {"input": "abc", "algorithm": "xxh64"}}"#,
            r#""44BC2CF5AD770999""#,
        ),
        (
            r#"{"$filter": {"input": [1, 2], "cond": "$$IDX"}}"#,
            "[ 2 ]",
        ),
        (
            r#"{"$reduce": {"input": [5, 5], "initialValue": 0, "arrayIndexAs": "n",
                "valueAs": "v", "in": {"$add": ["$$v", "$$n"]}}}"#,
            "1",
        ),
        (
            r#"{"$toObject": "{\"a\": [1, null]}"}"#,
            "{ a: [ 1, null ] }",
        ),
        (
            r#"{"$convert": {"input": 255, "to": "string", "base": 16}}"#,
            r#""FF""#,
        ),
        (
            r#"{"$serializeEJSON": {"input": {"$toObjectId": "507f1f77bcf86cd799439011"}}}"#,
            r#"{ $oid: "507f1f77bcf86cd799439011" }"#,
        ),
    ];
    for profile in Profile::ALL {
        let mut s = ProfiledServer::new(profile);
        for (expression, wanted) in rows {
            let reply = s.ok(&pipeline(&format!(
                r#"{{"$project": {{"v": {expression}}}}}"#
            )));
            let found = batch(&reply);
            let value = found.first().map(|d| d.doc().field("v").to_string());
            assert_eq!(value.as_deref(), Some(wanted), "{expression}");
        }
        let types = pipeline(
            r#"{"$project": {"_id": {"$createObjectId": {}}, "t": {"$subtype":
                {"$hash": {"input": "", "algorithm": "md5"}}}}}"#,
        );
        assert_eq!(int(&batch(&s.ok(&types))[0], "t"), 0);
    }
}

#[test]
fn profile_8_2_keeps_the_behavior_that_9_0_changed() {
    let text = r#"{"$project": {"v": {"$toString": [[1]]}}}"#;
    let object = r#"{"$project": {"v": {"$convert": {"input": "{}", "to": "object"}}}}"#;
    let group = r#"{"$group": {"_id": 1, "": {"$sum": 1}}}"#;
    for (stage, old, new) in [(text, 241, 0), (object, 241, 0), (group, 0, 15998)] {
        let command = pipeline(stage);
        assert_eq!(
            ProfiledServer::new(Profile::V8_2).code(&command),
            old,
            "{stage}"
        );
        assert_eq!(
            ProfiledServer::new(Profile::V9_0).code(&command),
            new,
            "{stage}"
        );
    }
}

/// The first write error.
fn write_error(reply: &DocBuf) -> DocBuf {
    let errors = reply.doc().field("writeErrors").as_array();
    let first = errors.and_then(|all| all.get(0)).and_then(|v| v.as_doc());
    first
        .unwrap_or_else(|| panic!("no refusal: {reply:?}"))
        .to_buf()
}

#[test]
fn errors_of_geospatial_keys_tell_what_failed_since_9_0() {
    for (profile, refused) in [(Profile::V8_2, 16755), (Profile::V9_0, 510)] {
        let mut s = ProfiledServer::new(profile);
        s.ok(r#"{"createIndexes": "g", "indexes": [{"key": {"p.at": "2dsphere"}, "name": "p"}]}"#);
        let error = write_error(&s.run(
            "db",
            r#"{"insert": "g", "documents": [{"p": [{"at": {"type": "Point",
                "coordinates": [0, 0]}}, {"at": {"type": "Point", "coordinates": ["bad", 0]}}]}]}"#,
        ));
        assert_eq!(int(&error, "code"), refused);
        let info = error.doc().field("errInfo");
        let Some(info) = info.as_doc() else {
            assert_eq!(profile, Profile::V8_2);
            continue;
        };
        assert_eq!(profile, Profile::V9_0);
        assert_eq!(info.field("failingPath").as_str(), Some("p.at"));
        let element = info.field("failingElement").to_string();
        assert_eq!(element, r#"{ type: "Point", coordinates: [ "bad", 0 ] }"#);
        assert!(info.field("underlyingCode").as_f64() > Some(0.0));
        assert!(
            info.field("underlyingReason")
                .as_str()
                .is_some_and(|s| !s.is_empty())
        );
    }
}

#[test]
fn places_of_measurements_are_points() {
    let insert = |place: &str| {
        format!(
            r#"{{"insert": "m", "documents": [{{"t": {{"$date": "2026-01-01T00:00:00Z"}},
                "loc": {place}}}]}}"#
        )
    };
    let line = r#"{"type": "LineString", "coordinates": [[0, 0], [1, 1]]}"#;
    let bad = r#"{"type": "Point", "coordinates": ["bad", 0]}"#;
    for (profile, unreadable, no_point) in
        [(Profile::V8_2, 183_934, 183_493), (Profile::V9_0, 511, 511)]
    {
        let mut s = ProfiledServer::new(profile);
        s.ok(r#"{"create": "m", "timeseries": {"timeField": "t"}}"#);
        s.ok(r#"{"createIndexes": "m", "indexes": [{"key": {"loc": "2dsphere"}, "name": "p"}]}"#);
        for taken in [
            "null",
            "[]",
            "[1, 2]",
            r#"{"type": "Point", "coordinates": [3, 4]}"#,
        ] {
            s.ok(&insert(taken));
        }
        for (place, number) in [(bad, unreadable), (line, no_point)] {
            let error = write_error(&s.run("db", &insert(place)));
            assert_eq!(int(&error, "code"), number, "{place}");
            let info = error.doc().field("errInfo").as_doc();
            assert_eq!(info.is_some(), profile == Profile::V9_0);
            if let Some(info) = info {
                assert_eq!(info.field("failingPath").as_str(), Some("data.loc"));
                let reason = info.field("underlyingReason").as_str();
                assert!(reason.is_some_and(|r| !r.is_empty()));
            }
        }
        let found = s.ok(r#"{"count": "m"}"#);
        assert_eq!(int(&found, "n"), 4);
    }
}

#[test]
fn lookup_finds_null_in_arrays_since_9_0() {
    let lookup = r#"{"aggregate": "l", "cursor": {}, "pipeline": [
        {"$lookup": {"from": "f", "localField": "a.b", "foreignField": "c.d", "as": "r"}},
        {"$sort": {"_id": 1}}]}"#;
    for indexed in [false, true] {
        for (profile, wanted) in [
            (Profile::V8_2, ["[ 3, 4 ]", "[ 3, 4 ]", "[ 2 ]"]),
            (Profile::V9_0, ["[ 0, 1, 3, 4 ]", "[ 0, 1, 3, 4 ]", "[ 2 ]"]),
        ] {
            let mut s = ProfiledServer::new(profile);
            if indexed {
                s.ok(r#"{"createIndexes": "f", "indexes": [{"key": {"c.d": 1}, "name": "i"}]}"#);
            }
            s.ok(
                r#"{"insert": "f", "documents": [{"_id": 0, "c": []}, {"_id": 1, "c": [1]},
                {"_id": 2, "c": [{"d": 7}]}, {"_id": 3}, {"_id": 4, "c": {"d": null}}]}"#,
            );
            s.ok(
                r#"{"insert": "l", "documents": [{"_id": 0}, {"_id": 1, "a": [5]},
                {"_id": 2, "a": {"b": 7}}]}"#,
            );
            let found = batch(&s.ok(lookup)).into_iter().map(|d| {
                let ids = d.doc().field("r").as_array().unwrap_or(model::Array::EMPTY);
                let ids = ids
                    .iter()
                    .filter_map(|v| Some(v.as_doc()?.field("_id").to_string()));
                format!("[ {} ]", ids.collect::<Vec<_>>().join(", "))
            });
            assert_eq!(found.collect::<Vec<_>>(), wanted, "{profile:?} {indexed}");
        }
    }
}

#[test]
fn a_constraint_holds_for_every_document() {
    let create = r#"{"create": "c", "validator": {"a": {"$exists": true}},
        "validationLevel": "constraint"}"#;
    let prepare = r#"{"collMod": "c", "prepareConstraintValidationLevel": true}"#;
    let upgrade = r#"{"collMod": "c", "validationLevel": "constraint"}"#;
    let bypass = r#"{"insert": "c", "documents": [{"a": 1}], "bypassDocumentValidation": true}"#;
    let mut old = ProfiledServer::new(Profile::V8_2);
    assert_eq!(old.code(create), 2);
    old.ok(r#"{"create": "c"}"#);
    assert_eq!(old.code(prepare), 40415);
    assert_eq!(old.code(upgrade), 2);

    let mut s = ProfiledServer::new(Profile::V9_0);
    let warn = create.replace(
        r#""constraint""#,
        r#""constraint", "validationAction": "warn""#,
    );
    assert_eq!(s.code(&warn), 72);
    s.ok(create);
    let refused = s.run("db", r#"{"insert": "c", "documents": [{"b": 1}]}"#);
    assert_eq!(int(&write_error(&refused), "code"), 121);
    assert_eq!(s.code(bypass), 72);
    s.ok(r#"{"insert": "c", "documents": [{"_id": 1, "a": 1}]}"#);
    assert_eq!(s.code(r#"{"collMod": "c", "validator": {"b": 1}}"#), 72);
    assert_eq!(
        s.code(r#"{"collMod": "c", "validationAction": "warn"}"#),
        72
    );
    s.ok(r#"{"collMod": "c", "validationAction": "errorAndLog"}"#);

    // Back to strict, with other rules that a document violates; then to constraint again.
    s.ok(r#"{"collMod": "c", "validationLevel": "strict", "validator": {"b": 1}}"#);
    assert_eq!(s.code(upgrade), 72, "it was not prepared");
    s.ok(prepare);
    assert_eq!(s.code(bypass), 72);
    assert_eq!(s.code(upgrade), 12370902);
    let rules = r#"{"collMod": "c", "validationLevel": "constraint", "validator": {"a": 1}}"#;
    assert_eq!(s.code(rules), 72);
    s.ok(r#"{"delete": "c", "deletes": [{"q": {}, "limit": 0}]}"#);
    s.ok(upgrade);
    let listed = batch(&s.ok(r#"{"listCollections": 1, "filter": {"name": "c"}}"#));
    let options = listed[0].doc().field("options").to_string();
    assert!(
        options.contains(r#"validationLevel: "constraint""#),
        "{options}"
    );
    assert!(!options.contains("prepare"), "{options}");

    // Older releases do not have the level.
    let downgrade = r#"{"setFeatureCompatibilityVersion": "8.3", "confirm": true}"#;
    assert_eq!(code(&s.run("admin", downgrade)), 332);
    s.ok(r#"{"collMod": "c", "validationLevel": "strict"}"#);
    assert_eq!(code(&s.run("admin", downgrade)), 0);

    for level in ["moderate", "off"] {
        let below = format!(r#"{{"collMod": "c", "validationLevel": "{level}"}}"#);
        s.ok(&below);
        s.ok(prepare);
        assert_eq!(s.code(upgrade), 72, "{level}");
    }
}

#[test]
fn settings_of_a_query_come_with_it_since_9_0() {
    let hint = |key: &str| {
        format!(
            r#"{{"indexHints": {{"ns": {{"db": "db", "coll": "c"}}, "allowedIndexes": [{key}]}}}}"#
        )
    };
    let (a, b) = (hint(r#"{"a": 1}"#), hint(r#"{"b": 1}"#));
    let find = |settings: &str| {
        format!(r#"{{"find": "c", "filter": {{"a": 1, "b": 1}}, "querySettings": {settings}}}"#)
    };
    let mut old = ProfiledServer::new(Profile::V8_2);
    assert_eq!(old.code(&find("{}")), 7746900);
    let aggregate = r#"{"aggregate": "c", "pipeline": [], "cursor": {}, "querySettings": {}}"#;
    assert_eq!(old.code(aggregate), 7923000);
    assert_eq!(
        old.code(r#"{"distinct": "c", "key": "a", "querySettings": {}}"#),
        7923001
    );

    let mut s = ProfiledServer::new(Profile::V9_0);
    s.ok(r#"{"insert": "c", "documents": [{"a": 1, "b": 1}]}"#);
    s.ok(
        r#"{"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a"},
        {"key": {"b": 1}, "name": "b"}]}"#,
    );
    let plan = |s: &mut ProfiledServer, command: &str| {
        let text = s
            .ok(&format!(r#"{{"explain": {command}}}"#))
            .doc()
            .to_string();
        let at = text.find("indexName").expect("an index");
        text[at..].split(',').next().unwrap_or("").to_owned()
    };
    assert_eq!(plan(&mut s, &find(&a)), r#"indexName: "a""#);
    assert_eq!(plan(&mut s, &find(&b)), r#"indexName: "b""#);
    s.ok(aggregate);
    s.ok(&find("{}"));
    s.ok(&find(r#"{"reject": false}"#));
    assert_eq!(s.code(&find(r#"{"reject": true}"#)), 411);
    let twice = format!(r#"{{"indexHints": [{0}, {0}]}}"#, &a[15..a.len() - 1]);
    assert_eq!(s.code(&find(&twice)), 7746608, "{twice}");
    assert_eq!(s.code(&find(&hint("{}"))), 9646000);
    let by_id = format!(r#"{{"find": "c", "filter": {{"_id": 1}}, "querySettings": {twice}}}"#);
    s.ok(&by_id);
    // The settings of the shape take precedence.
    let set = format!(
        r#"{{"setQuerySettings": {{"find": "c", "filter": {{"a": 1, "b": 1}}, "$db": "db"}},
            "settings": {b}}}"#
    );
    assert_eq!(code(&s.run("admin", &set)), 0);
    assert_eq!(plan(&mut s, &find(&a)), r#"indexName: "b""#);
}

#[test]
fn open_transactions_are_bounded_since_9_0() {
    let begin = |n: u8| {
        format!(
            r#"{{"find": "c", "lsid": {{"id": {{"$uuid":
                "00000000-0000-4000-8000-0000000000{n:02x}"}}}},
                "txnNumber": {{"$numberLong": "1"}},
                "startTransaction": true, "autocommit": false}}"#
        )
    };
    let end = |n: u8| {
        begin(n)
            .replace(r#""find": "c""#, r#""abortTransaction": 1"#)
            .replace(r#""startTransaction": true, "#, "")
    };
    let get = r#"{"getParameter": 1, "maxConcurrentMultiDocumentTransactions": 1}"#;
    let set = r#"{"setParameter": 1, "maxConcurrentMultiDocumentTransactions": 2}"#;
    for (profile, built_in) in [(Profile::V8_2, 0), (Profile::V9_0, 10_000)] {
        let mut s = ProfiledServer::new(profile);
        s.ok(r#"{"create": "c"}"#);
        let name = "maxConcurrentMultiDocumentTransactions";
        assert_eq!(int(&s.run("admin", get), name), built_in);
        assert_eq!(code(&s.run("admin", set)), 0);
        s.ok(&begin(1));
        s.ok(&begin(2));
        assert_eq!(s.code(&begin(3)), 402);
        assert_eq!(code(&s.run("admin", &end(1))), 0);
        s.ok(&begin(4));
    }
}

#[test]
fn the_memory_of_an_operation_is_bounded_by_a_parameter() {
    let name = "internalQueryMaxMemoryUsageBytesPerOperation";
    let get = format!(r#"{{"getParameter": 1, "{name}": 1}}"#);
    assert_eq!(
        int(&ProfiledServer::new(Profile::V8_2).run("admin", &get), name),
        i64::MAX
    );
    let mut s = ProfiledServer::new(Profile::V9_0);
    assert!(int(&s.run("admin", &get), name) >= 1 << 30);
    let big = r#"{"aggregate": 1, "cursor": {}, "pipeline": [{"$documents": [{}]},
        {"$project": {"n": {"$size": {"$range": [0, 3000000]}}}}]}"#;
    s.ok(big);
    let set = format!(r#"{{"setParameter": 1, "{name}": 8000000}}"#);
    assert_eq!(code(&s.run("admin", &set)), 0);
    assert_eq!(s.code(big), 146);
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
            let mut s = ProfiledServer::new(profile);
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
