//! `explain` shows the planner's estimates next to the execution statistics, but only where the
//! planner has made an estimate.

use crate::standalone::Standalone;
use serde_json::{Value as Json, json};

const NAMES: [&str; 5] = [
    "costEstimate",
    "cardinalityEstimate",
    "numKeysEstimate",
    "numDocsEstimate",
    "estimatesMetadata",
];

/// 20 documents share one `a`, two share one `b`, 400 share one `c`; `d` is the position.
fn start_filled(documents: i64) -> Standalone {
    let mut server = Standalone::new();
    let index = |name: &str| json!({ "name": name, "key": { name: 1 } });
    let indexes: Vec<Json> = ["a", "b", "c", "d"].into_iter().map(index).collect();
    server.ok(&json!({ "createIndexes": "t", "indexes": indexes }));
    let documents: Vec<Json> = (0..documents)
        .map(|n| json!({ "_id": n, "a": n % 100, "b": n % 1000, "c": n % 5, "d": n }))
        .collect();
    server.ok(&json!({ "insert": "t", "documents": documents }));
    server
}

fn explain(server: &mut Standalone, command: &Json) -> Json {
    server.ok(&json!({ "explain": command, "verbosity": "executionStats" }))
}

/// The uppermost stage of this name in a plan.
fn stage<'p>(plan: &'p Json, name: &str) -> &'p Json {
    match plan["stage"] == name {
        true => plan,
        false => stage(
            plan.get("inputStage")
                .unwrap_or_else(|| panic!("no {name}")),
            name,
        ),
    }
}

fn number(stage: &Json, name: &str) -> f64 {
    let number = stage[name].as_f64();
    number.unwrap_or_else(|| panic!("{name} of {stage}"))
}

#[test]
fn plans_are_shown_with_their_costs() {
    let mut server = start_filled(2000);
    let find = json!({ "find": "t", "filter": { "c": 3, "d": { "$gte": 1700 } } });
    let e = explain(&mut server, &find);
    let winning = &e["queryPlanner"]["winningPlan"];
    let scan = stage(winning, "IXSCAN");
    assert_eq!(scan["indexName"], "d", "{winning}");
    // The range of positions contains 300 documents; the estimate from the sample is not exact.
    let keys = number(scan, "numKeysEstimate");
    let done = &e["executionStats"];
    assert_eq!(done["totalKeysExamined"], 300);
    assert!((200.0..400.0).contains(&keys), "{keys}");
    let fetch = stage(winning, "FETCH");
    let found = number(fetch, "cardinalityEstimate");
    assert!((30.0..120.0).contains(&found), "{found}");
    assert_eq!(fetch["estimatesMetadata"]["ceSource"], "Sampling");
    assert!(number(scan, "costEstimate") < number(fetch, "costEstimate"));

    let rejected = e["queryPlanner"]["rejectedPlans"].as_array().unwrap();
    let cost = number(winning, "costEstimate");
    for plan in rejected {
        assert!(number(plan, "costEstimate") > cost, "{plan}");
    }
    let by_c = rejected.iter().find(|p| p["stage"] == "FETCH").unwrap();
    assert_eq!(stage(by_c, "IXSCAN")["indexName"], "c");
    let whole = rejected.iter().find(|p| p["stage"] == "COLLSCAN").unwrap();
    assert_eq!(number(whole, "numDocsEstimate"), 2000.0);
    assert_eq!(rejected.len(), 2, "each once: {rejected:?}");

    // The estimates are also in the execution statistics, with the same values.
    let ran = &done["executionStages"];
    assert_eq!(ran["cardinalityEstimate"], fetch["cardinalityEstimate"]);
    assert_eq!(ran["nReturned"], 60);
    let again = explain(&mut server, &find);
    assert_eq!(again["queryPlanner"], e["queryPlanner"]);
}

#[test]
fn a_scan_and_a_sort_are_expected_to_cost_what_they_read_and_sort() {
    let mut server = start_filled(2000);
    let find = json!({ "find": "t", "filter": { "c": { "$lt": 4 } }, "sort": { "e": 1 },
        "skip": 10, "limit": 50, "projection": { "c": 1 } });
    let e = explain(&mut server, &find);
    let winning = &e["queryPlanner"]["winningPlan"];
    let scan = stage(winning, "COLLSCAN");
    assert_eq!(number(scan, "costEstimate"), 2000.0);
    let found = number(scan, "cardinalityEstimate");
    assert!((1500.0..1700.0).contains(&found), "{found}");
    let sort = stage(winning, "SORT");
    assert_eq!(number(sort, "costEstimate"), 2000.0 + found / 2.0);
    assert_eq!(number(sort, "cardinalityEstimate"), 60.0);
    assert_eq!(number(winning, "cardinalityEstimate"), 50.0, "{winning}");
    assert_eq!(e["executionStats"]["nReturned"], 50);
}

#[test]
fn a_plan_shows_exact_key_counts_and_no_estimate_that_was_not_made() {
    let mut server = start_filled(2000);
    let find = json!({ "find": "t", "filter": { "b": 7, "c": 2 } });
    let e = explain(&mut server, &find);
    let winning = &e["queryPlanner"]["winningPlan"];
    assert_eq!(stage(winning, "IXSCAN")["numKeysEstimate"], 2.0);
    assert_eq!(e["executionStats"]["totalKeysExamined"], 2);
    assert!(winning.get("cardinalityEstimate").is_none(), "{winning}");
    for plan in e["queryPlanner"]["rejectedPlans"].as_array().unwrap() {
        assert!(
            !NAMES.iter().any(|n| plan.to_string().contains(n)),
            "{plan}"
        );
    }
    let all = explain(&mut server, &json!({ "find": "t", "filter": { "b": 7 } }));
    let winning = &all["queryPlanner"]["winningPlan"];
    assert_eq!(winning["cardinalityEstimate"], 2.0);
    assert_eq!(winning["estimatesMetadata"]["ceSource"], "Metadata");
}

#[test]
fn a_plan_by_points_alone_shows_no_estimate() {
    let mut server = start_filled(200);
    for command in [
        json!({ "find": "t", "filter": { "c": 3, "a": { "$gte": 70 } }, "sort": { "d": 1 } }),
        json!({ "count": "t", "query": { "c": 3 } }),
        json!({ "distinct": "t", "key": "c", "query": { "c": { "$gt": 1 } } }),
        json!({ "update": "t", "updates": [{ "q": { "c": 3 }, "u": { "$set": { "e": 1 } } }] }),
    ] {
        let text = explain(&mut server, &command).to_string();
        assert!(!NAMES.iter().any(|n| text.contains(n)), "{text}");
    }
}

#[test]
fn writes_counts_and_pipelines_show_what_was_expected_of_their_reads() {
    let mut server = start_filled(2000);
    let update = json!({ "update": "t", "updates": [
        { "q": { "c": 3, "d": { "$gte": 1700 } }, "u": { "$set": { "e": 1 } }, "multi": true }] });
    let e = explain(&mut server, &update);
    let winning = &e["queryPlanner"]["winningPlan"];
    assert!(winning.get("costEstimate").is_none());
    assert!(number(stage(winning, "IXSCAN"), "numKeysEstimate") > 200.0);
    let count = json!({ "count": "t", "query": { "c": 3 } });
    let e = explain(&mut server, &count);
    let scan = stage(&e["queryPlanner"]["winningPlan"], "COUNT_SCAN");
    let found = number(scan, "cardinalityEstimate");
    assert!((300.0..500.0).contains(&found), "{found}");
    let pipeline = json!({ "aggregate": "t", "cursor": {}, "pipeline": [
        { "$match": { "c": 3, "d": { "$gte": 1700 } } }, { "$group": { "_id": "$a" } }] });
    let e = explain(&mut server, &pipeline);
    let winning = &e["stages"][0]["$cursor"]["queryPlanner"]["winningPlan"];
    assert!(number(winning, "costEstimate") > 0.0);
    assert_eq!(
        e["stages"][0]["$cursor"]["queryPlanner"]["rejectedPlans"]
            .as_array()
            .map(Vec::len),
        Some(2)
    );
}
