//! `explain` shows the plan and its execution.

use crate::standalone::Standalone;
use serde_json::{Value as Json, json};

struct Server(Standalone);

impl Server {
    fn new() -> Server {
        let mut s = Server(Standalone::new());
        let docs: Vec<Json> = (0..20)
            .map(|i| {
                json!({ "_id": i, "a": i % 5, "b": i,
            "s": format!("s{i:02}"), "m": [i, i + 1] })
            })
            .collect();
        s.ok(json!({ "insert": "c", "documents": docs }));
        let index = |name: &str, key: Json| json!({ "name": name, "key": key });
        let indexes = [
            index("a_1_b_1", json!({ "a": 1, "b": 1 })),
            index("s_-1", json!({ "s": -1 })),
            index("m_1", json!({ "m": 1 })),
        ];
        s.ok(json!({ "createIndexes": "c", "indexes": indexes }));
        s
    }

    fn ok(&mut self, command: Json) -> Json {
        self.0.ok(&command)
    }

    fn explain(&mut self, command: Json) -> Json {
        self.ok(json!({ "explain": command, "verbosity": "executionStats" }))
    }

    /// The stages from the top, and the metrics of the top stage.
    fn plan(&mut self, command: Json) -> (String, Json) {
        let e = self.explain(command);
        (chain(&e["queryPlanner"]["winningPlan"]), e)
    }
}

fn chain(plan: &Json) -> String {
    let own = plan["stage"].as_str().unwrap_or("?").to_owned();
    match (&plan["inputStage"], &plan["inputStages"]) {
        (Json::Object(_), _) => format!("{own} {}", chain(&plan["inputStage"])),
        (_, Json::Array(list)) => format!(
            "{own} [{}]",
            list.iter().map(chain).collect::<Vec<_>>().join(", ")
        ),
        _ => own,
    }
}

#[test]
fn reads_show_their_plan_and_what_it_did() {
    let mut s = Server::new();
    for (command, stages, returned, keys, docs) in [
        (json!({ "find": "c" }), "COLLSCAN", 20, 0, 20),
        (
            json!({ "find": "c", "filter": { "_id": 3 } }),
            "EXPRESS_IXSCAN",
            1,
            1,
            1,
        ),
        (
            json!({ "find": "c", "filter": { "_id": { "$gt": 15 } } }),
            "FETCH IXSCAN",
            4,
            4,
            4,
        ),
        (
            json!({ "find": "c", "filter": { "a": 3 } }),
            "FETCH IXSCAN",
            4,
            4,
            4,
        ),
        (
            json!({ "find": "c", "filter": { "a": 3, "b": { "$gt": 9 } } }),
            "FETCH IXSCAN",
            2,
            2,
            2,
        ),
        (
            json!({ "find": "c", "filter": { "a": 3, "s": "s03" }, "hint": "a_1_b_1" }),
            "FETCH IXSCAN",
            1,
            4,
            4,
        ),
        // The hinted index is read by ranges, as without the hint; completely if a branch uses
        // other indexes.
        (
            json!({ "find": "c",
                "filter": { "$or": [{ "a": 3, "b": { "$gte": 9 } }, { "a": { "$gt": 3 } }] },
                "sort": { "a": 1, "b": 1 }, "hint": "a_1_b_1" }),
            "FETCH SORT_MERGE [IXSCAN, IXSCAN]",
            6,
            6,
            6,
        ),
        (
            json!({ "find": "c", "filter": { "$or": [{ "a": 1 }, { "s": "s00" }] },
                "hint": "a_1_b_1" }),
            "FETCH IXSCAN",
            5,
            20,
            20,
        ),
        (
            json!({ "find": "c", "filter": { "s": { "$regex": "^s1" } } }),
            "FETCH IXSCAN",
            10,
            10,
            10,
        ),
        (
            json!({ "find": "c", "filter": { "$or": [{ "a": 1 }, { "s": "s00" }] } }),
            "FETCH OR [IXSCAN, IXSCAN]",
            5,
            5,
            5,
        ),
        (
            json!({ "find": "c", "filter": { "a": { "$in": [1, 2] } }, "sort": { "b": 1 } }),
            "FETCH SORT_MERGE [IXSCAN, IXSCAN]",
            8,
            8,
            8,
        ),
        (
            json!({ "find": "c", "filter": { "a": 1 }, "sort": { "b": -1 }, "limit": 2 }),
            "LIMIT FETCH IXSCAN",
            2,
            2,
            2,
        ),
        (
            json!({ "find": "c", "sort": { "x": 1 }, "limit": 3, "projection": { "a": 1 } }),
            "PROJECTION_SIMPLE SORT COLLSCAN",
            3,
            0,
            20,
        ),
        (json!({ "find": "none" }), "EOF", 0, 0, 0),
        (
            json!({ "count": "c", "query": { "a": 3 } }),
            "COUNT COUNT_SCAN",
            0,
            4,
            0,
        ),
        (json!({ "count": "c" }), "RECORD_STORE_FAST_COUNT", 0, 0, 0),
        (
            json!({ "distinct": "c", "key": "b", "query": { "a": 3 } }),
            "PROJECTION_COVERED IXSCAN",
            4,
            4,
            0,
        ),
        (
            json!({ "find": "c", "filter": { "a": 3 }, "projection": { "b": 1, "_id": 0 } }),
            "PROJECTION_COVERED IXSCAN",
            4,
            4,
            0,
        ),
        // Pages by a compound key: each range gives its entries, in the order of the key.
        (
            json!({ "find": "c",
                "filter": { "$or": [{ "a": 3, "b": { "$gte": 9 } }, { "a": { "$gt": 3 } }] },
                "sort": { "a": 1, "b": 1 }, "projection": { "b": 1, "_id": 0 } }),
            "PROJECTION_DEFAULT SORT_MERGE [IXSCAN, IXSCAN]",
            6,
            6,
            0,
        ),
        (
            json!({ "find": "c", "filter": { "a": { "$in": [1, 2] } }, "sort": { "b": 1 },
                "projection": { "a": 1 } }),
            "PROJECTION_DEFAULT SORT_MERGE [IXSCAN, IXSCAN]",
            8,
            8,
            0,
        ),
        // One of the indexes does not have the field.
        (
            json!({ "find": "c", "filter": { "$or": [{ "a": 1 }, { "s": "s00" }] },
                "projection": { "a": 1 } }),
            "PROJECTION_SIMPLE FETCH OR [IXSCAN, IXSCAN]",
            5,
            5,
            5,
        ),
        // Every entry contains `_id`.
        (
            json!({ "find": "c", "filter": { "a": 3 }, "projection": { "b": 1 } }),
            "PROJECTION_COVERED IXSCAN",
            4,
            4,
            0,
        ),
        (
            json!({ "find": "c", "filter": { "a": 3 }, "projection": { "s": 1 } }),
            "PROJECTION_SIMPLE FETCH IXSCAN",
            4,
            4,
            4,
        ),
        (
            json!({ "distinct": "c", "key": "a" }),
            "PROJECTION_COVERED DISTINCT_SCAN",
            5,
            20,
            0,
        ),
        (
            json!({ "distinct": "c", "key": "a", "query": { "a": { "$gt": 2 } } }),
            "PROJECTION_COVERED DISTINCT_SCAN",
            2,
            8,
            0,
        ),
        (
            json!({ "aggregate": "c", "pipeline": [{ "$match": { "a": 3 } }, { "$limit": 2 }],
                "cursor": {} }),
            "LIMIT FETCH IXSCAN",
            2,
            2,
            2,
        ),
    ] {
        let (plan, e) = s.plan(command.clone());
        let stats = &e["executionStats"];
        assert_eq!(plan, stages, "{command}");
        let metrics = (
            &stats["nReturned"],
            &stats["totalKeysExamined"],
            &stats["totalDocsExamined"],
        );
        assert_eq!(
            metrics,
            (&json!(returned), &json!(keys), &json!(docs)),
            "{command}: {stats}"
        );
        assert_eq!(chain(&stats["executionStages"]), stages, "{command}");
    }
}

#[test]
fn explain_shows_bounds_and_filters() {
    let mut s = Server::new();
    let plan = |s: &mut Server, filter: Json| {
        s.plan(json!({ "find": "c", "filter": filter })).1["queryPlanner"]["winningPlan"].clone()
    };
    let p = plan(
        &mut s,
        json!({ "a": 3, "b": { "$gte": 2, "$lt": 9 }, "x": { "$exists": true } }),
    );
    assert_eq!(
        p["inputStage"]["indexBounds"],
        json!({ "a": ["[3, 3]"], "b": ["[2, 9)"] })
    );
    assert_eq!(p["filter"], json!({ "x": { "$exists": true } }));
    let p = plan(&mut s, json!({ "s": { "$gt": "s05" } }));
    assert_eq!(
        p["inputStage"]["indexBounds"],
        json!({ "s": ["({}, \"s05\")"] }),
        "descending"
    );
    assert!(p.get("filter").is_none());
    let p = plan(&mut s, json!({ "m": 4 }));
    assert_eq!(
        (
            &p["inputStage"]["isMultiKey"],
            &p["inputStage"]["multiKeyPaths"]
        ),
        (&json!(true), &json!({ "m": ["m"] }))
    );
    let p = plan(&mut s, json!({ "a": { "$gt": 1 } }));
    assert_eq!(
        p["inputStage"]["indexBounds"],
        json!({ "a": ["(1, inf]"], "b": ["[MinKey, MaxKey]"] })
    );
}

#[test]
fn explained_writes_show_what_they_would_change_and_change_nothing() {
    let mut s = Server::new();
    let top = |s: &mut Server, c: Json| s.explain(c)["executionStats"]["executionStages"].clone();
    let set = |v: i32| json!({ "$set": { "b": v } });
    let t = top(
        &mut s,
        json!({ "update": "c", "updates": [{ "q": { "a": 3 }, "u": set(3), "multi": true }] }),
    );
    assert_eq!(
        (
            &t["stage"],
            &t["nMatched"],
            &t["nWouldModify"],
            &t["nWouldUpsert"]
        ),
        (&json!("UPDATE"), &json!(4), &json!(3), &json!(0))
    );
    let t = top(
        &mut s,
        json!({ "update": "c", "updates": [{ "q": { "a": 3 }, "u": set(99) }] }),
    );
    assert_eq!((&t["nMatched"], &t["nWouldModify"]), (&json!(1), &json!(1)));
    let t = top(
        &mut s,
        json!({ "update": "c", "updates": [{ "q": { "a": 77 }, "u": set(99), "upsert": true }] }),
    );
    assert_eq!((&t["nMatched"], &t["nWouldUpsert"]), (&json!(0), &json!(1)));
    let t = top(
        &mut s,
        json!({ "delete": "c", "deletes": [{ "q": { "a": 3 }, "limit": 0 }] }),
    );
    assert_eq!(
        (&t["stage"], &t["nWouldDelete"], chain(&t)),
        (
            &json!("DELETE"),
            &json!(4),
            "DELETE FETCH IXSCAN".to_owned()
        )
    );
    let t = top(
        &mut s,
        json!({ "findAndModify": "c", "query": { "a": 3 }, "remove": true }),
    );
    assert_eq!(t["nWouldDelete"], json!(1));
    let t = top(
        &mut s,
        json!({ "findAndModify": "c", "query": { "_id": 3 }, "update": set(7) }),
    );
    assert_eq!(t["nWouldModify"], json!(1));
    assert_eq!(
        s.ok(json!({ "count": "c", "query": { "b": 99 } }))["n"],
        json!(0)
    );
    assert_eq!(s.ok(json!({ "count": "c" }))["n"], json!(20));
}

#[test]
fn pipelines_show_stages_over_a_cursor() {
    let mut s = Server::new();
    let e = s.explain(json!({ "aggregate": "c", "cursor": {}, "pipeline": [
        { "$lookup": { "from": "c", "localField": "b", "foreignField": "a", "as": "k" } },
        { "$match": { "a": { "$gt": 2 } } },
        { "$group": { "_id": "$b", "n": { "$sum": 1 } } },
        { "$sort": { "n": 1 } },
    ] }));
    let stages = e["stages"].as_array().expect("stages");
    let names: Vec<_> = stages
        .iter()
        .filter_map(|s| s.as_object()?.keys().next())
        .collect();
    assert_eq!(names, ["$cursor", "$lookup", "$group", "$sort"]);
    assert_eq!(
        chain(&stages[0]["$cursor"]["queryPlanner"]["winningPlan"]),
        "PROJECTION_SIMPLE FETCH IXSCAN",
        "the filter went first"
    );
    let returned: Vec<_> = stages.iter().map(|s| s["nReturned"].clone()).collect();
    assert_eq!(json!(returned), json!([8, 8, 8, 8]));
    assert_eq!(
        (&stages[1]["collectionScans"], &stages[1]["indexesUsed"]),
        (&json!(0), &json!(["a_1_b_1"]))
    );
    assert_eq!(stages[3]["usedDisk"], json!(false));
    assert!(stages[3]["totalDataSizeSortedBytesEstimate"].as_i64() > Some(0));
    s.ok(json!({ "create": "v", "viewOn": "c", "pipeline": [{ "$addFields": { "k": "$a" } }] }));
    let e = s.explain(json!({ "find": "v", "filter": { "k": 3 } }));
    assert_eq!(
        chain(&e["stages"][0]["$cursor"]["queryPlanner"]["winningPlan"]),
        "FETCH IXSCAN",
        "a filter on a view reaches the collection"
    );
    let e = s.ok(json!({ "aggregate": "c", "pipeline": [{ "$count": "n" }], "explain": true }));
    assert!(e["stages"][0]["$cursor"]["queryPlanner"]["winningPlan"].is_object());
}
