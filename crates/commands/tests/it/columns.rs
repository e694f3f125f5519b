//! `$group` gives the same results over columns and document by document: random documents of all
//! types, random keys, filters and accumulators; and over a collection that is large enough to be
//! read in parts. A group with an accumulator whose partial states cannot be combined is computed
//! document by document.
//! `QUARRY_COLUMNS=n` runs n rounds instead of a few; `QUARRY_SEED=n` begins with another seed.

use crate::standalone::Standalone;
use serde_json::{Value as Json, json};

const QUICK_ROUNDS: u64 = 40;
const GROUPS_A_ROUND: usize = 25;

/// Splitmix64.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn roll(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % n as u64) as usize
    }
    pub(crate) fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.roll(of.len())]
    }
}

pub(crate) const PATHS: &[&str] = &[
    "a", "b", "c", "a.x", "b.x", "b.x.y", "c.0", "c.y", "d", "d.x", "d.y", "_id",
];

/// A random value of any type. Doubles are multiples of one half, so that sums do not depend on the
/// order.
fn scalar(g: &mut Rng) -> Json {
    match g.roll(28) {
        0 => json!(null),
        1 => json!({ "$undefined": true }),
        2 => json!({ "$minKey": 1 }),
        3 => json!({ "$maxKey": 1 }),
        4 => json!(g.roll(2) == 0),
        5 => json!({ "$date": { "$numberLong": (g.roll(3) * 3_600_000).to_string() } }),
        6 => json!({ "$timestamp": { "t": g.roll(3), "i": 1 } }),
        7 => json!({ "$oid": format!("0123456789abcdef0123456{}", g.roll(2)) }),
        8 => json!({ "$binary": { "base64": g.pick(&["AAEC", "AA=="]), "subType": "00" } }),
        9 => json!({ "$regularExpression": { "pattern": g.pick(&["a", "b"]), "options": "i" } }),
        10 => json!({ "$symbol": "ab" }),
        11 => json!({ "$code": "x" }),
        12 => json!({ "$numberDecimal": g.pick(&["1.50", "2", "NaN", "-0"]) }),
        13 => json!({ "$numberLong": g.pick(&["1", "2", "9223372036854775807"]) }),
        14 => json!({ "$numberDouble": g.pick(&["NaN", "Infinity", "-0.0", "1.5"]) }),
        15..=17 => json!((g.roll(8) as f64 - 3.0) / 2.0),
        18..=20 => json!(g.pick(&["", "a", "ab", "AB", "ü"])),
        _ => json!(g.roll(5) as i32 - 1),
    }
}

fn value(g: &mut Rng, depth: usize) -> Json {
    match g.roll(if depth == 0 { 6 } else { 10 }) {
        0..=5 => scalar(g),
        6 => (0..g.roll(3)).map(|_| value(g, depth - 1)).collect(),
        _ => {
            let mut o = serde_json::Map::new();
            for k in ["x", "y", "0"] {
                if g.roll(3) > 0 {
                    o.insert(k.to_owned(), value(g, depth - 1));
                }
            }
            Json::Object(o)
        }
    }
}

pub(crate) fn document(g: &mut Rng, id: usize, plain: bool) -> Json {
    let mut o = serde_json::Map::new();
    o.insert("_id".to_owned(), json!(id as i32));
    for k in ["b", "a", "d", "c"] {
        if g.roll(8) > 0 {
            let v = if plain { scalar(g) } else { value(g, 2) };
            o.insert(k.to_owned(), v);
        }
    }
    Json::Object(o)
}

fn path(g: &mut Rng) -> String {
    format!("${}", g.pick(PATHS))
}

fn expression(g: &mut Rng, depth: usize) -> Json {
    if depth == 0 {
        return json!(path(g));
    }
    let below = |g: &mut Rng| expression(g, depth - 1);
    match g.roll(16) {
        0 => json!({ "$literal": scalar(g) }),
        1 => json!({ g.pick(&["$add", "$subtract", "$multiply"]): [below(g), 2] }),
        2 => json!({ "$ifNull": [below(g), 7] }),
        3 => json!({ "$cond": [{ "$gt": [below(g), 1] }, below(g), "$$REMOVE"] }),
        4 => json!({ g.pick(&["$hour", "$year", "$minute"]): { "$toDate": below(g) } }),
        5 => json!({ g.pick(&["$toUpper", "$toString", "$type", "$strLenBytes"]): below(g) }),
        6 => json!({ "$concat": [below(g), "z"] }),
        7 => json!({ "x": below(g), "y": [below(g)] }),
        8 => json!({ "p": below(g), "q": below(g) }),
        9 => json!({ g.pick(&["$divide", "$mod"]): [below(g), 2] }),
        10 => json!({ g.pick(&["$eq", "$lt", "$cmp"]): [below(g), below(g)] }),
        11 => json!({ "$let": { "vars": { "v": below(g) }, "in": ["$$v", "$$v.x"] } }),
        12 => json!({ "$arrayElemAt": [below(g), 0] }),
        13 => json!({ "$dateToString": { "date": below(g), "format": "%H", "onNull": "n" } }),
        _ => json!(path(g)),
    }
}

fn condition(g: &mut Rng) -> Json {
    let ops = ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"];
    match g.roll(9) {
        0..=4 => json!({ g.pick(&ops): scalar_operand(g) }),
        5 => json!({ "$in": [scalar_operand(g), scalar_operand(g), 1] }),
        6 => json!({ "$exists": g.roll(2) == 0 }),
        7 => json!({ "$not": { g.pick(&ops): scalar_operand(g) } }),
        _ => json!({ "$gte": g.roll(3) as i32 - 1, "$lt": g.roll(5) as i32 }),
    }
}

/// A random value for comparisons in filters.
fn scalar_operand(g: &mut Rng) -> Json {
    loop {
        let v = scalar(g);
        if v.get("$undefined").is_none() && v.get("$regularExpression").is_none() {
            return v;
        }
    }
}

pub(crate) fn filter(g: &mut Rng, depth: usize) -> Json {
    match g.roll(if depth == 0 { 5 } else { 9 }) {
        5 => json!({ "$or": [filter(g, depth - 1), filter(g, depth - 1)] }),
        6 => json!({ "$and": [filter(g, depth - 1), filter(g, depth - 1)] }),
        7 => json!({ "$nor": [filter(g, depth - 1)] }),
        8 => json!({ "$expr": { g.pick(&["$gt", "$ne"]): [path(g), 1] } }),
        n => {
            let mut o = serde_json::Map::new();
            for _ in 0..1 + n % 3 {
                o.insert(g.pick(PATHS).to_owned(), condition(g));
            }
            Json::Object(o)
        }
    }
}

pub(crate) fn group(g: &mut Rng) -> Json {
    let id = match g.roll(6) {
        0 => json!(null),
        1 => json!({ "p": path(g), "q": expression(g, 1) }),
        2 | 3 => json!(path(g)),
        _ => expression(g, 2),
    };
    let mut o = json!({ "_id": id });
    for name in ["m", "n", "o"].into_iter().take(g.roll(4)) {
        o[name] = match g.roll(9) {
            0 => json!({ "$count": {} }),
            n => {
                let op = [
                    "$sum",
                    "$avg",
                    "$min",
                    "$max",
                    "$first",
                    "$last",
                    "$push",
                    "$addToSet",
                ];
                json!({ op[n - 1]: expression(g, 1) })
            }
        };
    }
    o
}

struct Server(Standalone);

impl Server {
    fn new() -> Server {
        Server(Standalone::new())
    }

    fn send(&mut self, command: &Json) -> Json {
        self.send_to("db", command)
    }

    fn send_to(&mut self, db: &str, command: &Json) -> Json {
        self.0.send_to(db, command)
    }

    /// The documents, or the code and message of the error.
    fn aggregate(&mut self, stages: &[Json], collation: Option<&Json>) -> Result<Json, Json> {
        let mut command = json!({ "aggregate": "c", "pipeline": stages,
            "cursor": { "batchSize": 100_000 } });
        if let Some(c) = collation {
            command["collation"] = c.clone();
        }
        let mut reply = self.send(&command);
        match reply.get("code") {
            Some(code) => Err(json!([code, reply["errmsg"]])),
            None => Ok(reply["cursor"]["firstBatch"].take()),
        }
    }

    /// The result of the stages when the group is computed document by document.
    fn one_by_one(&mut self, stages: &[Json], collation: Option<&Json>) -> Result<Json, Json> {
        let mut stages = stages.to_vec();
        if let Some(group) = stages.iter_mut().find_map(|s| s.get_mut("$group")) {
            group["odd"] = json!({ "$stdDevPop": "$nothing" });
        }
        let mut found = self.aggregate(&stages, collation)?;
        for doc in found.as_array_mut().into_iter().flatten() {
            doc.as_object_mut().map(|d| d.remove("odd"));
        }
        Ok(found)
    }
}

#[test]
fn columns_and_documents_give_the_same() {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let rounds = number("QUARRY_COLUMNS").unwrap_or(QUICK_ROUNDS);
    let first = number("QUARRY_SEED").unwrap_or(1);
    let (mut answered, mut failed) = (0, 0);
    for seed in first..first + rounds {
        let mut g = Rng(seed.wrapping_mul(0x1000_0000_01B3));
        let plain = g.roll(3) == 0;
        let docs: Vec<Json> = (0..5 + g.roll(60))
            .map(|i| document(&mut g, i, plain))
            .collect();
        let mut server = Server::new();
        let reply = server.send(&json!({ "insert": "c", "documents": docs }));
        assert_eq!(
            reply["n"],
            json!({ "$numberInt": docs.len().to_string() }),
            "{reply}"
        );
        for _ in 0..GROUPS_A_ROUND {
            let mut stages = Vec::new();
            if g.roll(2) == 0 {
                stages.push(json!({ "$match": filter(&mut g, 2) }));
            }
            stages.push(json!({ "$group": group(&mut g) }));
            let collation = json!({ "locale": "en", "strength": 2 });
            let collation = (g.roll(4) == 0).then_some(&collation);
            let want = server.one_by_one(&stages, collation);
            let got = server.aggregate(&stages, collation);
            match want.is_ok() {
                true => answered += 1,
                false => failed += 1,
            }
            assert_eq!(got, want, "seed {seed}: {}\n{}", json!(stages), json!(docs));
        }
    }
    eprintln!("{answered} groups answered, {failed} failed alike");
    assert!(rounds < QUICK_ROUNDS || answered > 500 && failed > 20);
}

/// More documents than an insertion order is kept for.
fn large() -> Server {
    let mut server = Server::new();
    let mut g = Rng(7);
    for chunk in 0..70 {
        let docs: Vec<Json> = (0..1000)
            .map(|i| {
                json!({ "_id": chunk * 1000 + i, "g": g.roll(50) as i32, "v": g.roll(1000) as i32,
                    "s": { "w": g.pick(&["x", "y", "z"]) }, "h": g.roll(9) as f64 / 2.0 })
            })
            .collect();
        server.send(&json!({ "insert": "c", "documents": docs }));
    }
    server
}

#[test]
fn a_large_collection_is_grouped_in_parts_with_the_same_result() {
    let mut server = large();
    let stages = |group: Json| {
        let filter = json!({ "$match": { "v": { "$lt": 900 } } });
        vec![filter, json!({ "$group": group })]
    };
    for group in [
        json!({ "_id": "$g", "n": { "$sum": 1 }, "v": { "$avg": "$v" }, "h": { "$sum": "$h" } }),
        json!({ "_id": { "g": "$g", "w": "$s.w" }, "f": { "$first": "$_id" },
            "l": { "$last": "$_id" }, "m": { "$min": "$v" }, "x": { "$max": "$h" } }),
        json!({ "_id": "$s.w", "a": { "$push": "$g" }, "t": { "$addToSet": "$h" } }),
        json!({ "_id": null, "n": { "$count": {} } }),
        json!({ "_id": "$v" }),
    ] {
        let stages = stages(group);
        // Compared in order: the results of parts are combined in the order of the documents.
        assert_eq!(
            server.aggregate(&stages, None),
            server.one_by_one(&stages, None)
        );
    }
    let by_id = [
        json!({ "$match": { "_id": { "$gte": 100, "$lt": 69_000 } } }),
        json!({ "$group": { "_id": "$g", "n": { "$sum": 1 }, "f": { "$first": "$_id" } } }),
    ];
    assert_eq!(
        server.aggregate(&by_id, None),
        server.one_by_one(&by_id, None)
    );
}

#[test]
fn a_parallel_group_counts_reads_once_and_ends_at_its_time_limit() {
    let mut server = large();
    server.send(&json!({ "profile": 2 }));
    let group = json!([{ "$group": { "_id": "$g", "n": { "$sum": 1 } } }]);
    server.send(&json!({ "aggregate": "c", "pipeline": group, "cursor": {} }));
    server.send(&json!({ "profile": 0 }));
    let seen = server.send(&json!({ "find": "system.profile",
        "filter": { "op": "command", "command.aggregate": "c" } }));
    let entry = &seen["cursor"]["firstBatch"][0];
    assert_eq!(
        entry["docsExamined"],
        json!({ "$numberLong": "70000" }),
        "{seen}"
    );
    assert_eq!(entry["planSummary"], json!("COLLSCAN"), "{seen}");
    let slow = json!([{ "$group": { "_id": "$_id", "n": { "$push": "$s" } } }]);
    let reply = server.send(&json!({ "aggregate": "c", "pipeline": slow, "cursor": {},
        "maxTimeMS": 1 }));
    assert_eq!(reply["code"], json!({ "$numberInt": "50" }), "{reply}");
}

#[test]
fn groups_that_do_not_fit_go_to_disk_with_the_same_result() {
    let mut server = large();
    let stages = [json!({ "$group": { "_id": "$_id", "s": { "$first": "$s" } } })];
    let whole = server.aggregate(&stages, None).expect("it fits");
    let name = "internalQueryMaxBlockingSortMemoryUsageBytes";
    let reply = server.send_to("admin", &json!({ "setParameter": 1, name: 1 << 20 }));
    assert_eq!(reply["ok"], json!({ "$numberDouble": "1.0" }), "{reply}");
    let sorted = |found: Json| {
        let mut list = found.as_array().cloned().unwrap_or_default();
        list.sort_by_key(Json::to_string);
        list
    };
    let spilled = server.aggregate(&stages, None).expect("it goes to disk");
    assert_eq!(sorted(spilled), sorted(whole));
    let refused = server.send(&json!({ "aggregate": "c", "pipeline": stages, "cursor": {},
        "allowDiskUse": false }));
    assert_eq!(refused["code"], json!({ "$numberInt": "292" }), "{refused}");
}

/// Each part of the read has most of the groups: the parts together hold several times the result.
#[test]
fn groups_that_several_parts_share_are_counted_once_for_the_limit() {
    let mut server = large();
    let key = json!({ "k": { "$mod": ["$_id", 2000] } });
    let stages = [json!({ "$group": { "_id": key, "n": { "$sum": 1 } } })];
    let name = "internalQueryMaxBlockingSortMemoryUsageBytes";
    server.send_to("admin", &json!({ "setParameter": 1, name: 450 << 10 }));
    let reply = server.send(&json!({ "aggregate": "c", "pipeline": stages,
        "cursor": { "batchSize": 5000 }, "allowDiskUse": false }));
    let groups = reply["cursor"]["firstBatch"].as_array();
    assert_eq!(groups.map(Vec::len), Some(2000), "{}", reply["errmsg"]);
}
