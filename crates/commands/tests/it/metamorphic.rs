//! Runs the same aggregation, count, distinct and find over random documents twice: as written and
//! without indexes, and optimized and with random indexes. Results must be the same, in order if
//! the query has a total sort. `QUARRY_METAMORPHIC=n` runs n rounds instead of a few;
//! `QUARRY_SEED=n` begins with another seed.

use crate::behaviour::{send, serve, store};
use commands::{Config, Connection, Dispatcher};
use model::extjson;
use serde_json::{Value as Json, json};
use std::sync::Arc;

const QUICK_ROUNDS: u64 = 150;
const PIPELINES_A_ROUND: usize = 12;

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
    fn chance(&mut self, percent: usize) -> bool {
        self.roll(100) < percent
    }
    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.roll(of.len())]
    }
    fn sign(&mut self) -> i32 {
        if self.chance(50) { 1 } else { -1 }
    }
}

const PATHS: &[&str] = &[
    "a", "b", "c", "d", "e", "c.x", "c.y", "d.x", "d.y", "_id", "k", "n", "w", "k.x", "_id.p",
];
const OWN: &[&str] = &["a", "b", "c", "d", "e"];

fn scalar(g: &mut Rng) -> Json {
    match g.roll(12) {
        0 => json!(null),
        1 | 2 => json!((g.roll(12) as f64 - 4.0) / 2.0),
        3 | 4 => json!(g.pick(&["", "a", "ab", "abc", "b", "ba"])),
        5 => json!(g.chance(50)),
        _ => json!(g.roll(6) as i32 - 1),
    }
}

fn object(g: &mut Rng) -> Json {
    let mut o = serde_json::Map::new();
    for k in ["x", "y"] {
        if g.chance(75) {
            o.insert(k.to_owned(), scalar(g));
        }
    }
    Json::Object(o)
}

/// Only `b` and `d` have arrays, so that few documents have two arrays in one compound index.
fn document(g: &mut Rng, id: i32) -> Json {
    let mut o = serde_json::Map::new();
    o.insert("_id".to_owned(), json!(id));
    if g.chance(85) {
        o.insert("a".to_owned(), scalar(g));
    }
    if g.chance(85) {
        let v = if g.chance(25) {
            (0..g.roll(4)).map(|_| scalar(g)).collect()
        } else {
            scalar(g)
        };
        o.insert("b".to_owned(), v);
    }
    if g.chance(80) {
        let v = if g.chance(80) { object(g) } else { scalar(g) };
        o.insert("c".to_owned(), v);
    }
    if g.chance(60) {
        let v = match g.roll(3) {
            0 => (0..g.roll(3)).map(|_| object(g)).collect(),
            1 => object(g),
            _ => scalar(g),
        };
        o.insert("d".to_owned(), v);
    }
    if g.chance(90) {
        o.insert("e".to_owned(), json!(g.roll(4) as i32));
    }
    Json::Object(o)
}

/// A wildcard index over all fields, over some, or after another field.
fn wildcard(g: &mut Rng) -> Json {
    let (key, projection) = match g.roll(6) {
        0 => (json!({ "c.$**": 1 }), None),
        1 => (json!({ "$**": g.sign() }), Some(json!({ "a": 1, "d": 1 }))),
        2 => (json!({ "$**": 1 }), Some(json!({ "c.x": 0, "_id": 1 }))),
        3 => (json!({ "e": 1, "$**": g.sign() }), Some(json!({ "e": 0 }))),
        _ => (json!({ "$**": g.sign() }), None),
    };
    let mut spec = json!({ "key": key, "name": "wild" });
    if let Some(p) = projection {
        spec["wildcardProjection"] = p;
    }
    if g.chance(15) {
        spec["partialFilterExpression"] = json!({ "e": { "$gte": 1 } });
    }
    spec
}

fn index(g: &mut Rng) -> Json {
    let fields = ["a", "a", "b", "c", "e", "e", "c.x", "d.x", "_id"];
    let mut key = serde_json::Map::new();
    for _ in 0..1 + g.roll(3) {
        let f = g.pick(&fields);
        key.entry(f).or_insert(json!(g.sign()));
    }
    if key.len() == 1 && key.contains_key("_id") {
        key.insert("a".to_owned(), json!(1));
    }
    let name = key
        .iter()
        .map(|(k, v)| format!("{k}_{v}"))
        .collect::<Vec<_>>()
        .join("_");
    let mut spec = json!({ "key": key, "name": name });
    match g.roll(8) {
        0 => spec["sparse"] = json!(true),
        1 => spec["partialFilterExpression"] = json!({ "e": { "$gte": 1 } }),
        2 => spec["clustering"] = json!(true),
        3 => spec["clustering"] = json!(["c", "d"]),
        _ => {}
    }
    spec
}

fn condition(g: &mut Rng) -> Json {
    let ops = ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"];
    match g.roll(14) {
        0..=5 => json!({ g.pick(&ops): scalar(g) }),
        6 => json!({ "$in": (0..1 + g.roll(4)).map(|_| scalar(g)).collect::<Json>() }),
        7 => json!({ "$nin": [scalar(g), scalar(g)] }),
        8 => json!({ "$exists": g.chance(60) }),
        9 => json!({ "$regex": g.pick(&["^a", "^ab", "b", "^a.*", "^ab?"]) }),
        10 => json!({ "$not": { g.pick(&ops): scalar(g) } }),
        11 => json!({ "$gte": g.roll(3) as i32 - 1, "$lt": g.roll(5) as i32 }),
        12 => json!({ "$elemMatch": { "$gte": g.roll(2) as i32 } }),
        _ => scalar(g),
    }
}

/// A condition for which an index is likely to be used.
fn likely(g: &mut Rng) -> Json {
    let field = g.pick(&["a", "a", "e", "e", "c.x", "_id", "b"]);
    let small = |g: &mut Rng| json!(g.roll(4) as i32 - 1);
    match g.roll(5) {
        0 => json!({ field: { "$in": [small(g), small(g), small(g)] } }),
        1 => json!({ field: { g.pick(&["$gt", "$lte", "$gte"]): small(g) } }),
        2 => json!({ field: { "$regex": g.pick(&["^a", "^ab"]) } }),
        _ => json!({ field: small(g) }),
    }
}

fn filter(g: &mut Rng, depth: usize) -> Json {
    match g.roll(if depth == 0 { 14 } else { 18 }) {
        14 | 15 if g.chance(70) => {
            json!({ "$or": (0..2 + g.roll(2)).map(|_| likely(g)).collect::<Json>() })
        }
        14 | 15 => json!({ "$or": [filter(g, depth - 1), filter(g, depth - 1)] }),
        16 => json!({ "$and": [filter(g, depth - 1), filter(g, depth - 1)] }),
        17 => json!({ "$nor": [filter(g, depth - 1)] }),
        13 => {
            json!({ "$expr": { g.pick(&["$gt", "$lte", "$eq", "$ne"]): [format!("${}",
                g.pick(PATHS)), scalar(g)] } })
        }
        n => {
            let mut o = serde_json::Map::new();
            for _ in 0..1 + n % 3 {
                let p = if g.chance(70) {
                    g.pick(OWN)
                } else {
                    g.pick(PATHS)
                };
                o.insert(p.to_owned(), condition(g));
            }
            Json::Object(o)
        }
    }
}

fn expression(g: &mut Rng) -> Json {
    match g.roll(8) {
        0 => json!({ "$literal": scalar(g) }),
        1 => json!({ "$ifNull": [format!("${}", g.pick(PATHS)), 7] }),
        2 => json!({ "$concatArrays": [[format!("${}", g.pick(PATHS))], [1, 2]] }),
        3 => json!({ "p": format!("${}", g.pick(PATHS)), "q": { "$add": [1, 2] } }),
        4 => json!({ "$cond": [{ "$gt": [format!("${}", g.pick(PATHS)), 1] }, "$e", "$$REMOVE"] }),
        5 => json!({ "$let": { "vars": { "v": "$$ROOT" }, "in": "$$v.a" } }),
        _ => json!(format!("${}", g.pick(PATHS))),
    }
}

/// Known properties of the documents at a point in the pipeline.
#[derive(Clone, Copy)]
struct Properties {
    /// Their order is determined.
    total: bool,
    /// Their `_id` values are distinct.
    unique: bool,
    /// The elements of their arrays have no determined order.
    loose: bool,
}

fn sort(g: &mut Rng, known: &mut Properties) -> Json {
    let mut s = serde_json::Map::new();
    for _ in 0..g.roll(3) {
        s.insert(
            g.pick(&["a", "c", "e", "c.x", "n", "k", "b"]).to_owned(),
            json!(g.sign()),
        );
    }
    known.total = known.unique;
    s.insert("_id".to_owned(), json!(g.sign()));
    json!({ "$sort": s })
}

fn project(g: &mut Rng, known: &mut Properties) -> Json {
    let mut o = serde_json::Map::new();
    let mut named: Vec<&str> = Vec::new();
    let include = g.chance(65);
    for _ in 0..1 + g.roll(4) {
        let p = g.pick(&["a", "b", "c", "c.x", "d", "d.x", "e", "k", "n"]);
        let clash = named
            .iter()
            .any(|n| *n == p || n.starts_with(&format!("{p}.")) || p.starts_with(&format!("{n}.")));
        if clash {
            continue;
        }
        named.push(p);
        let v = match include {
            true if g.chance(35) => expression(g),
            true => json!(1),
            false => json!(0),
        };
        // The nested form of a path.
        let v = if v.is_number() && matches!(p, "c" | "d") && g.chance(25) {
            json!({ "x": v })
        } else {
            v
        };
        o.insert(p.to_owned(), v);
    }
    if g.chance(15) {
        o.insert("_id".to_owned(), json!(0));
        known.unique = false;
    }
    json!({ "$project": o })
}

fn add_fields(g: &mut Rng) -> Json {
    let mut o = serde_json::Map::new();
    for _ in 0..1 + g.roll(2) {
        o.insert(g.pick(&["a", "k", "n", "e", "w"]).to_owned(), expression(g));
    }
    json!({ "$addFields": o })
}

fn group(g: &mut Rng, known: &mut Properties) -> Json {
    let id = match g.roll(5) {
        0 => json!(null),
        1 => json!({ "p": "$a", "q": "$e" }),
        2 => json!("$c.x"),
        3 => json!("$e"),
        _ => json!("$a"),
    };
    let mut o = json!({ "_id": id, "n": { "$sum": 1 } });
    if g.chance(25) {
        *known = Properties {
            total: false,
            unique: true,
            loose: known.loose,
        };
        return json!({ "$group": { "_id": o["_id"] } });
    }
    if g.chance(60) {
        o["k"] = json!({ g.pick(&["$min", "$max", "$sum"]): format!("${}", g.pick(&["a", "b", "e",
            "c", "n"])) });
    }
    if known.total && g.chance(60) {
        o["w"] = json!({ g.pick(&["$first", "$last", "$push"]): format!("${}", g.pick(&["a", "b",
            "e", "_id"])) });
        if g.chance(60) {
            o.as_object_mut().map(|o| o.remove("n"));
            o.as_object_mut().map(|o| o.remove("k"));
        }
    }
    *known = Properties {
        total: false,
        unique: true,
        loose: known.loose,
    };
    json!({ "$group": o })
}

fn window(g: &mut Rng, known: &mut Properties) -> Json {
    let by = format!("${}", g.pick(&["a", "e", "c.x"]));
    known.total = false;
    if known.unique {
        return json!({ "$setWindowFields": { "partitionBy": by, "sortBy": { "_id": 1 }, "output": {
            "n": { "$sum": "$e", "window": { "documents": ["unbounded", "current"] } } } } });
    }
    json!({ "$setWindowFields": { "partitionBy": by, "output": { "k": { "$max": "$a" } } } })
}

/// One random step, which may have several stages.
fn stages(g: &mut Rng, known: &mut Properties, depth: usize, out: &mut Vec<Json>) {
    match g.roll(if depth == 0 { 22 } else { 26 }) {
        0..=4 => out.push(json!({ "$match": filter(g, 2) })),
        n @ 5..=8 => {
            out.push(if n < 7 {
                project(g, known)
            } else {
                add_fields(g)
            });
            if g.chance(40) {
                out.push(json!({ "$match": filter(g, 1) }));
            }
        }
        9 => out.push(json!({ "$unset": [g.pick(&["a", "b", "c.x", "d.x", "k"])] })),
        10..=12 => {
            let s = sort(g, known);
            out.push(s);
        }
        13..=15 if known.total => {
            if g.chance(50) {
                out.push(json!({ "$skip": g.roll(6) }));
            }
            if g.chance(80) {
                out.push(json!({ "$limit": 1 + g.roll(12) }));
            }
        }
        16 => {
            if out.is_empty() && g.chance(50) {
                out.push(json!({ "$match": likely(g) }));
            }
            out.push(group(g, known));
            if g.chance(50) {
                out.push(json!({ "$match": { g.pick(&["_id", "_id.p", "_id.q"]): condition(g) } }));
            }
        }
        17 => {
            let mut u = json!({ "path": format!("${}", g.pick(&["b", "d", "k", "a"])) });
            if g.chance(40) {
                u["preserveNullAndEmptyArrays"] = json!(true);
            }
            if g.chance(25) {
                u["includeArrayIndex"] = json!("w");
            }
            known.unique = false;
            out.push(json!({ "$unwind": u }));
        }
        18 => out.push(window(g, known)),
        19 => match g.chance(50) {
            true => out.push(
                json!({ "$replaceRoot": { "newRoot": { "$mergeObjects": ["$$ROOT",
                { "k": "$a" }] } } }),
            ),
            false => {
                known.unique = false;
                out.push(json!({ "$replaceRoot": { "newRoot": { "w": "$a", "e": "$e",
                    "k": "$_id" } } }));
            }
        },
        20 => {
            *known = Properties {
                total: true,
                unique: false,
                loose: known.loose,
            };
            out.push(json!({ "$count": "n" }));
        }
        21 => out.push(json!({ "$match": { g.pick(&["a", "e", "_id", "c.x"]): scalar(g) } })),
        22 | 23 => lookup(g, known, depth, out),
        24 => {
            let mut inner = Vec::new();
            some_stages(
                g,
                &mut Properties {
                    total: false,
                    unique: true,
                    loose: false,
                },
                depth - 1,
                2,
                &mut inner,
            );
            *known = Properties {
                total: false,
                unique: false,
                loose: true,
            };
            out.push(json!({ "$unionWith": { "coll": "o", "pipeline": inner } }));
        }
        25 => {
            let (mut x, mut y) = (Vec::new(), Vec::new());
            some_stages(g, &mut known.clone(), 0, 2, &mut x);
            some_stages(g, &mut known.clone(), 0, 2, &mut y);
            *known = Properties {
                total: true,
                unique: false,
                loose: true,
            };
            out.push(json!({ "$facet": { "k": x, "w": y } }));
        }
        _ => {}
    }
}

fn lookup(g: &mut Rng, known: &mut Properties, depth: usize, out: &mut Vec<Json>) {
    let fields = ["a", "b", "e", "_id", "c.x", "d.x"];
    known.loose = true;
    let mut l = json!({ "from": "o", "as": g.pick(&["k", "d", "w"]), "localField": g.pick(&fields),
        "foreignField": g.pick(&fields) });
    if g.chance(30) {
        let mut inner = Vec::new();
        if g.chance(50) {
            inner.push(json!({ "$match": { "$expr": { "$lte": ["$e", "$$v"] } } }));
        }
        some_stages(
            g,
            &mut Properties {
                total: false,
                unique: true,
                loose: false,
            },
            depth - 1,
            1,
            &mut inner,
        );
        l["let"] = json!({ "v": "$e" });
        l["pipeline"] = json!(inner);
        if g.chance(50) {
            l.as_object_mut().map(|l| l.remove("localField"));
            l.as_object_mut().map(|l| l.remove("foreignField"));
        }
    }
    let name = l["as"].as_str().unwrap_or_default().to_owned();
    out.push(json!({ "$lookup": l }));
    if g.chance(50) {
        *known = Properties {
            total: false,
            unique: false,
            loose: true,
        };
        out.push(json!({ "$unwind": { "path": format!("${name}"),
            "preserveNullAndEmptyArrays": g.chance(30) } }));
        if g.chance(50) {
            out.push(
                json!({ "$match": { format!("{name}.{}", g.pick(&["a", "e"])): condition(g) } }),
            );
        }
    }
}

fn some_stages(
    g: &mut Rng,
    known: &mut Properties,
    depth: usize,
    most: usize,
    out: &mut Vec<Json>,
) {
    for _ in 0..1 + g.roll(most) {
        stages(g, known, depth, out);
    }
}

/// Numbers by value; arrays sorted if their order is not determined.
fn canonical(v: &Json, loose: bool) -> Json {
    match v {
        Json::Object(o) => {
            if let Some(n) = ["$numberDouble", "$numberInt", "$numberLong"]
                .iter()
                .find_map(|k| o.get(*k)?.as_str())
            {
                return json!(
                    n.parse::<f64>()
                        .map_or(n.to_owned(), |n| (n + 0.0).to_string())
                );
            }
            Json::Object(
                o.iter()
                    .map(|(k, v)| (k.clone(), canonical(v, loose)))
                    .collect(),
            )
        }
        Json::Array(a) => {
            let mut a: Vec<Json> = a.iter().map(|v| canonical(v, loose)).collect();
            if loose {
                a.sort_by_key(Json::to_string);
            }
            Json::Array(a)
        }
        v => v.clone(),
    }
}

struct Side {
    service: Arc<Dispatcher>,
    conn: Connection,
}

impl Side {
    fn new(optimize_pipelines: bool) -> Side {
        let config = Config {
            replica_set: None,
            optimize_pipelines,
            ..Config::default()
        };
        let service = serve(config, store());
        let conn = service.connect("127.0.0.1:50000");
        Side { service, conn }
    }

    fn send(&mut self, command: &Json) -> Json {
        let command = extjson::document(command).expect("a document");
        let reply = send(&self.service, &mut self.conn, "db", command.doc());
        extjson::from_document(reply.doc(), extjson::Mode::Canonical)
    }

    /// The documents or value of the reply, or the code of the error.
    fn answer(&mut self, command: &Json, ordered: bool, loose: bool) -> Result<Json, Json> {
        let reply = self.send(command);
        if let Some(code) = reply.get("code") {
            return Err(code.clone());
        }
        let found = reply
            .pointer("/cursor/firstBatch")
            .or_else(|| reply.get("values"))
            .or_else(|| reply.get("n"));
        let mut found = canonical(found.unwrap_or(&reply), loose);
        if let (Json::Array(list), false) = (&mut found, ordered) {
            list.sort_by_key(Json::to_string);
        }
        Ok(found)
    }
}

struct Question {
    command: Json,
    known: Properties,
}

impl Question {
    /// The difference between the results, if any. A command that fails as written is skipped,
    /// because the optimized one may fail on fewer documents.
    fn ask(&self, plain: &mut Side, planned: &mut Side) -> Option<String> {
        let want = plain
            .answer(&self.command, self.known.total, self.known.loose)
            .ok()?;
        let got = planned.answer(&self.command, self.known.total, self.known.loose);
        (got.as_ref() != Ok(&want)).then(|| {
            format!(
                "as written: {want}\nplanned:    {}",
                got.unwrap_or_else(|e| json!({ "code": e }))
            )
        })
    }
}

fn questions(g: &mut Rng) -> Vec<Question> {
    let mut all = Vec::new();
    for _ in 0..PIPELINES_A_ROUND {
        let mut known = Properties {
            total: false,
            unique: true,
            loose: false,
        };
        let mut pipeline = Vec::new();
        some_stages(g, &mut known, 2, 5, &mut pipeline);
        all.push(Question {
            command: json!({ "aggregate": "c", "pipeline": pipeline,
            "cursor": { "batchSize": 100_000 } }),
            known,
        });
    }
    let loose = Properties {
        total: false,
        unique: true,
        loose: false,
    };
    let total = Properties {
        total: true,
        ..loose
    };
    for _ in 0..6 {
        let f = if g.chance(50) {
            filter(g, 2)
        } else {
            likely(g)
        };
        all.push(Question {
            command: json!({ "count": "c", "query": f }),
            known: loose,
        });
        all.push(Question {
            command: json!({ "distinct": "c", "key": g.pick(&["a", "e", "c.x", "b",
            "d.x", "_id", "k"]), "query": match g.roll(3) {
            0 => json!({}),
            1 => json!({ g.pick(&["a", "e", "c.x"]): condition(g) }),
            _ => f.clone(),
        } }),
            known: loose,
        });
        let mut order = Properties { ..loose };
        let sort = sort(g, &mut order)["$sort"].clone();
        let mut find = json!({ "find": "c", "filter": f, "sort": sort, "batchSize": 100_000 });
        if g.chance(50) {
            find["limit"] = json!(1 + g.roll(9));
        }
        if g.chance(30) {
            find["skip"] = json!(g.roll(5));
        }
        if g.chance(60) {
            let mut shape = json!({ "_id": g.roll(2) });
            for _ in 0..1 + g.roll(3) {
                shape[g.pick(&["a", "b", "e"])] = json!(1);
            }
            if g.chance(30) {
                shape["c.x"] = json!(1);
            }
            find["projection"] = shape;
        }
        all.push(Question {
            command: find,
            known: total,
        });
    }
    all
}

/// Two servers with the same documents; the second has indexes.
fn sides(docs: &[Json], other: &[Json], indexes: &[Json]) -> (Side, Side) {
    let (mut plain, mut planned) = (Side::new(false), Side::new(true));
    for i in indexes {
        planned.send(
            &json!({ "createIndexes": if i["other"] == json!(true) { "o" } else { "c" },
            "indexes": [i["spec"]] }),
        );
    }
    for (coll, docs) in [("c", docs), ("o", other)] {
        for d in docs {
            let insert = json!({ "insert": coll, "documents": [d] });
            // A document that an index refuses (two arrays) is left out on both sides.
            if planned.send(&insert).get("writeErrors").is_none() {
                plain.send(&insert);
            }
        }
    }
    (plain, planned)
}

/// Removes all parts that the difference does not depend on.
fn shrink(
    q: Question,
    docs: &mut Vec<Json>,
    other: &mut Vec<Json>,
    indexes: &mut Vec<Json>,
) -> Question {
    let differs = |q: &Question, d: &[Json], o: &[Json], i: &[Json]| {
        let (mut plain, mut planned) = sides(d, o, i);
        q.ask(&mut plain, &mut planned).is_some()
    };
    for n in (0..indexes.len()).rev() {
        let gone = indexes.remove(n);
        if !differs(&q, docs, other, indexes) {
            indexes.insert(n, gone);
        }
    }
    for n in (0..docs.len()).rev() {
        let gone = docs.remove(n);
        if !differs(&q, docs, other, indexes) {
            docs.insert(n, gone);
        }
    }
    for n in (0..other.len()).rev() {
        let gone = other.remove(n);
        if !differs(&q, docs, other, indexes) {
            other.insert(n, gone);
        }
    }
    q
}

fn stages_met(plan: &Json, met: &mut std::collections::BTreeSet<String>) {
    met.extend(plan["stage"].as_str().map(str::to_owned));
    let inputs = plan["inputStages"]
        .as_array()
        .into_iter()
        .flatten()
        .chain(plan.get("inputStage"));
    inputs.for_each(|p| stages_met(p, met));
}

#[test]
fn plans_and_rewrites_change_no_result() {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let rounds = number("QUARRY_METAMORPHIC").unwrap_or(QUICK_ROUNDS);
    let first = number("QUARRY_SEED").unwrap_or(1);
    let (mut asked, mut answered) = (0, 0);
    let mut met = std::collections::BTreeSet::new();
    for seed in first..first + rounds {
        let mut g = Rng(seed.wrapping_mul(0x1000_0000_01B3));
        let size = 4 + g.roll(30);
        let mut docs: Vec<Json> = (0..size).map(|i| document(&mut g, i as i32)).collect();
        let mut other: Vec<Json> = (0..g.roll(12))
            .map(|i| document(&mut g, i as i32))
            .collect();
        let mut indexes: Vec<Json> = (0..1 + g.roll(6))
            .map(|_| json!({ "spec": index(&mut g), "other": g.chance(25) }))
            .collect();
        let mut h = Rng(!seed);
        if h.chance(40) {
            indexes.push(json!({ "spec": wildcard(&mut h), "other": h.chance(25) }));
        }
        let (mut plain, mut planned) = sides(&docs, &other, &indexes);
        for q in questions(&mut g) {
            asked += 1;
            if q.command.get("aggregate").is_none() {
                let shown =
                    planned.send(&json!({ "explain": q.command, "verbosity": "queryPlanner" }));
                stages_met(&shown["queryPlanner"]["winningPlan"], &mut met);
            }
            answered += usize::from(plain.answer(&q.command, false, false).is_ok());
            if q.ask(&mut plain, &mut planned).is_some() {
                let q = shrink(q, &mut docs, &mut other, &mut indexes);
                let (mut plain, mut planned) = sides(&docs, &other, &indexes);
                let why = q.ask(&mut plain, &mut planned);
                let list = |l: &[Json]| l.iter().map(|d| format!("\n  {d}")).collect::<String>();
                panic!(
                    "seed {seed}: {}\nindexes: {}\nc: {}\no: {}\n{}",
                    q.command,
                    list(&indexes),
                    list(&docs),
                    list(&other),
                    why.unwrap_or_default()
                );
            }
        }
    }
    eprintln!("{asked} questions, {answered} answered without error, plans of {met:?}");
    for stage in [
        "COLLSCAN",
        "IXSCAN",
        "EXPRESS_IXSCAN",
        "OR",
        "SORT_MERGE",
        "SORT",
        "COUNT_SCAN",
        "DISTINCT_SCAN",
    ] {
        assert!(
            met.contains(stage) || rounds < QUICK_ROUNDS,
            "no question was answered by {stage}"
        );
    }
    assert!(
        answered * 2 > asked,
        "most questions must mean something: {answered} of {asked}"
    );
}
