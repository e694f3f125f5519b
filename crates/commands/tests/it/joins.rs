//! `$lookup` into a small collection with an index: after some lookups the collection is read once
//! as a whole. The resulting arrays stay the same, including their order.

use crate::standalone::Standalone;
use serde_json::{Value as Json, json};

struct Server(Standalone);

impl Server {
    fn new() -> Server {
        Server(Standalone::new())
    }

    fn send(&mut self, command: &Json) -> Json {
        self.0.send(command)
    }

    /// Documents examined by the first aggregation in the profile.
    fn profiled_docs_examined(&mut self) -> u64 {
        let seen = self.send(&json!({ "find": "system.profile",
            "filter": { "command.aggregate": "local" } }));
        let docs = seen["cursor"]["firstBatch"][0]["docsExamined"]["$numberLong"].as_str();
        docs.and_then(|n| n.parse().ok()).expect("a number")
    }

    fn run_join(&mut self, foreign: &str) -> Json {
        self.aggregate(&json!([join(foreign)]))
    }

    fn aggregate(&mut self, pipeline: &Json) -> Json {
        let mut reply = self.send(&json!({ "aggregate": "local", "pipeline": pipeline,
            "cursor": { "batchSize": 100_000 } }));
        reply["cursor"]["firstBatch"].take()
    }
}

fn join(foreign: &str) -> Json {
    json!({ "$lookup": { "from": foreign, "localField": "g", "foreignField": "g", "as": "f" } })
}

/// 6,000 local documents, some with arrays, null or a missing field; 120 foreign documents,
/// inserted with descending `_id`.
fn start_filled(index: Json) -> Server {
    let mut server = Server::new();
    let local: Vec<Json> = (0..6000)
        .map(|i| match i % 50 {
            0 => json!({ "_id": i }),
            1 => json!({ "_id": i, "g": null }),
            2 => json!({ "_id": i, "g": [i % 7, 90, "x"] }),
            _ => json!({ "_id": i, "g": i % 100 }),
        })
        .collect();
    let foreign: Vec<Json> = (0..120)
        .map(|i| match i {
            0 => json!({ "_id": 1000 }),
            _ => json!({ "_id": 1000 - i, "g": i * 7 % 90, "s": i }),
        })
        .collect();
    server.send(&json!({ "insert": "local", "documents": local }));
    for name in ["indexed", "plain"] {
        server.send(&json!({ "insert": name, "documents": foreign }));
    }
    let index = json!({ "key": index, "name": "by" });
    server.send(&json!({ "createIndexes": "indexed", "indexes": [index] }));
    server
}

#[test]
fn a_small_foreign_side_is_read_once_and_gives_the_same() {
    for index in [
        json!({ "g": 1 }),
        json!({ "g": -1 }),
        json!({ "g": 1, "s": -1 }),
    ] {
        let mut server = start_filled(index.clone());
        server.send(&json!({ "profile": 2 }));
        let found = server.run_join("indexed");
        server.send(&json!({ "profile": 0 }));
        let in_order = |list: &Json| -> Vec<Json> {
            let mut list = list.as_array().cloned().unwrap_or_default();
            list.sort_by_key(Json::to_string);
            list
        };
        let plain = server.run_join("plain");
        let (found, plain) = (
            found.as_array().expect("docs"),
            plain.as_array().expect("docs"),
        );
        assert_eq!((found.len(), plain.len()), (6000, 6000));
        let mut orders = std::collections::BTreeMap::new();
        for (a, b) in found.iter().zip(plain) {
            assert_eq!(
                (&a["_id"], in_order(&a["f"])),
                (&b["_id"], in_order(&b["f"]))
            );
            // Lookups and the scan of the whole collection return documents in the same order.
            let order = orders
                .entry(a["g"].to_string())
                .or_insert_with(|| a["f"].clone());
            assert_eq!(*order, a["f"], "{index} {}", a["_id"]);
        }
        let docs = server.profiled_docs_examined();
        // With lookups only, the foreign documents alone would be 2,800.
        assert!(docs < 7000, "{docs}");
    }
}

/// The planner would read this foreign side by a scan and sort it, which is another order.
#[test]
fn a_foreign_side_of_a_thousand_documents_is_read_once() {
    let mut server = Server::new();
    let local: Vec<Json> = (0..20_000)
        .map(|i| json!({ "_id": i, "g": i % 1000 }))
        .collect();
    let foreign: Vec<Json> = (0..1000)
        .map(|i| json!({ "_id": i, "g": i, "name": format!("customer {i}") }))
        .collect();
    server.send(&json!({ "insert": "local", "documents": local }));
    server.send(&json!({ "insert": "foreign", "documents": foreign }));
    let index = json!({ "key": { "g": 1 }, "name": "g" });
    server.send(&json!({ "createIndexes": "foreign", "indexes": [index] }));
    server.send(&json!({ "profile": 2 }));
    let found = server.run_join("foreign");
    let found = found.as_array().expect("docs");
    assert_eq!(found.len(), 20_000);
    for one in found {
        assert_eq!(one["f"][0]["g"], one["g"], "{one}");
    }
    let docs = server.profiled_docs_examined();
    // By lookups only, the foreign documents alone would be 20,000.
    assert!(docs < 25_000, "{docs}");
}

#[test]
fn a_foreign_side_that_is_found_by_id_is_read_once_or_looked_up() {
    let local: Vec<Json> = (0..20_000)
        .map(|i| json!({ "_id": i, "g": i % 1000 }))
        .collect();
    let foreign: Vec<Json> = (0..1000)
        .map(|i| json!({ "_id": i, "t": { "$date": "2026-11-27T00:00:00Z" } }))
        .collect();
    let clustered = json!({ "create": "foreign",
        "clusteredIndex": { "key": { "_id": 1 }, "unique": true } });
    let series = json!({ "create": "foreign", "timeseries": { "timeField": "t" } });
    for (create, docs_max) in [
        (json!({ "create": "foreign" }), 25_000),
        (clustered, 25_000),
        // Measurements have no index by `_id`.
        (series, u64::MAX),
    ] {
        let mut server = Server::new();
        server.send(&create);
        server.send(&json!({ "insert": "local", "documents": local }));
        server.send(&json!({ "insert": "foreign", "documents": foreign }));
        server.send(&json!({ "profile": 2 }));
        let lookup = json!([{ "$lookup": { "from": "foreign", "localField": "g",
            "foreignField": "_id", "as": "f" } }]);
        let found = server.aggregate(&lookup);
        let found = found.as_array().expect("docs");
        assert_eq!(found.len(), 20_000, "{create}");
        for one in found {
            assert_eq!(one["f"][0]["_id"], one["g"], "{create}: {one}");
        }
        let docs = server.profiled_docs_examined();
        assert!(docs < docs_max, "{create}: {docs}");
    }
}

#[test]
fn a_lookup_merged_with_unwind_gives_the_results_of_two_stages() {
    let mut server = start_filled(json!({ "g": 1 }));
    let by_pipeline = json!({ "$lookup": { "from": "plain", "let": { "g": "$g" }, "as": "f",
        "pipeline": [{ "$match": { "$expr": { "$lt": ["$s", "$$g"] } } }, { "$limit": 3 }] } });
    for lookup in [join("indexed"), join("plain"), by_pipeline] {
        for preserve in [true, false] {
            let unwind = json!({ "$unwind": { "path": "$f",
                "preserveNullAndEmptyArrays": preserve } });
            let few = json!({ "$match": { "_id": { "$lt": 300 } } });
            // A stage in between keeps the two stages from being merged.
            let (set, unset) = (json!({ "$set": { "z": 1 } }), json!({ "$unset": "z" }));
            let apart = server.aggregate(&json!([few, lookup, set, unwind, unset]));
            let fused = server.aggregate(&json!([few, lookup, unwind]));
            assert!(apart.as_array().is_some_and(|list| list.len() > 300));
            assert_eq!(fused, apart, "{lookup} {preserve}");
        }
    }
}
