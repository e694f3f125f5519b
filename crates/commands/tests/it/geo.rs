//! Geospatial indexes give the same results as a scan, and read less.

use crate::behaviour::{send, serve, store};
use commands::{Config, Connection, Dispatcher};
use model::extjson;
use serde_json::{Value as Json, json};
use std::sync::Arc;
use storage::{Engine, Reader, Table};
use store::catalog::CatalogRow;

struct Server {
    service: Arc<Dispatcher>,
    conn: Connection,
}

impl Server {
    fn new() -> Server {
        Server::start_on(store())
    }

    fn start_on(store: Arc<store::Store>) -> Server {
        let service = serve(Config::default(), store);
        let conn = service.connect("127.0.0.1:50000");
        Server { service, conn }
    }

    fn ask(&mut self, command: &Json) -> Json {
        let command = extjson::document(command).expect("a document");
        let reply = send(&self.service, &mut self.conn, "db", command.doc());
        extjson::from_document(reply.doc(), extjson::Mode::Relaxed)
    }

    fn ok(&mut self, command: &Json) -> Json {
        let reply = self.ask(command);
        assert_eq!(reply["ok"], json!(1.0), "{command} {reply}");
        reply
    }

    fn index(&mut self, coll: &str, key: Json) {
        let index = json!({ "key": key, "name": "g" });
        self.ok(&json!({ "createIndexes": coll, "indexes": [index] }));
    }

    /// The ids of the results in their order.
    fn ids(&mut self, coll: &str, filter: &Json, more: Json) -> Vec<i64> {
        let mut find = json!({ "find": coll, "filter": filter, "batchSize": 100_000,
            "projection": { "_id": 1 } });
        for (name, v) in more.as_object().expect("options") {
            find[name] = v.clone();
        }
        let reply = self.ok(&find);
        let batch = reply["cursor"]["firstBatch"].as_array().expect("a batch");
        batch.iter().map(|d| d["_id"].as_i64().unwrap()).collect()
    }

    /// The stages of the plan from the top, and how many keys and documents were examined.
    fn plan(&mut self, coll: &str, filter: &Json) -> (String, u64, u64) {
        let find = json!({ "find": coll, "filter": filter });
        let e = self.ok(&json!({ "explain": find, "verbosity": "executionStats" }));
        let stats = &e["executionStats"];
        let n = |name: &str| stats[name].as_u64().unwrap_or(u64::MAX);
        let mut at = &e["queryPlanner"]["winningPlan"];
        let mut stages = Vec::new();
        while let Some(stage) = at["stage"].as_str() {
            stages.push(stage.to_owned());
            at = &at["inputStage"];
        }
        (
            stages.join(" "),
            n("totalKeysExamined"),
            n("totalDocsExamined"),
        )
    }

    fn validate(&mut self, coll: &str) {
        let v = self.ok(&json!({ "validate": coll, "full": true }));
        assert_eq!(v["valid"], json!(true), "{v}");
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        let n = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = n.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
    fn of(&mut self, n: usize) -> usize {
        (self.next() * n as f64) as usize
    }
    /// A random longitude and latitude; half of them are near one town.
    fn place(&mut self) -> (f64, f64) {
        match self.of(2) {
            0 => (self.next() * 360.0 - 180.0, self.next() * 180.0 - 90.0),
            _ => (13.0 + self.next(), 52.0 + self.next()),
        }
    }
    fn square(&mut self) -> Json {
        let ((x, y), side) = (self.place(), [0.01, 0.5, 20.0][self.of(3)]);
        let (east, north) = ((x + side).min(180.0), (y + side).min(90.0));
        let west = east - side;
        let south = north - side;
        json!([
            [west, south],
            [east, south],
            [east, north],
            [west, north],
            [west, south]
        ])
    }
    fn geometry(&mut self) -> Json {
        let (x, y) = self.place();
        let (a, b) = self.place();
        match self.of(6) {
            0 => json!({ "type": "LineString", "coordinates": [[x, y], [a, b]] }),
            1 => json!({ "type": "Polygon", "coordinates": [self.square()] }),
            2 => json!({ "type": "MultiPoint", "coordinates": [[x, y], [a, b]] }),
            3 => json!([x, y]),
            _ => json!({ "type": "Point", "coordinates": [x, y] }),
        }
    }
    fn on_sphere(&mut self) -> Json {
        let (x, y) = self.place();
        let radius = [1e-5, 0.003, 0.3][self.of(3)];
        let geometry = |g: Json| json!({ "$geometry": g });
        match self.of(4) {
            0 => {
                json!({ "$geoWithin": { "$centerSphere": [[x, y], radius] } })
            }
            1 => json!({ "$geoWithin": geometry(json!({ "type": "Polygon",
                "coordinates": [self.square()] })) }),
            2 => json!({ "$geoIntersects": geometry(json!({ "type": "Polygon",
                "coordinates": [self.square()] })) }),
            _ => json!({ "$geoIntersects": geometry(json!({ "type": "LineString",
                "coordinates": [[x, y], [x / 2.0, y / 2.0]] })) }),
        }
    }
    fn on_plane(&mut self) -> Json {
        let ((x, y), size) = (self.place(), [0.01, 0.7, 30.0][self.of(3)]);
        match self.of(4) {
            0 => json!({ "$geoWithin": { "$box": [[x, y], [x + size, y - size]] } }),
            1 => json!({ "$geoWithin": { "$center": [[x, y], size] } }),
            2 => json!({ "$geoWithin": { "$centerSphere": [[x, y], size / 100.0] } }),
            _ => json!({ "$geoWithin": { "$polygon": [[x, y], [x + size, y], [x, y + size]] } }),
        }
    }
}

/// The same documents in `with`, which gets the index, and in `without`.
fn fill_both(s: &mut Server, docs: &[Json], key: Json) {
    for coll in ["with", "without"] {
        s.ok(&json!({ "insert": coll, "documents": docs[..docs.len() / 2] }));
    }
    // One half is inserted before the index is built, the other half afterwards.
    s.index("with", key);
    for coll in ["with", "without"] {
        s.ok(&json!({ "insert": coll, "documents": docs[docs.len() / 2..] }));
    }
}

#[test]
fn an_index_on_the_sphere_gives_what_the_collection_gives() {
    let (mut s, mut r) = (Server::new(), Random(3));
    let docs: Vec<Json> = (0..600)
        .map(|i| match r.of(8) {
            0 => json!({ "_id": i, "k": i % 3 }),
            1 => {
                json!({ "_id": i, "k": i % 3, "a": [{ "g": r.geometry() }, { "g": r.geometry() }] })
            }
            _ => json!({ "_id": i, "k": [i % 3, 7], "a": { "g": r.geometry() } }),
        })
        .collect();
    fill_both(&mut s, &docs, json!({ "a.g": "2dsphere", "k": 1 }));
    let (mut found, mut scans) = (0, 0);
    for round in 0..120 {
        if round == 60 {
            let query = json!({ "_id": { "$gte": 200, "$lt": 400 } });
            for coll in ["with", "without"] {
                let moved = json!({ "type": "Point", "coordinates": [13.4, 52.5] });
                let set = json!({ "q": query, "u": { "$set": { "a": { "g": moved } } },
                    "multi": true });
                s.ok(&json!({ "update": coll, "updates": [set] }));
                let delete = json!({ "q": { "_id": { "$gte": 500 } }, "limit": 0 });
                s.ok(&json!({ "delete": coll, "deletes": [delete] }));
            }
        }
        let mut filter = json!({ "a.g": r.on_sphere() });
        if r.of(3) == 0 {
            filter["k"] = json!(1);
        }
        let sorted = json!({ "sort": { "_id": 1 } });
        let (a, b) = (
            s.ids("with", &filter, sorted.clone()),
            s.ids("without", &filter, sorted),
        );
        assert_eq!(a, b, "{filter}");
        found += a.len();
        scans += usize::from(s.plan("with", &filter).0 == "FETCH IXSCAN");
    }
    assert!(found > 500 && scans > 100, "{found} {scans}");
    s.validate("with");
}

#[test]
fn an_index_on_the_plane_gives_what_the_collection_gives() {
    let (mut s, mut r) = (Server::new(), Random(4));
    let docs: Vec<Json> = (0..600)
        .map(|i| {
            let ((x, y), (a, b)) = (r.place(), r.place());
            match r.of(5) {
                0 => json!({ "_id": i, "g": [[x, y], [a, b]] }),
                1 => json!({ "_id": i, "g": { "x": x, "y": y } }),
                2 => json!({ "_id": i }),
                _ => json!({ "_id": i, "g": [x, y] }),
            }
        })
        .collect();
    fill_both(&mut s, &docs, json!({ "g": "2d" }));
    let (mut found, mut scans) = (0, 0);
    for _ in 0..120 {
        let filter = json!({ "g": r.on_plane() });
        let sorted = json!({ "sort": { "_id": 1 } });
        let (a, b) = (
            s.ids("with", &filter, sorted.clone()),
            s.ids("without", &filter, sorted),
        );
        assert_eq!(a, b, "{filter}");
        found += a.len();
        scans += usize::from(s.plan("with", &filter).0 == "FETCH IXSCAN");
    }
    assert!(found > 500 && scans > 100, "{found} {scans}");
    s.validate("with");
}

#[test]
fn a_small_area_is_read_alone() {
    let mut s = Server::new();
    let docs: Vec<Json> = (0..10_000)
        .map(|i| {
            let (x, y) = (f64::from(i % 100) / 10.0, f64::from(i / 100) / 10.0);
            json!({ "_id": i, "t": i % 2, "g": { "type": "Point", "coordinates": [x, y] } })
        })
        .collect();
    s.ok(&json!({ "insert": "c", "documents": docs }));
    s.index("c", json!({ "t": 1, "g": "2dsphere" }));
    let cap = json!({ "$geoWithin": { "$centerSphere": [[5.0, 5.0], 0.004] } });
    let (plan, keys, docs) = s.plan("c", &json!({ "t": 1, "g": cap }));
    assert!(
        plan == "FETCH IXSCAN" && keys < 40 && docs < 40,
        "{plan} {keys} {docs}"
    );
    // Without a condition on the field before the geospatial one, the index has no bounds.
    assert_eq!(s.plan("c", &json!({ "g": cap })).0, "COLLSCAN");
    // A condition that the index does not support is checked on the documents.
    let planar = json!({ "$geoWithin": { "$box": [[4.95, 4.95], [5.05, 5.05]] } });
    assert_eq!(s.plan("c", &json!({ "t": 1, "g": planar })).0, "COLLSCAN");
    assert_eq!(
        s.ids("c", &json!({ "t": 0, "g": planar }), json!({})),
        [5050]
    );
}

#[test]
fn documents_without_a_place_have_no_entry() {
    let mut s = Server::new();
    let point = json!({ "type": "Point", "coordinates": [1, 2] });
    let docs = json!([{ "_id": 1 }, { "_id": 2, "g": null }, { "_id": 3, "g": point }]);
    s.ok(&json!({ "insert": "c", "documents": docs }));
    s.index("c", json!({ "g": "2dsphere" }));
    assert_eq!(s.ids("c", &json!({}), json!({ "hint": "g" })), [3]);
    assert_eq!(s.ids("c", &json!({}), json!({})), [1, 2, 3]);
    s.validate("c");
}

/// The angle between two points, by the haversine formula.
fn angle((x, y): (f64, f64), (a, b): (f64, f64)) -> f64 {
    let (dy, dx) = ((b - y).to_radians() / 2.0, (a - x).to_radians() / 2.0);
    let h = dy.sin().powi(2) + y.to_radians().cos() * b.to_radians().cos() * dx.sin().powi(2);
    2.0 * h.sqrt().min(1.0).asin()
}

#[test]
fn the_nearest_come_first_and_the_others_are_not_read() {
    let (mut s, mut r) = (Server::new(), Random(5));
    let places: Vec<(f64, f64)> = (0..1_500).map(|_| r.place()).collect();
    let points = |s: &mut Server, coll: &str, key: &str| {
        let docs: Vec<Json> = places
            .iter()
            .enumerate()
            .map(|(i, (x, y))| json!({ "_id": i, "k": i % 2, "g": [x, y] }))
            .collect();
        s.ok(&json!({ "insert": coll, "documents": docs }));
        s.index(coll, json!({ "g": key }));
    };
    points(&mut s, "sphere", "2dsphere");
    points(&mut s, "plane", "2d");
    for round in 0..12 {
        let (x, y) = r.place();
        let mut order: Vec<usize> = (0..places.len()).filter(|i| i % 2 == 1).collect();
        order.sort_by(|i, j| angle((x, y), places[*i]).total_cmp(&angle((x, y), places[*j])));
        let point = json!({ "type": "Point", "coordinates": [x, y] });
        let mut near = json!({ "$geometry": point });
        let (mut from, mut to) = (0.0, f64::INFINITY);
        if round % 2 == 0 {
            (from, to) = (1e-3, 0.5);
            near["$minDistance"] = json!(from * 6_378_100.0);
            near["$maxDistance"] = json!(to * 6_378_100.0);
        }
        order.retain(|i| (from..=to).contains(&angle((x, y), places[*i])));
        let whole = json!({ "g": { "$nearSphere": near }, "k": 1 });
        let want = |n: usize| order.iter().take(n).map(|i| *i as i64).collect::<Vec<_>>();
        assert_eq!(s.ids("sphere", &whole, json!({})), want(1_500), "{whole}");
        let first = s.ids("sphere", &whole, json!({ "limit": 7 }));
        assert_eq!(first, want(7), "{whole}");
        // Another order, if requested.
        let by_id = s.ids("sphere", &whole, json!({ "sort": { "_id": 1 } }));
        assert!(by_id.is_sorted() && by_id.len() == order.len(), "{whole}");
        let (plan, keys, _) = s.plan("sphere", &whole);
        assert!(plan == "GEO_NEAR_2DSPHERE" && keys > 0, "{plan} {keys}");
        let on_plane = json!({ "g": { "$nearSphere": [x, y] }, "k": 1 });
        if round % 2 == 1 {
            assert_eq!(
                s.ids("plane", &on_plane, json!({})),
                want(1_500),
                "{on_plane}"
            );
        }
        for (coll, at) in [("sphere", &point), ("plane", &json!([x, y]))] {
            let stage = json!({ "$geoNear": { "near": at, "distanceField": "d", "query": { "k": 1 },
                "spherical": true } });
            let pipeline = json!([stage, { "$limit": 9 }, { "$project": { "d": 1 } }]);
            let reply = s.ok(&json!({ "aggregate": coll, "pipeline": pipeline, "cursor": {} }));
            let found = reply["cursor"]["firstBatch"].as_array().unwrap();
            let radian = if coll == "sphere" { 6_378_100.0 } else { 1.0 };
            let mut nearest: Vec<f64> = (0..places.len())
                .filter(|i| i % 2 == 1)
                .map(|i| angle((x, y), places[i]) * radian)
                .collect();
            nearest.sort_by(f64::total_cmp);
            assert_eq!(found.len(), 9);
            for (d, want) in found.iter().zip(nearest) {
                let d = d["d"].as_f64().unwrap();
                assert!(
                    (d - want).abs() <= want * 1e-6 + 1e-9 * radian,
                    "{d} {want}"
                );
            }
        }
        let flat = json!({ "g": { "$near": [x, y] }, "k": 1 });
        let far = |i: &usize| (places[*i].0 - x).hypot(places[*i].1 - y);
        let mut order: Vec<usize> = (0..places.len()).filter(|i| i % 2 == 1).collect();
        order.sort_by(|i, j| far(i).total_cmp(&far(j)));
        let want: Vec<i64> = order.iter().map(|i| *i as i64).collect();
        assert_eq!(s.ids("plane", &flat, json!({})), want, "{flat}");
    }
}

#[test]
fn nearness_beside_a_hint_at_another_index_has_no_plan() {
    let mut s = Server::new();
    s.index("c", json!({ "g": "2dsphere" }));
    let made = json!({ "createIndexes": "c", "indexes": [{ "key": { "k": 1 }, "name": "k" }] });
    s.ok(&made);
    let point = json!({ "type": "Point", "coordinates": [0, 0] });
    let filter = json!({ "g": { "$near": { "$geometry": point } } });
    for (hint, code) in [("k", 291), ("nothing", 2)] {
        let find = json!({ "find": "c", "filter": filter, "hint": hint });
        let explain = json!({ "explain": find, "verbosity": "queryPlanner" });
        for command in [&find, &explain] {
            let reply = s.ask(command);
            assert_eq!(reply["code"], code, "{command} {reply}");
        }
    }
    s.ok(&json!({ "find": "c", "filter": filter, "hint": "g" }));
}

#[test]
fn the_nearest_of_many_are_found_by_few_and_changed_once() {
    let mut s = Server::new();
    let docs: Vec<Json> = (0..20_000)
        .map(|i| json!({ "_id": i, "g": [f64::from(i % 200) / 10.0, f64::from(i / 200) / 10.0] }))
        .collect();
    s.ok(&json!({ "insert": "c", "documents": docs }));
    s.index("c", json!({ "g": "2dsphere" }));
    let near = json!({ "g": { "$nearSphere": [10.01, 5.0] } });
    let find = json!({ "find": "c", "filter": near, "limit": 5 });
    let e = s.ok(&json!({ "explain": find, "verbosity": "executionStats" }));
    let keys = e["executionStats"]["totalKeysExamined"].as_u64().unwrap();
    assert!((5..500).contains(&keys), "{keys}");
    assert_eq!(s.ids("c", &near, json!({ "limit": 2 })), [10_100, 10_101]);
    // The update moves documents outwards; it must not find them again.
    let limits = json!({ "$nearSphere": { "$geometry": { "type": "Point",
        "coordinates": [0, 0] }, "$maxDistance": 300_000 } });
    let inside = s.ids("c", &json!({ "g": limits }), json!({})).len();
    let set = json!({ "$inc": { "n": 1, "g.0": 0.5 } });
    let update = json!({ "q": { "g": limits }, "u": set, "multi": true });
    let reply = s.ok(&json!({ "update": "c", "updates": [update] }));
    assert_eq!(reply["nModified"].as_u64(), Some(inside as u64), "{reply}");
    assert!(inside > 300);
    assert_eq!(
        s.ids("c", &json!({ "n": { "$gt": 1 } }), json!({})),
        [0i64; 0]
    );
    s.validate("c");
}

#[test]
fn indexes_of_the_layout_before_are_read_past_until_they_are_made_again() {
    let engine = Arc::new(storage::MemoryEngine::new());
    let open = || {
        let clock = Arc::new(commands::SystemClock::default());
        let hooks = Arc::new(commands::StoreHooks::new(clock));
        Server::start_on(Arc::new(store::Store::open(engine.clone(), hooks).unwrap()))
    };
    let keys = [
        ("c", json!({ "g": "2dsphere" })),
        ("w", json!({ "$**": 1 })),
    ];
    let mut s = open();
    for (coll, key) in &keys {
        s.index(coll, key.clone());
    }
    drop(s);
    // The state that version 2 leaves: the catalog does not say that the indexes have entries.
    let mut batch = storage::WriteBatch::new();
    for (coll, _) in &keys {
        let (key, mut bytes) = (store::format::meta::catalog("db", coll), Vec::new());
        assert!(engine.get(Table::Meta, &key, &mut bytes).unwrap());
        let mut row = CatalogRow::decode(&bytes).unwrap();
        assert!(row.indexes.iter().all(|i| i.keyed));
        row.indexes.iter_mut().for_each(|i| i.keyed = false);
        batch.put(Table::Meta, &key, row.encode().as_bytes());
    }
    let version = 2u32.to_be_bytes();
    batch.put(Table::Meta, store::format::meta::FORMAT_VERSION, &version);
    engine.apply(&batch, storage::Durability::None).unwrap();
    let mut s = open();
    let docs: Vec<Json> = (0..50)
        .map(|i| json!({ "_id": i, "a": i, "g": [i, i] }))
        .collect();
    for (coll, _) in &keys {
        s.ok(&json!({ "insert": coll, "documents": docs }));
    }
    let (near, seven) = (
        json!({ "g": { "$nearSphere": [9.9, 10] } }),
        json!({ "a": 7 }),
    );
    for again in [false, true] {
        if again {
            for (coll, key) in &keys {
                s.ok(&json!({ "dropIndexes": coll, "index": "g" }));
                s.index(coll, key.clone());
            }
        }
        assert_eq!(s.ids("c", &near, json!({ "limit": 2 })), [10, 9]);
        assert_eq!(s.ids("w", &seven, json!({})), [7]);
        let plans = [s.plan("c", &near).0, s.plan("w", &seven).0];
        let want = if again {
            ["GEO_NEAR_2DSPHERE", "FETCH IXSCAN"]
        } else {
            ["COLLSCAN"; 2]
        };
        assert_eq!(plans, want);
        s.validate("c");
        s.validate("w");
    }
}

#[test]
fn no_geometry_is_no_error() {
    let mut s = Server::new();
    s.index("c", json!({ "g": "2dsphere" }));
    let none = [
        json!({}),
        json!([]),
        json!(null),
        json!({ "$undefined": true }),
    ];
    for (id, none) in none.iter().enumerate() {
        let insert = json!({ "insert": "c", "documents": [{ "_id": id, "g": none }] });
        let reply = s.ok(&insert);
        assert!(reply.get("writeErrors").is_none(), "{insert}: {reply}");
    }
    s.ok(&json!({ "insert": "c", "documents": [{ "_id": 9, "g": [1, 1] }] }));
    let near = json!({ "g": { "$nearSphere": [1, 1] } });
    assert_eq!(s.ids("c", &near, json!({})), [9]);
    let corners = [[0, 0], [9, 0], [9, 9], [0, 9], [0, 0]];
    let wound = json!({ "type": "Polygon", "coordinates": [corners], "crs": { "type": "name",
        "properties": { "name": "urn:x-mongodb:crs:strictwinding:EPSG:4326" } } });
    for wrong in [json!(1), json!("x"), json!({ "type": "x" }), wound] {
        let insert = json!({ "insert": "c", "documents": [{ "g": wrong }] });
        let reply = s.ok(&insert);
        assert_eq!(reply["writeErrors"][0]["code"], json!(16755), "{insert}");
    }
    s.validate("c");
}
