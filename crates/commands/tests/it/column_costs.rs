//! Whether a read uses a scan, an index or columns, depending on the costs: the documents, keys and
//! segments that are read are counted on real data.

use crate::column_indexes::{Server, lowest};
use query::segments::Sizes;
use serde_json::{Value as Json, json};

const DOCS: usize = 3000;

/// Documents of 2 KB in segments of 500, with an index and columns. `k` has seven values.
fn wide() -> Server {
    let mut server = Server::of(Sizes {
        docs_max: 500,
        docs_min: 50,
    });
    let pad = "p".repeat(2000);
    let docs: Vec<Json> = (0..DOCS)
        .map(|i| json!({ "_id": i, "a": i, "k": i % 7, "r": i * 37 % DOCS, "pad": pad }))
        .collect();
    for docs in docs.chunks(500) {
        server.ok(&json!({ "insert": "c", "documents": docs }));
    }
    let paths = ["a", "k", "r"].map(|path| (path.to_owned(), json!("columnstore")));
    let columns: serde_json::Map<String, Json> = paths.into_iter().collect();
    let columns = json!({ "key": columns, "name": "columns" });
    let index = json!({ "key": { "r": 1 }, "name": "r" });
    server.ok(&json!({ "createIndexes": "c", "indexes": [columns, index] }));
    server.work();
    server
}

fn group(filter: Json) -> Json {
    let stages =
        json!([{ "$match": filter }, { "$group": { "_id": "$k", "n": { "$sum": "$a" } } }]);
    json!({ "aggregate": "c", "pipeline": stages, "cursor": {} })
}

/// The plan and the execution statistics of an explained command.
struct ExplainOutput {
    stage: String,
    keys: u64,
    docs: u64,
    rows: u64,
    segments: [u64; 2],
    cost: f64,
    rows_expected: f64,
    docs_expected: f64,
    /// The stages of rejected plans with their costs.
    rejected: Vec<(String, f64)>,
}

fn number(of: &Json) -> f64 {
    let text = |name: &str| of.get(name).and_then(Json::as_str);
    let text = text("$numberInt")
        .or(text("$numberLong"))
        .or(text("$numberDouble"));
    text.map_or(0.0, |text| text.parse().expect("a number"))
}

fn explain_command(server: &mut Server, command: &Json) -> ExplainOutput {
    let reply = server.ok(&json!({ "explain": command, "verbosity": "executionStats" }));
    let whole = match reply.get("stages") {
        Some(stages) => stages[0]["$cursor"].clone(),
        None => reply.clone(),
    };
    let stats = &whole["executionStats"];
    let stage = lowest(stats["executionStages"].clone());
    let at = |name: &str| number(&stage[name]);
    let rejected = whole["queryPlanner"]["rejectedPlans"].as_array();
    let name = |stage: &Json| stage["stage"].as_str().unwrap_or("none").to_owned();
    ExplainOutput {
        keys: number(&stats["totalKeysExamined"]) as u64,
        docs: number(&stats["totalDocsExamined"]) as u64,
        rows: at("rowsFromSegments") as u64,
        segments: [at("segmentsRead") as u64, at("segmentsSkipped") as u64],
        cost: at("costEstimate"),
        rows_expected: at("numRowsEstimate"),
        docs_expected: at("numDocsEstimate"),
        stage: name(&stage),
        rejected: rejected
            .into_iter()
            .flatten()
            .map(|plan| (name(&lowest(plan.clone())), number(&plan["costEstimate"])))
            .collect(),
    }
}

/// Checks that every rejected plan costs more.
fn costs_least(shown: &ExplainOutput, others: &[&str]) {
    let names: Vec<&str> = shown.rejected.iter().map(|(name, _)| &name[..]).collect();
    assert_eq!(names, others, "{}", shown.stage);
    assert!(
        shown.rejected.iter().all(|(_, cost)| *cost > shown.cost),
        "{} {:?}",
        shown.cost,
        shown.rejected
    );
}

#[test]
fn a_selective_index_is_read_rather_than_columns() {
    let mut server = wide();
    let one = explain_command(&mut server, &group(json!({ "r": 17 })));
    assert_eq!((&one.stage[..], one.keys, one.docs), ("IXSCAN", 1, 1));
    let most = explain_command(&mut server, &group(json!({ "r": { "$gte": 300 } })));
    assert_eq!(
        (&most.stage[..], most.keys, most.docs),
        ("COLUMN_SCAN", 0, 0)
    );
    assert_eq!((most.rows, most.segments), (3000, [6, 0]));
    costs_least(&most, &["IXSCAN", "COLLSCAN"]);
}

#[test]
fn columns_are_read_rather_than_wide_documents() {
    let mut server = wide();
    let all = explain_command(&mut server, &group(json!({})));
    assert_eq!(
        (&all.stage[..], all.docs, all.rows),
        ("COLUMN_SCAN", 0, 3000)
    );
    assert_eq!((all.rows_expected, all.docs_expected), (3000.0, 0.0));
    costs_least(&all, &["COLLSCAN"]);
    // The value ranges of five segments exclude them, which the estimate takes into account.
    let some = explain_command(
        &mut server,
        &group(json!({ "a": { "$gte": 1100, "$lt": 1200 } })),
    );
    assert_eq!((some.rows, some.segments), (500, [1, 5]));
    assert_eq!((some.rows_expected, some.docs_expected), (500.0, 0.0));
    assert!(some.cost < all.cost, "{} {}", some.cost, all.cost);
}

#[test]
fn documents_are_read_where_most_were_touched() {
    let mut server = wide();
    let touch = |server: &mut Server, k: Json| {
        let change =
            json!({ "q": { "k": { "$in": k } }, "u": { "$inc": { "z": 1 } }, "multi": true });
        server.ok(&json!({ "update": "c", "updates": [change] }));
    };
    touch(&mut server, json!([0]));
    let few = explain_command(&mut server, &group(json!({})));
    assert_eq!(
        (&few.stage[..], few.docs, few.rows),
        ("COLUMN_SCAN", 429, 2571)
    );
    assert_eq!((few.rows_expected, few.docs_expected), (3000.0, 429.0));
    touch(&mut server, json!([0, 1, 2]));
    let many = explain_command(&mut server, &group(json!({})));
    assert_eq!(
        (&many.stage[..], many.docs, many.rows),
        ("COLLSCAN", 3000, 0)
    );
    let names: Vec<&str> = many.rejected.iter().map(|(name, _)| &name[..]).collect();
    assert_eq!(names, ["COLUMN_SCAN"]);
    server.work();
    let again = explain_command(&mut server, &group(json!({})));
    assert_eq!(
        (&again.stage[..], again.docs, again.rows),
        ("COLUMN_SCAN", 0, 3000)
    );
}

#[test]
fn finds_counts_and_values_are_read_from_columns() {
    let mut server = wide();
    let range = json!({ "a": { "$gte": 1100, "$lt": 1200 } });
    let find = json!({ "find": "c", "filter": range, "projection": { "k": 1, "a": 1 } });
    let found = explain_command(&mut server, &find);
    assert_eq!(
        (&found.stage[..], found.docs, found.rows),
        ("COLUMN_SCAN", 0, 500)
    );
    assert_eq!(found.segments, [1, 5]);
    let batch = server.ok(&find)["cursor"]["firstBatch"].clone();
    let first = "{\"_id\":{\"$numberInt\":\"1100\"},\"a\":{\"$numberInt\":\"1100\"},\
        \"k\":{\"$numberInt\":\"1\"}}";
    assert_eq!(
        (batch[0].to_string(), batch[99]["a"].clone()),
        (first.to_owned(), int(1199))
    );
    let count = json!({ "count": "c", "query": { "k": 3 } });
    let counted = explain_command(&mut server, &count);
    assert_eq!(
        (&counted.stage[..], counted.docs, counted.rows),
        ("COLUMN_SCAN", 0, 3000)
    );
    assert_eq!(server.ok(&count)["n"], int(429));
    let distinct = json!({ "distinct": "c", "key": "k", "query": range });
    let values = explain_command(&mut server, &distinct);
    assert_eq!(
        (&values.stage[..], values.docs, values.rows),
        ("COLUMN_SCAN", 0, 500)
    );
    let all: Vec<Json> = (0..7).map(int).collect();
    assert_eq!(server.ok(&distinct)["values"], json!(all));
    // A few of many documents are taken from a scan; the largest values are found in columns.
    let few = json!({ "find": "c", "projection": { "k": 1 }, "limit": 5 });
    assert_eq!(explain_command(&mut server, &few).stage, "COLLSCAN");
    let top = json!({ "find": "c", "projection": { "a": 1 }, "sort": { "a": -1 }, "limit": 2 });
    let shown_top = explain_command(&mut server, &top);
    assert_eq!((&shown_top.stage[..], shown_top.docs), ("COLUMN_SCAN", 0));
    assert_eq!(server.ok(&top)["cursor"]["firstBatch"][1]["a"], int(2998));
    // Fields without a column are read from documents.
    let whole = json!({ "find": "c", "filter": { "k": 1 } });
    assert_eq!(explain_command(&mut server, &whole).stage, "COLLSCAN");
    let other = json!({ "find": "c", "projection": { "k": 1, "pad": 1 } });
    assert_eq!(explain_command(&mut server, &other).stage, "COLLSCAN");
}

fn int(n: i32) -> Json {
    json!({ "$numberInt": n.to_string() })
}

/// The `_id` values of all documents that a cursor still returns.
fn drain_cursor(server: &mut Server, cursor: &Json) -> Vec<Json> {
    let (mut id, mut all) = (cursor.clone(), Vec::new());
    while id["$numberLong"] != json!("0") {
        let next = json!({ "getMore": id, "collection": "c", "batchSize": 250 });
        let reply = server.ok(&next);
        let batch = reply["cursor"]["nextBatch"].as_array().cloned();
        all.extend(batch.into_iter().flatten().map(|d| d["_id"].clone()));
        id = reply["cursor"]["id"].clone();
    }
    all
}

#[test]
fn more_cursors_than_may_keep_a_segment_go_on_where_they_were() {
    const CURSORS: usize = 64;
    let mut server = Server::of(Sizes {
        docs_max: 300,
        docs_min: 50,
    });
    // A segment has 1.2 MB; 64 MiB of segments are cached.
    let pad = "p".repeat(4000);
    let docs: Vec<Json> = (0..600).map(|i| json!({ "_id": i, "pad": pad })).collect();
    server.ok(&json!({ "insert": "c", "documents": docs }));
    let index = json!({ "key": { "pad": "columnstore" }, "name": "columns" });
    server.ok(&json!({ "createIndexes": "c", "indexes": [index] }));
    server.work();
    let find = json!({ "find": "c", "projection": { "pad": 1 }, "batchSize": 7 });
    assert_eq!(explain_command(&mut server, &find).stage, "COLUMN_SCAN");
    let cursors: Vec<Json> = (0..CURSORS)
        .map(|_| server.ok(&find)["cursor"]["id"].clone())
        .collect();
    // The old segments no longer exist when the cursors continue.
    let change = json!({ "q": { "_id": { "$mod": [5, 0] } }, "u": { "$set": { "z": 1 } },
        "multi": true });
    server.ok(&json!({ "update": "c", "updates": [change] }));
    server.ok(&json!({ "delete": "c", "deletes": [{ "q": { "_id": 450 }, "limit": 1 }] }));
    server.work();
    let wanted: Vec<Json> = (7..600).filter(|i| *i != 450).map(int).collect();
    for cursor in cursors {
        assert_eq!(drain_cursor(&mut server, &cursor), wanted);
    }
}
