//! Pipelines that only count all documents use the collection's counter, others do not; both give
//! the same result.

use crate::standalone::Standalone;
use commands::Config;
use serde_json::{Value as Json, json};

const DOCUMENTS: i64 = 300;

fn start_filled() -> Standalone {
    let mut server = Standalone::new();
    fill(&mut server);
    server
}

fn fill(server: &mut Standalone) {
    let documents: Vec<Json> = (0..DOCUMENTS)
        .map(|n| json!({ "_id": n, "a": n % 3, "tags": [n, n + 1] }))
        .collect();
    server.ok(&json!({ "insert": "t", "documents": documents }));
    server.ok(&json!({ "createIndexes": "t", "indexes": [
        { "name": "a", "key": { "a": 1 } },
        { "name": "tags", "key": { "tags": 1 }, "sparse": true },
    ] }));
}

fn run(server: &mut Standalone, pipeline: &Json) -> (Json, u64) {
    let command = json!({ "aggregate": "t", "pipeline": pipeline, "cursor": {} });
    let reply = server.ok(&command);
    (
        reply["cursor"]["firstBatch"].clone(),
        server.read_totals().docs,
    )
}

/// The stage that reads the documents.
fn read_by(server: &mut Standalone, pipeline: &Json) -> Json {
    let command = json!({ "aggregate": "t", "pipeline": pipeline, "cursor": {} });
    let e = server.ok(&json!({ "explain": command, "verbosity": "executionStats" }));
    let planner = match e["stages"][0]["$cursor"].is_object() {
        true => &e["stages"][0]["$cursor"]["queryPlanner"],
        false => &e["queryPlanner"],
    };
    planner["winningPlan"]["stage"].clone()
}

#[test]
fn all_documents_are_counted_without_reading_them() {
    let mut server = start_filled();
    for (pipeline, result) in [
        // The pipeline that drivers send for countDocuments({}).
        (
            json!([{ "$match": {} }, { "$group": { "_id": 1, "n": { "$sum": 1 } } }]),
            json!([{ "_id": 1, "n": 300 }]),
        ),
        (json!([{ "$count": "n" }]), json!([{ "n": 300 }])),
        (
            json!([{ "$sort": { "a": 1 } }, { "$count": "n" }]),
            json!([{ "n": 300 }]),
        ),
        (
            json!([{ "$group": { "_id": null, "n": { "$count": {} }, "m": { "$sum": 1 } } },
                { "$project": { "_id": 0, "twice": { "$add": ["$n", "$m"] } } }]),
            json!([{ "twice": 600 }]),
        ),
        (
            json!([{ "$group": { "_id": true } }]),
            json!([{ "_id": true }]),
        ),
    ] {
        assert_eq!(run(&mut server, &pipeline), (result, 0), "{pipeline}");
        assert_eq!(
            read_by(&mut server, &pipeline),
            "RECORD_STORE_FAST_COUNT",
            "{pipeline}"
        );
    }
}

#[test]
fn counts_with_other_filters_read_entries_or_documents() {
    let mut server = start_filled();
    for (pipeline, result, read) in [
        (
            json!([{ "$match": { "a": 1 } }, { "$count": "n" }]),
            json!([{ "n": 100 }]),
            0,
        ),
        (
            json!([{ "$match": { "tags": { "$gte": 100 } } }, { "$count": "n" }]),
            json!([{ "n": 201 }]),
            201,
        ),
        (
            json!([{ "$match": { "b": null } }, { "$count": "n" }]),
            json!([{ "n": 300 }]),
            300,
        ),
        (
            json!([{ "$group": { "_id": 1, "n": { "$sum": 2 } } }]),
            json!([{ "_id": 1, "n": 600 }]),
            300,
        ),
        (
            json!([{ "$group": { "_id": 1, "n": { "$sum": 1 }, "a": { "$max": "$a" } } }]),
            json!([{ "_id": 1, "n": 300, "a": 2 }]),
            300,
        ),
        (
            json!([{ "$limit": 7 }, { "$count": "n" }]),
            json!([{ "n": 7 }]),
            7,
        ),
    ] {
        let (found, docs) = run(&mut server, &pipeline);
        assert_eq!(found, result, "{pipeline}");
        assert!(docs <= read, "{pipeline}: {docs}");
        let stage = read_by(&mut server, &pipeline);
        assert_ne!(stage, "RECORD_STORE_FAST_COUNT", "{pipeline}");
    }
    let hinted = json!({ "aggregate": "t", "pipeline": [{ "$count": "n" }], "cursor": {},
        "hint": { "$natural": 1 } });
    let reply = server.ok(&hinted);
    assert_eq!(reply["cursor"]["firstBatch"], json!([{ "n": 300 }]));
    assert_eq!(server.read_totals().docs, 300);
}

#[test]
fn counts_follow_writes_and_transactions() {
    let mut server = Standalone::of(Config::default());
    fill(&mut server);
    let count = json!([{ "$count": "n" }]);
    let session = json!({ "id": { "$binary": { "base64": "AAAAAAAAAAAAAAAAAAAAAA==",
        "subType": "04" } } });
    let within = |command: &mut Json, first: bool| {
        command["lsid"] = session.clone();
        command["txnNumber"] = json!({ "$numberLong": "1" });
        command["autocommit"] = json!(false);
        if first {
            command["startTransaction"] = json!(true);
        }
    };
    let mut insert = json!({ "insert": "t", "documents": [{ "_id": -1 }, { "_id": -2 }] });
    within(&mut insert, true);
    server.ok(&insert);
    let mut inside = json!({ "aggregate": "t", "pipeline": count, "cursor": {} });
    within(&mut inside, false);
    let reply = server.ok(&inside);
    assert_eq!(reply["cursor"]["firstBatch"], json!([{ "n": 302 }]));
    assert_eq!(run(&mut server, &count).0, json!([{ "n": 300 }]));
    let mut commit = json!({ "commitTransaction": 1 });
    within(&mut commit, false);
    let reply = server.send_to("admin", &commit);
    assert_eq!(reply["ok"]["$numberDouble"], "1.0", "{reply}");
    assert_eq!(run(&mut server, &count).0, json!([{ "n": 302 }]));

    let delete = |filter: Json| json!({ "delete": "t", "deletes": [{ "q": filter, "limit": 0 }] });
    server.ok(&delete(json!({ "a": 2 })));
    assert_eq!(run(&mut server, &count).0, json!([{ "n": 202 }]));
    let joined = json!([{ "$match": { "_id": 0 } }, { "$lookup": { "from": "t", "as": "all",
        "pipeline": [{ "$count": "n" }] } }, { "$project": { "all": 1 } }]);
    assert_eq!(
        run(&mut server, &joined).0,
        json!([{ "_id": 0, "all": [{ "n": 202 }] }])
    );
    server.ok(&delete(json!({})));
    assert_eq!(run(&mut server, &count).0, json!([]));
}

/// Counts that take long enough for several threads.
#[test]
fn long_counts_by_an_index_equal_those_of_documents() {
    const MANY: i64 = 60_000;
    let config = Config {
        scan_threads: Some(4),
        ..Config::default()
    };
    let mut server = Standalone::of(config);
    let documents: Vec<Json> = (0..MANY)
        .map(|n| {
            let a = n * 7919 % MANY;
            json!({ "_id": n, "a": a, "g": n % 2, "s": format!("s{a}"), "tags": [n % 9, 7] })
        })
        .collect();
    for part in documents.chunks(20_000) {
        server.ok(&json!({ "insert": "long", "documents": part }));
    }
    let index = |name: &str, key: Json| json!({ "name": name, "key": key });
    server.ok(
        &json!({ "createIndexes": "long", "indexes": [index("a", json!({ "a": 1 })),
        index("g", json!({ "g": 1, "a": -1 })), index("s", json!({ "s": -1 })),
        index("tags", json!({ "tags": 1 }))] }),
    );
    let several: Vec<Json> = (0..40).map(|n| json!(n * 1000)).collect();
    let between = json!({ "$or": [{ "a": { "$lt": 20_000 } }, { "a": { "$gte": 30_000 } }] });
    for (by, filter, expected) in [
        ("a", json!({ "a": { "$gte": 0 } }), MANY),
        ("a", json!({ "a": { "$gte": 100, "$lt": 59_900 } }), 59_800),
        ("a", json!({ "a": { "$in": several } }), 40),
        ("a", between, 50_000),
        (
            "a",
            json!({ "a": { "$not": { "$gte": 40_000, "$lt": 41_000 } } }),
            59_000,
        ),
        ("g", json!({ "g": 1 }), MANY / 2),
        (
            "g",
            json!({ "g": { "$in": [0, 1] }, "a": { "$gt": 29_999 } }),
            30_000,
        ),
        ("s", json!({ "s": { "$gte": "s" } }), MANY),
        ("tags", json!({ "tags": { "$gte": 0 } }), MANY),
    ] {
        let mut count = |hint: Json| {
            let command = json!({ "count": "long", "query": filter, "hint": hint });
            let counted = server.ok(&command)["n"].as_i64();
            (counted, server.read_totals())
        };
        let (counted, totals) = count(json!(by));
        assert_eq!(counted, Some(expected), "{filter} by {by}");
        assert_eq!(
            count(json!({ "$natural": 1 })).0,
            Some(expected),
            "{filter}"
        );
        // The other plans read documents.
        if by == "a" && filter["a"]["$gte"].is_i64() {
            assert_eq!((totals.keys as i64, totals.docs), (expected, 0), "{filter}");
        }
        let pipeline = json!([{ "$match": filter }, { "$count": "n" }]);
        let command =
            json!({ "aggregate": "long", "pipeline": pipeline, "cursor": {}, "hint": by });
        let reply = server.ok(&command);
        assert_eq!(
            reply["cursor"]["firstBatch"],
            json!([{ "n": expected }]),
            "{filter}"
        );
    }
    let usage = json!([{ "$indexStats": {} }, { "$match": { "name": "s" } }]);
    let command = json!({ "aggregate": "long", "pipeline": usage, "cursor": {} });
    let used = server.ok(&command)["cursor"]["firstBatch"][0]["accesses"]["ops"].clone();
    assert_eq!(used.as_i64(), Some(2), "one use for each count");
}
