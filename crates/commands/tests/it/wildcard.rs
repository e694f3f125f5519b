//! Wildcard indexes: results are the same as without one, `validate` finds no error after changes,
//! and explain shows the path that is read.

use crate::standalone::Standalone;
use serde_json::{Value as Json, json};

struct Server(Standalone);

impl Server {
    fn new() -> Server {
        Server(Standalone::new())
    }

    fn send(&mut self, command: &Json) -> Json {
        self.0.answer(command)
    }

    fn ok(&mut self, command: Json) -> Json {
        self.0.ok(&command)
    }

    fn index(&mut self, spec: Json) {
        self.ok(json!({ "createIndexes": "c", "indexes": [spec] }));
    }

    /// The documents, or the code of the error.
    fn find(&mut self, command: &Json) -> Result<Vec<Json>, Json> {
        let reply = self.send(command);
        match reply.pointer("/cursor/firstBatch").and_then(Json::as_array) {
            Some(found) => Ok(found.clone()),
            None => Err(reply["code"].clone()),
        }
    }

    fn winning_plan(&mut self, command: Json) -> Json {
        let e = self.ok(json!({ "explain": command, "verbosity": "executionStats" }));
        let mut plan = e["queryPlanner"]["winningPlan"].clone();
        while plan["stage"] != json!("IXSCAN") {
            let Some(input) = plan.get("inputStage") else {
                return plan;
            };
            plan = input.clone();
        }
        plan
    }
}

/// Splitmix64.
struct Rng(u64);

impl Rng {
    fn roll(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % n as u64) as usize
    }
    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.roll(of.len())]
    }
}

fn scalar(g: &mut Rng) -> Json {
    match g.roll(9) {
        0 => json!(null),
        1 => json!(true),
        2 => json!(g.pick(&["", "a", "ab", "b"])),
        3 => json!({ "$minKey": 1 }),
        4 => json!(g.roll(4) as f64 + 0.5),
        _ => json!(g.roll(4)),
    }
}

/// A random value: nested documents and arrays, some of them empty, and field names that are
/// numbers or contain dots.
fn value(g: &mut Rng, depth: usize) -> Json {
    match g.roll(if depth == 0 { 3 } else { 9 }) {
        0..=2 => scalar(g),
        3 => (0..2 + g.roll(2)).map(|_| scalar(g)).collect(),
        4 | 5 => (0..g.roll(4)).map(|_| value(g, depth - 1)).collect(),
        _ => fields(g, depth - 1, &["x", "y", "0", "1", "x.y"]),
    }
}

fn fields(g: &mut Rng, depth: usize, names: &[&str]) -> Json {
    let mut o = serde_json::Map::new();
    for _ in 0..g.roll(4) {
        let name = g.pick(names).to_owned();
        let v = value(g, depth);
        o.insert(name, v);
    }
    Json::Object(o)
}

fn document(g: &mut Rng, id: usize, flat: bool) -> Json {
    let depth = if flat { 0 } else { 3 };
    let mut d = fields(g, depth, &["a", "b", "c", "a.x"]);
    d["_id"] = json!(id);
    d["t"] = json!(g.roll(3));
    d
}

const PATHS: &[&str] = &[
    "a", "a", "a", "b", "b", "c", "t", "_id", "a.x", "a.y", "a.0", "b.x", "b.1", "a.x.y", "a.0.x",
    "a.x.0", "b.0.0", "a.0.0.x", "c.x.x",
];

fn condition(g: &mut Rng, depth: usize) -> Json {
    let ops = ["$eq", "$gt", "$gte", "$lt", "$lte", "$ne"];
    match g.roll(if depth == 0 { 12 } else { 15 }) {
        0 | 1 => json!({ g.pick(&ops): scalar(g) }),
        2 | 3 => json!({ g.pick(&["$gt", "$gte", "$lt"]): g.roll(4) }),
        4 => json!({ g.pick(&ops): value(g, 2) }),
        5 => json!({ "$in": [scalar(g), value(g, 2)] }),
        6 => json!({ "$exists": g.roll(4) > 0 }),
        7 => json!({ "$type": g.pick(&["array", "object", "string", "null", "number", "minKey"]) }),
        8 => json!({ "$size": g.roll(3) }),
        9 => json!({ "$regex": g.pick(&["^a", "b", "^"]) }),
        10 => json!({ "$gte": g.roll(2), "$lt": 1 + g.roll(3) }),
        11 => json!({ "$not": condition(g, 0) }),
        12 => json!({ "$elemMatch": condition(g, depth - 1) }),
        13 => json!({ "$all": [scalar(g), scalar(g)] }),
        _ => {
            let paths = ["x", "y", "0", "x.y", "x.0"];
            json!({ "$elemMatch": { g.pick(&paths): condition(g, depth - 1),
                g.pick(&paths): condition(g, 0) } })
        }
    }
}

fn filter(g: &mut Rng) -> Json {
    let mut o = serde_json::Map::new();
    for _ in 0..1 + g.roll(2) {
        let c = condition(g, 2);
        o.insert(g.pick(PATHS).to_owned(), c);
    }
    if g.roll(6) == 0 {
        let or = (0..2).map(|_| json!({ g.pick(PATHS): condition(g, 1) }));
        o.insert("$or".to_owned(), or.collect());
    }
    Json::Object(o)
}

fn spec(g: &mut Rng) -> Json {
    let sign = if g.roll(2) == 0 { 1 } else { -1 };
    let (key, projection) = match g.roll(10) {
        0 => (json!({ "a.$**": sign }), None),
        1 => (json!({ "a.x.$**": sign }), None),
        2 => (json!({ "$**": sign }), Some(json!({ "a.x": 1, "b": 1 }))),
        3 => (json!({ "$**": sign }), Some(json!({ "a.x": 0, "_id": 1 }))),
        4 => (json!({ "t": 1, "$**": sign }), Some(json!({ "t": 0 }))),
        5 => (json!({ "$**": 1, "t": sign }), Some(json!({ "t": 0 }))),
        6 => (json!({ "t": 1, "a.$**": sign }), None),
        7 => (json!({ "a.x.$**": 1, "t": sign, "_id": 1 }), None),
        _ => (json!({ "$**": sign }), None),
    };
    let mut spec = json!({ "key": key, "name": "wild" });
    if let Some(p) = projection {
        spec["wildcardProjection"] = p;
    }
    spec
}

/// A random query. `flat`: no document has arrays, so equal sort keys are equal values.
fn question(g: &mut Rng, flat: bool) -> Json {
    let mut find = json!({ "find": "c", "filter": filter(g), "batchSize": 1000 });
    let order = if g.roll(2) == 0 { 1 } else { -1 };
    find["sort"] = json!({ g.pick(&["_id", "a", "b", "a.x", "t"]): order, "_id": 1 });
    if flat && g.roll(2) == 0 {
        let path = g.pick(&["a", "b"]);
        find["filter"] = json!({ path: condition(g, 1) });
        find["sort"] = json!({ path: order });
        // Only the values of that path have a determined order.
        find["projection"] = json!({ "_id": 0, path: 1 });
    }
    find
}

/// Random changes of all kinds.
fn changes(g: &mut Rng, count: usize) -> Vec<Json> {
    let one = |g: &mut Rng| match g.roll(6) {
        0 => json!({ "delete": "c", "deletes": [{ "q": { "_id": g.roll(count) }, "limit": 1 }] }),
        1 => json!({ "update": "c", "updates": [{ "q": { "_id": g.roll(count) },
            "u": document(g, 0, false), "upsert": false }] }),
        2 => json!({ "update": "c", "updates": [{ "q": {}, "u": { "$unset": { g.pick(&["a.x", "b",
            "c"]): 1 } } }] }),
        _ => json!({ "update": "c", "updates": [{ "q": { "t": g.roll(3) },
            "u": { "$set": { g.pick(&["a", "b", "c"]): value(g, 3) } }, "multi": true }] }),
    };
    (0..12).map(|_| one(g)).collect()
}

#[test]
fn no_result_differs_with_a_wildcard_index() {
    let rounds = std::env::var("QUARRY_METAMORPHIC").ok();
    let rounds = rounds.and_then(|n| n.parse().ok()).unwrap_or(60u64);
    let (mut used, mut refused) = (0, 0);
    for seed in 1..=rounds {
        let mut g = Rng(seed.wrapping_mul(0x1000_0000_01B3));
        let (mut plain, mut wild) = (Server::new(), Server::new());
        let count = 3 + g.roll(25);
        let (flat, spec, built) = (g.roll(4) == 0, spec(&mut g), g.roll(2) == 0);
        if !built {
            wild.index(spec.clone());
        }
        for id in 0..count {
            let insert = json!({ "insert": "c", "documents": [document(&mut g, id, flat)] });
            plain.ok(insert.clone());
            wild.ok(insert);
        }
        if built {
            wild.index(spec.clone());
        }
        let mut ask = |g: &mut Rng, flat: bool, plain: &mut Server, wild: &mut Server| {
            for _ in 0..25 {
                let q = question(g, flat);
                let Ok(want) = plain.find(&q) else { continue };
                assert_eq!(
                    wild.find(&q).as_ref(),
                    Ok(&want),
                    "seed {seed}: {spec}\n{q}"
                );
                let mut hinted = q.clone();
                hinted["hint"] = json!("wild");
                match wild.find(&hinted) {
                    Ok(found) => assert_eq!(found, want, "seed {seed}: {spec}\n{hinted}"),
                    Err(code) => {
                        assert_eq!(code, json!(291), "seed {seed}: {spec}\n{hinted}");
                        refused += 1;
                        continue;
                    }
                }
                used += 1;
            }
        };
        ask(&mut g, flat, &mut plain, &mut wild);
        for change in changes(&mut g, count) {
            assert_eq!(
                plain.send(&change)["n"],
                wild.send(&change)["n"],
                "seed {seed}: {spec}\n{change}"
            );
        }
        ask(&mut g, false, &mut plain, &mut wild);
        let v = wild.ok(json!({ "validate": "c" }));
        assert_eq!(v["valid"], json!(true), "seed {seed}: {spec}\n{v}");
    }
    eprintln!("{used} questions by the index, {refused} that it could not answer");
    assert!(used > refused && refused > 0, "{used} and {refused}");
}

#[test]
fn explain_shows_the_path_and_its_bounds() {
    let mut s = Server::new();
    s.index(json!({ "key": { "$**": -1 }, "name": "wild" }));
    s.index(json!({ "key": { "p": 1 }, "name": "p_1" }));
    let docs: Vec<Json> = (0..10)
        .map(|i| json!({ "_id": i, "a": i, "m": [i, i + 1], "p": i, "d": { "x": i, "y": 1 } }))
        .collect();
    s.ok(json!({ "insert": "c", "documents": docs }));

    let plan = s.winning_plan(json!({ "find": "c", "filter": { "a": { "$gte": 3, "$lt": 5 } } }));
    assert_eq!(plan["indexName"], json!("wild"));
    assert_eq!(plan["keyPattern"], json!({ "$_path": 1, "a": -1 }));
    assert_eq!(plan["isMultiKey"], json!(false));
    assert_eq!(plan["multiKeyPaths"], json!({ "$_path": [], "a": [] }));
    assert_eq!(
        plan["indexBounds"],
        json!({ "$_path": ["[\"a\", \"a\"]"], "a": ["(5, 3]"] })
    );

    let plan = s.winning_plan(json!({ "find": "c", "filter": { "m": 3 } }));
    assert_eq!(plan["isMultiKey"], json!(true));
    assert_eq!(plan["multiKeyPaths"], json!({ "$_path": [], "m": ["m"] }));

    let e = s.ok(
        json!({ "explain": { "find": "c", "filter": { "d": { "$exists": true } } },
        "verbosity": "executionStats" }),
    );
    let scan = e["queryPlanner"]["winningPlan"]["inputStage"].clone();
    assert_eq!(
        scan["indexBounds"],
        json!({ "$_path": ["[\"d\", \"d\"]", "[\"d.\", \"d/\")"],
            "d": ["[MaxKey, MinKey]"] })
    );
    let stats = &e["executionStats"];
    assert_eq!(
        (&stats["nReturned"], &stats["totalKeysExamined"]),
        (&json!(10), &json!(20))
    );

    // Of equal plans, the normal index is preferred; a wildcard index only sorts by its own path.
    let plan = s.winning_plan(json!({ "find": "c", "filter": { "p": 3 } }));
    assert_eq!(plan["indexName"], json!("p_1"));
    for (sort, sorted) in [(json!({ "a": -1 }), true), (json!({ "d": 1 }), false)] {
        let e = s.ok(
            json!({ "explain": { "find": "c", "filter": { "a": { "$gt": 3 } },
            "sort": sort } }),
        );
        let top = &e["queryPlanner"]["winningPlan"]["stage"];
        assert_eq!(top != &json!("SORT"), sorted, "{e}");
    }
    let key = s.find(&json!({ "find": "c", "filter": { "d.x": 4 }, "returnKey": true }));
    assert_eq!(key, Ok(vec![json!({ "$_path": "d.x", "d.x": 4 })]));
}

#[test]
fn a_hinted_index_that_cannot_answer_is_refused() {
    let mut s = Server::new();
    s.index(json!({ "key": { "$**": 1 }, "name": "wild" }));
    s.index(json!({ "key": { "t": 1, "$**": 1 }, "name": "behind",
        "wildcardProjection": { "t": 0 } }));
    let docs = json!([{ "_id": 1, "a": { "b": 1 }, "t": 1 }, { "_id": 2 }]);
    s.ok(json!({ "insert": "c", "documents": docs }));
    let mut ask = |hint: &str, filter: Json| {
        s.find(&json!({ "find": "c", "filter": filter, "hint": hint,
            "projection": { "_id": 1 } }))
    };
    for filter in [
        json!({}),
        json!({ "_id": 1 }),
        json!({ "a": null }),
        json!({ "a": { "$exists": false } }),
        json!({ "a": { "b": 1 } }),
        json!({ "a": { "$ne": 1 } }),
        json!({ "$or": [{ "a.b": 1 }, { "c": { "$exists": false } }] }),
    ] {
        assert_eq!(ask("wild", filter.clone()), Err(json!(291)), "{filter}");
    }
    let one = Ok(vec![json!({ "_id": 1 })]);
    assert_eq!(ask("wild", json!({ "a.b": 1 })), one);
    assert_eq!(ask("wild", json!({ "a": { "$ne": null } })), one);
    assert_eq!(
        ask("wild", json!({ "$or": [{ "a.b": 1 }, { "c": 1 }] })),
        one
    );
    // A compound wildcard index contains every document.
    assert_eq!(
        ask("behind", json!({ "t": null })),
        Ok(vec![json!({ "_id": 2 })])
    );
    assert_eq!(ask("behind", json!({ "a.b": 1 })), Err(json!(291)));
    assert_eq!(ask("behind", json!({ "t": 1, "a.b": 1 })), one);
}

#[test]
fn arrays_are_found_by_any_element_and_once() {
    let mut s = Server::new();
    s.index(json!({ "key": { "$**": 1 }, "name": "wild" }));
    let docs = json!([{ "_id": 1, "a": [1, 2, 3], "b": { "x": 1, "y": 2 } },
        { "_id": 2, "a": [0, 5] }, { "_id": 3, "a": [{ "c": 1 }, { "c": 9 }] }]);
    s.ok(json!({ "insert": "c", "documents": docs }));
    let mut ids = |filter: Json| {
        let find = json!({ "find": "c", "filter": filter, "hint": "wild" });
        let found = s.find(&find).expect("an answer");
        found
            .iter()
            .filter_map(|d| d["_id"].as_i64())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(json!({ "a": { "$gte": 1, "$lte": 3 } })), [1, 2]);
    assert_eq!(ids(json!({ "a": { "$gt": 3, "$lt": 1 } })), [2]);
    assert_eq!(ids(json!({ "a.c": { "$gt": 3, "$lt": 5 } })), [3]);
    assert_eq!(ids(json!({ "b": { "$exists": true } })), [1]);
    assert_eq!(ids(json!({ "a.0": 1 })), [1]);
    assert_eq!(
        ids(json!({ "a": { "$elemMatch": { "c": { "$gt": 1 } } } })),
        [3]
    );
}

#[test]
fn a_not_null_filter_below_an_array_uses_no_wildcard_index() {
    let mut s = Server::new();
    s.index(json!({ "key": { "$**": 1 }, "name": "wild" }));
    let filter = json!({ "a.b": { "$ne": null } });
    let find = json!({ "find": "c", "filter": filter });
    s.ok(json!({ "insert": "c", "documents": [{ "_id": 1, "a": { "b": 1 } }, { "_id": 2 }] }));
    assert_eq!(s.winning_plan(find.clone())["stage"], json!("IXSCAN"));
    s.ok(json!({ "insert": "c", "documents": [{ "_id": 3, "a": [] }] }));
    assert_eq!(s.winning_plan(find.clone())["stage"], json!("COLLSCAN"));
    assert_eq!(s.find(&find).map(|f| f.len()), Ok(2));
}

#[test]
fn the_index_is_kept_hidden_dropped_and_counted() {
    let mut s = Server::new();
    let docs: Vec<Json> = (0..50)
        .map(|i| json!({ "_id": i, "a": i, "b": { "c": [i, 1] } }))
        .collect();
    s.ok(json!({ "insert": "c", "documents": docs }));
    s.index(json!({ "key": { "$**": 1 }, "name": "wild" }));
    let v = s.ok(json!({ "validate": "c" }));
    assert_eq!(v["keysPerIndex"], json!({ "_id_": 50, "wild": 149 }));
    assert_eq!(
        s.ok(json!({ "count": "c", "query": { "b.c": 1 } }))["n"],
        json!(50)
    );
    let find = json!({ "find": "c", "filter": { "a": 7 } });
    assert_eq!(s.winning_plan(find.clone())["stage"], json!("IXSCAN"));
    s.ok(json!({ "collMod": "c", "index": { "name": "wild", "hidden": true } }));
    assert_eq!(s.winning_plan(find.clone())["stage"], json!("COLLSCAN"));
    s.ok(json!({ "insert": "c", "documents": [{ "_id": 50, "a": 7 }] }));
    s.ok(json!({ "collMod": "c", "index": { "name": "wild", "hidden": false } }));
    assert_eq!(s.find(&find).map(|f| f.len()), Ok(2));
    let stats = s.find(
        &json!({ "aggregate": "c", "pipeline": [{ "$indexStats": {} },
        { "$match": { "name": "wild" } }], "cursor": {} }),
    );
    let ops = stats.map(|s| s[0]["accesses"]["ops"].as_i64());
    assert!(matches!(ops, Ok(Some(n)) if n >= 2), "{ops:?}");
    s.ok(json!({ "dropIndexes": "c", "index": "wild" }));
    assert_eq!(s.winning_plan(find.clone())["stage"], json!("COLLSCAN"));
}

#[test]
fn a_path_with_other_fields_needs_no_projection_and_must_not_overlap_them() {
    let mut s = Server::new();
    s.index(json!({ "key": { "t": 1, "a.$**": 1 }, "name": "wild" }));
    s.ok(json!({ "insert": "c", "documents": [
        { "_id": 1, "t": 1, "a": { "x": 1 } }, { "_id": 2, "t": 1, "a": { "x": 2, "y": 1 } },
        { "_id": 3, "t": 2, "a": { "x": 1 } }, { "_id": 4, "t": 1 }] }));
    let find = json!({ "find": "c", "filter": { "t": 1, "a.x": 1 }, "hint": "wild" });
    let found = s.find(&find).expect("found");
    assert_eq!(found, [json!({ "_id": 1, "t": 1, "a": { "x": 1 } })]);
    for key in [
        json!({ "a": 1, "a.$**": 1 }),
        json!({ "a.x": 1, "a.$**": 1 }),
        json!({ "a.x.$**": 1, "a": 1 }),
        json!({ "t": 1, "$**": 1 }),
    ] {
        let create = json!({ "createIndexes": "c", "indexes": [{ "key": key, "name": "no" }] });
        assert_eq!(s.send(&create)["code"], json!(67), "{create}");
    }
    // A name with the same prefix is another field.
    s.index(json!({ "key": { "ab": 1, "a.$**": 1 }, "name": "alike" }));
}
