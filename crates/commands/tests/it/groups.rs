//! `$sort` and `$group` that keep the first or last document of each group read an index loosely,
//! with the same results as when all documents are sorted and grouped.

use crate::chance::Rng;
use crate::standalone::Standalone;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

/// How many of the tested indexes, counted from the first, can be read loosely.
const LOOSE: usize = 6;

fn explain_pipeline(server: &mut Standalone, pipeline: &Json) -> Json {
    let command = json!({ "aggregate": "t", "pipeline": pipeline, "cursor": {} });
    let e = server.ok(&json!({ "explain": command, "verbosity": "executionStats" }));
    e["stages"][0]["$cursor"].clone()
}

fn is_loose(cursor: &Json) -> bool {
    cursor["queryPlanner"]["winningPlan"]
        .to_string()
        .contains("DISTINCT_SCAN")
}

fn run(server: &mut Standalone, pipeline: &Json, options: &Json) -> Vec<Json> {
    let mut command = json!({ "aggregate": "t", "pipeline": pipeline,
        "cursor": { "batchSize": 100_000 } });
    for (name, value) in options.as_object().into_iter().flatten() {
        command[name] = value.clone();
    }
    let reply = server.ok(&command);
    reply["cursor"]["firstBatch"].as_array().unwrap().clone()
}

/// Groups by their `_id`; numerically equal values are one group.
fn key_by_id(groups: Vec<Json>) -> BTreeMap<String, Json> {
    let number = groups.len();
    let groups: BTreeMap<String, Json> = groups
        .into_iter()
        .map(|mut group| {
            let id = group["_id"].take();
            let decimal = id["$numberDecimal"].as_str().and_then(|t| t.parse().ok());
            let number = id.as_f64().or(decimal).map(|n: f64| n + 0.0);
            let id = number.map_or(id.to_string(), |n| format!("{n:?}"));
            (id, group)
        })
        .collect();
    assert_eq!(groups.len(), number, "each once");
    groups
}

#[test]
fn one_entry_is_read_for_each_group() {
    let mut server = Standalone::new();
    let readings: Vec<Json> = (0..4000)
        .map(|n| {
            json!({ "_id": n, "tenant": n % 2, "device": n % 20, "at": (n * 7) % 4001,
            "heat": n % 31 })
        })
        .collect();
    server.ok(&json!({ "insert": "t", "documents": readings }));
    server.ok(&json!({ "createIndexes": "t", "indexes": [
        { "name": "by device", "key": { "device": 1, "at": 1 } },
        { "name": "by tenant", "key": { "tenant": 1, "device": -1, "at": -1 } },
    ] }));
    let latest = json!({ "_id": "$device", "heat": { "$last": "$heat" } });
    for (pipeline, groups, documents) in [
        (
            json!([{ "$sort": { "device": 1, "at": 1 } }, { "$group": latest }]),
            20,
            20,
        ),
        (
            json!([{ "$sort": { "at": 1 } }, { "$group": latest }]),
            20,
            20,
        ),
        (
            json!([{ "$sort": { "at": -1 } },
                { "$group": { "_id": "$device", "all": { "$first": "$$ROOT" } } }]),
            20,
            20,
        ),
        // The entries are sufficient.
        (
            json!([{ "$sort": { "at": -1 } },
                { "$group": { "_id": "$device", "at": { "$first": "$at" } } }]),
            20,
            0,
        ),
        (
            json!([{ "$match": { "tenant": 1 } }, { "$sort": { "at": 1 } }, { "$group": latest }]),
            10,
            10,
        ),
        (
            json!([{ "$match": { "device": { "$gte": 5, "$lt": 9 } } }, { "$sort": { "at": 1 } },
                { "$group": latest }]),
            4,
            4,
        ),
    ] {
        let cursor = explain_pipeline(&mut server, &pipeline);
        assert!(is_loose(&cursor), "{pipeline}: {cursor}");
        let keys = cursor["executionStats"]["totalKeysExamined"].as_u64();
        // A few more entries are read at the beginning, until the groups are known to be large.
        assert!(keys.is_some_and(|keys| keys <= groups + 20), "{cursor}");
        assert_eq!(cursor["executionStats"]["totalDocsExamined"], documents);
        let loose = run(&mut server, &pipeline, &json!({}));
        assert_eq!(loose.len() as u64, groups);
        assert_eq!(server.read_totals().keys, keys.unwrap(), "{pipeline}");
        let hint = json!({ "hint": { "$natural": 1 } });
        let plain = run(&mut server, &pipeline, &hint);
        assert_eq!(key_by_id(loose), key_by_id(plain), "{pipeline}");
    }
    let many = explain_pipeline(
        &mut server,
        &json!([{ "$sort": { "at": 1 } }, { "$group": latest }]),
    );
    assert!(many["executionStats"]["totalKeysExamined"].as_u64() < Some(45));
}

#[test]
fn other_groups_read_all() {
    let mut server = Standalone::new();
    let documents: Vec<Json> = (0..200)
        .map(|n| json!({ "_id": n, "a": n % 4, "b": n + 1, "c": n % 3 }))
        .collect();
    server.ok(&json!({ "insert": "t", "documents": documents }));
    server.ok(&json!({ "createIndexes": "t", "indexes": [
        { "name": "a_b", "key": { "a": 1, "b": 1 } },
        { "name": "c_b", "key": { "c": 1, "b": 1 },
            "partialFilterExpression": { "b": { "$gt": 9 } } },
    ] }));
    let sort = json!({ "$sort": { "b": 1 } });
    let first = json!({ "$first": "$b" });
    for pipeline in [
        json!([sort, { "$group": { "_id": "$a", "x": first, "y": { "$last": "$b" } } }]),
        json!([sort, { "$group": { "_id": "$a", "x": first, "n": { "$sum": 1 } } }]),
        // The expression may fail for another document of the group.
        json!([sort, { "$group": { "_id": "$a", "x": { "$first": { "$divide": [1, "$b"] } } } }]),
        json!([sort, { "$group": { "_id": { "x": "$a" }, "x": first } }]),
        json!([sort, { "$group": { "_id": "$c", "x": first } }]),
        json!([sort, { "$limit": 50 }, { "$group": { "_id": "$a", "x": first } }]),
        json!([{ "$sort": { "c": 1, "b": 1 } }, { "$group": { "_id": "$a", "x": first } }]),
        json!([{ "$match": { "c": 1 } }, sort, { "$group": { "_id": "$a", "x": first } }]),
    ] {
        let cursor = explain_pipeline(&mut server, &pipeline);
        assert!(!is_loose(&cursor), "{pipeline}: {cursor}");
    }
    let grouped = json!([sort, { "$group": { "_id": "$a", "x": first } }]);
    assert!(is_loose(&explain_pipeline(&mut server, &grouped)));
    let collation = json!({ "collation": { "locale": "en", "strength": 2 } });
    let by_collation = run(&mut server, &grouped, &collation);
    assert!(server.read_totals().docs >= 200);
    assert_eq!(by_collation.len(), 4);
    // An array among the values prevents loose reading.
    server.ok(&json!({ "insert": "t", "documents": [{ "a": [1, 2], "b": -1 }] }));
    assert!(!is_loose(&explain_pipeline(&mut server, &grouped)));
    assert_eq!(run(&mut server, &grouped, &json!({})).len(), 5);
}

/// Values of the grouping field, of every kind; null and missing are distinct.
fn keys(arrays: bool) -> Vec<Json> {
    let mut keys = vec![
        json!(1),
        json!(1.0),
        json!({ "$numberDecimal": "1.0" }),
        json!({ "$numberLong": "2" }),
        json!(-0.0),
        json!(0),
        json!({ "$numberDouble": "NaN" }),
        json!(null),
        json!("MISSING"),
        json!("x"),
        json!("x\u{0}y"),
        json!("X"),
        json!(""),
        json!(true),
        json!({ "k": 1 }),
        json!({}),
        json!({ "$date": { "$numberLong": "5" } }),
        json!({ "$undefined": true }),
        json!({ "$minKey": 1 }),
        json!({ "$maxKey": 1 }),
    ];
    if arrays {
        keys.extend([json!([]), json!([1, 2]), json!([null])]);
    }
    keys
}

fn documents(chance: &mut Rng, number: u64, keys: &[Json]) -> Vec<Json> {
    (0..number)
        .map(|n| {
            let mut document = json!({ "_id": n, "b": (n * 37) % 211, "c": n % 3 });
            let key = chance.one_of(keys).clone();
            match chance.below(8) {
                0 => document["e"] = json!({ "k": key }),
                _ if key != json!("MISSING") => document["a"] = key,
                _ => {}
            }
            if chance.below(3) > 0 {
                document["d"] = [json!(null), json!(5), json!("text")][n as usize % 3].clone();
            }
            document
        })
        .collect()
}

#[test]
fn loose_scans_give_what_sorting_and_grouping_gives() {
    let indexes = [
        json!({ "key": { "a": 1, "b": 1 } }),
        json!({ "key": { "a": -1, "b": 1 } }),
        json!({ "key": { "c": 1, "a": -1, "b": 1, "d": 1 } }),
        json!({ "key": { "a": 1, "c": 1, "b": -1 } }),
        json!({ "key": { "e.k": 1, "b": -1 } }),
        json!({ "key": { "a": 1, "b": 1 }, "clustering": true }),
        json!({ "key": { "a": 1, "b": 1, "d": 1 }, "sparse": true }),
        json!({ "key": { "a": -1, "b": -1 }, "partialFilterExpression": { "c": { "$gt": 0 } } }),
        json!({ "key": { "a": 1, "b": -1 }, "collation": { "locale": "en", "strength": 2 } }),
        json!({ "key": { "b": 1, "a": 1 }, "unique": true }),
        json!({ "key": { "a": "hashed", "b": 1 } }),
    ];
    let filters = [
        json!({}),
        json!({}),
        json!({ "c": 1 }),
        json!({ "c": { "$gt": 0 } }),
        json!({ "a": { "$gte": 1 } }),
        json!({ "a": { "$exists": true } }),
        json!({ "a": null }),
        json!({ "a": { "$in": [0, 1, null, "x"] } }),
        json!({ "c": 2, "a": { "$lt": "y" } }),
        json!({ "a": { "$ne": 1 } }),
        json!({ "b": { "$gt": 100 } }),
        json!({ "a": 1, "b": { "$gt": 20 } }),
    ];
    let orders = [
        json!({ "a": 1, "b": 1 }),
        json!({ "a": -1, "b": 1 }),
        json!({ "a": 1, "b": -1 }),
        json!({ "b": 1 }),
        json!({ "b": -1 }),
        json!({ "b": 1, "a": -1 }),
        json!({ "c": 1, "b": 1 }),
        json!({ "e.k": 1, "b": 1 }),
    ];
    let (mut loose, mut compared) = (0, 0);
    for (round, index) in indexes.iter().enumerate() {
        for arrays in [false, true] {
            let mut chance = Rng(round as u64 * 2 + u64::from(arrays));
            let mut server = Standalone::new();
            let documents = documents(&mut chance, 211, &keys(arrays));
            let mut index = index.clone();
            index["name"] = json!("i");
            server.ok(&json!({ "insert": "t", "documents": documents }));
            let made = server.answer(&json!({ "createIndexes": "t", "indexes": [index] }));
            if made["ok"] != 1.0 {
                // A hashed index does not support arrays.
                assert!(arrays && index.to_string().contains("hashed"), "{made}");
                continue;
            }
            // The later indexes can never be read loosely.
            let tries = if round < LOOSE { 100 } else { 25 };
            for _ in 0..if arrays { 10 } else { tries } {
                let (filter, order) = (chance.one_of(&filters), chance.one_of(&orders));
                let path = match order.get("e.k").is_some() || chance.below(8) == 0 {
                    true => "$e.k",
                    false => "$a",
                };
                let end = ["$first", "$last"][chance.below(2) as usize];
                let mut group = json!({ "_id": path, "b": { end: "$b" }, "d": { end: "$d" } });
                if chance.below(2) == 0 {
                    group["all"] = json!({ end: "$$ROOT" });
                }
                let pipeline = json!([{ "$match": filter }, { "$sort": order },
                    { "$group": group }]);
                let found = run(&mut server, &pipeline, &json!({}));
                let natural = json!({ "hint": { "$natural": 1 } });
                let plain = run(&mut server, &pipeline, &natural);
                let is_loose = is_loose(&explain_pipeline(&mut server, &pipeline));
                assert_eq!(
                    key_by_id(found),
                    key_by_id(plain),
                    "{index}, loose: {is_loose}: {pipeline}"
                );
                loose += usize::from(is_loose);
                compared += 1;
            }
        }
    }
    assert!(loose > 60, "{loose} of {compared}");
}
