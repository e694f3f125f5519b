//! Rules that one recorded case each has shown, tested with similar inputs.

use crate::aggregation::{ask, ask_on, batch, code};
use crate::behaviour::{send, serve, store};
use crate::interrupts::json;
use commands::{Config, Dispatcher};
use std::sync::Arc;

fn server() -> Arc<Dispatcher> {
    serve(Config::default(), store())
}

#[test]
fn ranks_of_a_time_series_are_not_fused() {
    let s = server();
    ask(&s, r#"{"create": "m", "timeseries": {"timeField": "t"}}"#);
    ask(&s, r#"{"create": "c"}"#);
    let fuse = |coll: &str| {
        format!(
            r#"{{"aggregate": "{coll}", "cursor": {{}}, "pipeline": [{{"$rankFusion": {{"input":
                {{"pipelines": {{"p": [{{"$sort": {{"a": -1}}}}]}}}}}}}}]}}"#
        )
    };
    assert_eq!(code(&s, &fuse("m")), 10557301);
    assert_eq!(code(&s, &fuse("system.buckets.m")), 10557301);
    assert_eq!(code(&s, &fuse("c")), 0);
    assert_eq!(code(&s, &fuse("none")), 0);
}

#[test]
fn the_catalog_lists_a_collection_or_all() {
    let s = server();
    ask(
        &s,
        r#"{"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a"}]}"#,
    );
    ask(&s, r#"{"create": "v", "viewOn": "c"}"#);
    let list = |coll: &str, stage: &str| {
        format!(r#"{{"aggregate": {coll}, "cursor": {{}}, "pipeline": [{stage}]}}"#)
    };
    let own = batch(&ask(&s, &list(r#""c""#, r#"{"$listCatalog": {}}"#)));
    assert_eq!(own.len(), 1);
    let entry = own[0].doc();
    assert_eq!(entry.field("ns").as_str(), Some("db.c"));
    assert_eq!(entry.field("type").as_str(), Some("collection"));
    let md = entry.field("md").as_doc().expect("metadata");
    assert_eq!(md.field("indexes").as_array().map(|a| a.len()), Some(2));
    let all = batch(&ask_on(&s, "admin", &list("1", r#"{"$listCatalog": {}}"#)));
    let names = |name| {
        all.iter()
            .any(|d| d.doc().field("ns").as_str() == Some(name))
    };
    assert!(names("db.c") && names("db.v"));
    let facet = r#"{"$facet": {"a": [{"$listCatalog": {}}]}}"#;
    assert_eq!(code(&s, &list(r#""c""#, facet)), 40600);
    assert_eq!(code(&s, &list("1", r#"{"$listCatalog": {}}"#)), 73);
    assert_eq!(
        code(&s, &list(r#""c""#, r#"{"$listCatalog": {"a": 1}}"#)),
        9
    );
    let later = r#"{"$match": {}}, {"$listCatalog": {}}"#;
    assert_eq!(code(&s, &list(r#""c""#, later)), 40602);
}

#[test]
fn the_key_of_a_hashed_index_is_a_hash() {
    let s = server();
    ask(
        &s,
        r#"{"createIndexes": "c", "indexes": [{"key": {"a": "hashed"}, "name": "a"}]}"#,
    );
    ask(&s, r#"{"insert": "c", "documents": [{"_id": 1, "a": 10}]}"#);
    let found = batch(&ask(
        &s,
        r#"{"aggregate": "c", "cursor": {}, "pipeline": [{"$match": {"a": 10}},
            {"$project": {"same": {"$eq": [{"$getField": {"field": "a",
                "input": {"$meta": "indexKey"}}}, {"$toHashedIndexKey": "$a"}]}}}]}"#,
    ));
    assert_eq!(
        found[0].doc().field("same").as_bool(),
        Some(true),
        "{found:?}"
    );
    let key = batch(&ask(
        &s,
        r#"{"find": "c", "filter": {"a": 10}, "returnKey": true}"#,
    ));
    assert_eq!(key[0].doc().field("a").type_name(), "long");
}

#[test]
fn the_profile_tells_the_comment_of_the_cursor() {
    let s = server();
    let mut conn = s.connect("127.0.0.1:1");
    let mut run = |command: &str| send(&s, &mut conn, "db", json(command).doc());
    run(r#"{"insert": "c", "documents": [{}, {}, {}]}"#);
    run(r#"{"profile": 2}"#);
    let opened = run(r#"{"find": "c", "batchSize": 1, "comment": "mine"}"#);
    let cursor = opened.doc().field("cursor").as_doc().expect("a cursor");
    let id = cursor.field("id").as_i64_exact().expect("an id");
    let more = |comment: &str| {
        format!(
            r#"{{"getMore": {{"$numberLong": "{id}"}}, "collection": "c",
                "batchSize": 1{comment}}}"#
        )
    };
    run(&more(""));
    run(&more(r#", "comment": "own""#));
    for comment in ["mine", "own"] {
        let count = format!(
            r#"{{"count": "system.profile", "query": {{"command.getMore": {{"$exists": true}},
                "command.comment": "{comment}"}}}}"#
        );
        assert_eq!(
            run(&count).doc().field("n").as_i64_exact(),
            Some(1),
            "{comment}"
        );
    }
}

#[test]
fn polygons_that_only_touch_do_not_intersect() {
    let s = server();
    let square = |x: i32, y: i32, side: i32| {
        let (r, t) = (x + side, y + side);
        format!(
            r#"{{"type": "Polygon",
                "coordinates": [[[{x}, {y}], [{r}, {y}], [{r}, {t}], [{x}, {t}], [{x}, {y}]]]}}"#
        )
    };
    let places = [
        square(0, 0, 10),
        square(10, 0, 10),
        square(10, 10, 10),
        square(5, 5, 10),
        square(2, 2, 3),
        square(-5, -5, 30),
        r#"{"type": "Point", "coordinates": [10, 0]}"#.to_owned(),
        r#"{"type": "LineString", "coordinates": [[10, 2], [20, 2]]}"#.to_owned(),
    ];
    let documents: Vec<String> = places
        .iter()
        .enumerate()
        .map(|(n, place)| format!(r#"{{"_id": {n}, "loc": {place}}}"#))
        .collect();
    ask(
        &s,
        &format!(
            r#"{{"insert": "c", "documents": [{}]}}"#,
            documents.join(", ")
        ),
    );
    let find = format!(
        r#"{{"find": "c", "projection": {{"_id": 1}}, "sort": {{"_id": 1}}, "filter":
            {{"loc": {{"$geoIntersects": {{"$geometry": {}}}}}}}}}"#,
        square(0, 0, 10)
    );
    for indexed in [false, true] {
        if indexed {
            ask(
                &s,
                r#"{"createIndexes": "c", "indexes": [{"key": {"loc": "2dsphere"}, "name": "l"}]}"#,
            );
        }
        let found: Vec<String> = batch(&ask(&s, &find))
            .iter()
            .map(|d| d.doc().field("_id").to_string())
            .collect();
        assert_eq!(found, ["0", "3", "4", "5", "6", "7"], "{indexed}");
    }
}
