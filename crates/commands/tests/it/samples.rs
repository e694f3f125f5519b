//! Samples of documents are drawn in the background: queries of a large collection are planned with
//! the current sample, and none waits for a new one.

use crate::standalone::Standalone;
use serde_json::{Value as Json, json};

/// More documents than a query itself draws a sample of.
const DOCUMENTS: i64 = 21_000;

/// Half of the documents have `d` 1 and one in ten has `c` 1. Without estimates, the index of `d`
/// is preferred because its equality comes first.
fn start_filled() -> Standalone {
    let mut server = Standalone::new();
    let indexes = json!([{ "name": "d", "key": { "d": 1 } }, { "name": "c", "key": { "c": 1 } }]);
    server.ok(&json!({ "createIndexes": "t", "indexes": indexes }));
    let all: Vec<i64> = (0..DOCUMENTS).collect();
    for chunk in all.chunks(5000) {
        let document = |n: &i64| json!({ "_id": n, "c": n % 10, "d": n % 2, "e": n % 7 });
        let documents: Vec<Json> = chunk.iter().map(document).collect();
        server.ok(&json!({ "insert": "t", "documents": documents }));
    }
    server
}

fn find() -> Json {
    json!({ "find": "t", "filter": { "c": 1, "d": 1 }, "sort": { "e": 1 }, "limit": 5 })
}

/// Changes the data so that `c` is 1 in four of five documents, and `d` in one of ten.
fn turn_around(server: &mut Standalone) {
    server.ok(&json!({ "update": "t", "updates": [
        { "q": { "c": { "$gt": 2 } }, "u": { "$set": { "c": 1, "d": 0 } }, "multi": true }] }));
}

/// The index of the plan, and the expected number of its keys.
fn explain_plan(server: &mut Standalone) -> (String, Option<f64>) {
    let e = server.ok(&json!({ "explain": find(), "verbosity": "queryPlanner" }));
    let mut stage = &e["queryPlanner"]["winningPlan"];
    while let Some(below) = stage.get("inputStage") {
        stage = below;
    }
    let name = stage["indexName"].as_str().unwrap_or("scan").to_owned();
    (name, stage["numKeysEstimate"].as_f64())
}

fn rounds(server: &mut Standalone) -> u64 {
    let status = server.ok(&json!({ "serverStatus": 1 }));
    let rounds = status["quarry"]["workers"]["samples"]["rounds"].as_u64();
    rounds.unwrap_or(0)
}

#[test]
fn a_plan_changes_after_the_data_by_what_the_background_has_drawn() {
    let mut server = start_filled();
    let by_points = ("d".to_owned(), None);
    server.work("samples");
    assert_eq!(explain_plan(&mut server), by_points, "nobody had asked");
    assert_eq!(explain_plan(&mut server), by_points, "asking draws nothing");
    server.work("samples");
    let (index, keys) = explain_plan(&mut server);
    assert_eq!(index, "c");
    let keys = keys.expect("an estimate");
    assert!((1200.0..3000.0).contains(&keys), "{keys}");

    // The data has not changed, so the sample is kept.
    server.work("samples");
    assert_eq!(explain_plan(&mut server), ("c".to_owned(), Some(keys)));

    turn_around(&mut server);
    assert_eq!(
        explain_plan(&mut server),
        ("c".to_owned(), Some(keys)),
        "by the old one"
    );
    server.work("samples");
    let (index, keys) = explain_plan(&mut server);
    assert_eq!(index, "d");
    let keys = keys.expect("an estimate");
    assert!((1200.0..3000.0).contains(&keys), "{keys}");
    assert_eq!(rounds(&mut server), 4);
    let shown = server.send_to("admin", &json!({ "currentOp": 1, "$all": true }));
    assert!(shown.to_string().contains("\"desc\":\"samples\""));
}

#[test]
fn a_cached_plan_is_compared_again_with_a_new_sample() {
    let mut server = start_filled();
    let looked_at = |server: &mut Standalone| {
        let reply = server.ok(&find());
        let found = reply["cursor"]["firstBatch"].as_array().map(Vec::len);
        assert_eq!(found, Some(5));
        server.read_totals().docs
    };
    for _ in 0..3 {
        assert_eq!(looked_at(&mut server), 10_500, "kept by points");
    }
    server.work("samples");
    for _ in 0..3 {
        assert_eq!(looked_at(&mut server), 2100);
    }
    turn_around(&mut server);
    assert!(looked_at(&mut server) > 10_000);
    server.work("samples");
    assert_eq!(looked_at(&mut server), 2100);
}

#[test]
fn a_small_collection_is_sampled_at_once_and_again_when_much_has_changed() {
    let mut server = Standalone::new();
    let indexes = json!([{ "name": "d", "key": { "d": 1 } }, { "name": "c", "key": { "c": 1 } }]);
    server.ok(&json!({ "createIndexes": "t", "indexes": indexes }));
    let document = |n: i64| json!({ "_id": n, "c": n % 10, "d": n % 2, "e": n % 7 });
    let documents: Vec<Json> = (0..5000).map(document).collect();
    server.ok(&json!({ "insert": "t", "documents": documents }));
    assert_eq!(explain_plan(&mut server).0, "c");
    turn_around(&mut server);
    assert_eq!(explain_plan(&mut server).0, "c");
    server.work("samples");
    assert_eq!(explain_plan(&mut server).0, "d");
}
