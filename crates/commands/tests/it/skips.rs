//! When a query has no condition on the first field of an index and that field has few values, the
//! index is read once per value, if that costs less than a scan. Both find the same documents.

use crate::standalone::Standalone;
use serde_json::{Value as Json, json};

/// `a` has a few values of different types, `b` 500 numbers.
fn start_filled(values: &[Json], index: &Json) -> Standalone {
    let mut server = Standalone::new();
    server.ok(&json!({ "createIndexes": "t", "indexes": [index] }));
    let documents: Vec<Json> = (0..3000)
        .map(|n: usize| {
            let mut document = json!({ "_id": n, "b": (n * 7) % 500, "c": n % 11 });
            match values[n % values.len()].clone() {
                Json::String(s) if s == "MISSING" => {}
                value => document["a"] = value,
            }
            document
        })
        .collect();
    server.ok(&json!({ "insert": "t", "documents": documents }));
    server
}

fn values() -> Vec<Json> {
    vec![
        json!(1),
        json!(2.0),
        json!("x"),
        json!("x\u{0}y"),
        json!(null),
        json!("MISSING"),
        json!({ "k": 1 }),
    ]
}

/// The ids of the results, and the number of entries and documents examined.
fn find_ids(server: &mut Standalone, find: &Json) -> (Vec<i64>, u64, u64) {
    let mut find = find.clone();
    find["batchSize"] = json!(10_000);
    let reply = server.ok(&find);
    let documents = reply["cursor"]["firstBatch"].as_array().unwrap();
    let ids = documents.iter().map(|d| d["_id"].as_i64().unwrap());
    let ids = ids.collect();
    (ids, server.read_totals().keys, server.read_totals().docs)
}

fn agrees(server: &mut Standalone, find: &Json) -> (u64, u64) {
    let (mut ids, keys, docs) = find_ids(server, find);
    let mut natural = find.clone();
    natural["hint"] = json!({ "$natural": 1 });
    let (mut all, _, _) = find_ids(server, &natural);
    if find.get("sort").is_none() {
        ids.sort_unstable();
        all.sort_unstable();
    }
    assert_eq!(ids, all, "{find}");
    (keys, docs)
}

#[test]
fn an_index_scan_skips_over_few_values_of_the_first_field() {
    for index in [
        json!({ "name": "i", "key": { "a": 1, "b": 1 } }),
        json!({ "name": "i", "key": { "a": -1, "b": -1, "c": 1 } }),
    ] {
        let mut server = start_filled(&values(), &index);
        for (filter, matching) in [
            (json!({ "b": 5 }), 6),
            (json!({ "b": { "$gte": 20, "$lt": 30 } }), 60),
            (
                json!({ "b": { "$in": [1, 7, 600] }, "c": { "$lt": 9 } }),
                12,
            ),
        ] {
            let find = json!({ "find": "t", "filter": filter });
            let (keys, docs) = agrees(&mut server, &find);
            assert!(keys <= matching, "{filter}: {keys}");
            assert!(docs <= matching, "{filter}: {docs}");
            let sorted = json!({ "find": "t", "filter": filter, "sort": { "_id": -1 } });
            agrees(&mut server, &sorted);
            // Again, as with a cached plan.
            assert_eq!(agrees(&mut server, &find), (keys, docs));
        }
        let e = server.ok(&json!({ "explain": { "find": "t", "filter": { "b": 5 } },
            "verbosity": "executionStats" }));
        let fetch = &e["queryPlanner"]["winningPlan"];
        let scan = &fetch["inputStage"];
        assert_eq!(scan["indexName"], "i");
        assert!(fetch["costEstimate"].as_f64() < Some(100.0), "{fetch}");
        assert_eq!(e["queryPlanner"]["rejectedPlans"][0]["stage"], "COLLSCAN");
        // A new value is found, a deleted one is not.
        server.ok(&json!({ "insert": "t", "documents": [
            { "_id": -1, "a": 1.5, "b": 5 }, { "_id": -2, "a": true, "b": 5 }] }));
        server.ok(&json!({ "delete": "t", "deletes": [{ "q": { "_id": 215 }, "limit": 1 }] }));
        let (keys, _) = agrees(&mut server, &json!({ "find": "t", "filter": { "b": 5 } }));
        assert!(keys <= 9, "{keys}");
    }
}

#[test]
fn many_values_arrays_and_sparse_indexes_are_not_read_by_skips() {
    let many: Vec<Json> = (0..300).map(|n| json!(n)).collect();
    let mut arrays = values();
    arrays.push(json!([1, 2]));
    let plain = json!({ "name": "i", "key": { "a": 1, "b": 1 } });
    let sparse = json!({ "name": "i", "key": { "a": 1, "b": 1 }, "sparse": true });
    let partial = json!({ "name": "i", "key": { "a": 1, "b": 1 },
        "partialFilterExpression": { "c": { "$gt": 3 } } });
    let collated = json!({ "name": "i", "key": { "a": 1, "b": 1 },
        "collation": { "locale": "en", "strength": 2 } });
    let most = json!({ "b": { "$gte": 10 } });
    let one = json!({ "b": 5 });
    for (values, index, filter, scans) in [
        (&many, &plain, &one, true),
        (&arrays, &plain, &one, true),
        (&values(), &partial, &one, true),
        (&values(), &plain, &most, true),
        (&values(), &sparse, &one, false),
        (&values(), &sparse, &json!({ "b": null }), true),
        (
            &values(),
            &partial,
            &json!({ "b": 5, "c": { "$gt": 4 } }),
            false,
        ),
        (&values(), &collated, &one, true),
    ] {
        let mut server = start_filled(values, index);
        let (_, docs) = agrees(&mut server, &json!({ "find": "t", "filter": filter }));
        assert_eq!(docs >= 2000, scans, "{index} {filter}: {docs}");
        let count = json!({ "count": "t", "query": filter });
        let counted = server.ok(&count)["n"].as_u64();
        let natural = json!({ "count": "t", "query": filter, "hint": { "$natural": 1 } });
        assert_eq!(
            counted,
            server.ok(&natural)["n"].as_u64(),
            "{index} {filter}"
        );
    }
}
