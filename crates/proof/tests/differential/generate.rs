//! Documents with eight fields, indexes over them, changes and queries, by seed. There are few
//! fields, so that predicates, keys and values often coincide. A query of one shape comes several
//! times, each time with other values, so that its plan is taken from the plan cache.

use crate::scenario::Scenario;
use proof::Random;
use serde_json::{Map, Value as Json, json};

pub(crate) struct Generator {
    /// Decides paths, operators and sizes.
    shape: Random,
    /// Decides the constants.
    value: Random,
    /// Paths of the keys of indexes.
    indexed: Vec<String>,
}

/// Times that a query of one shape is asked.
const REPEATS: usize = 4;
const SHAPES: usize = 7;

const PATHS: [&str; 9] = ["a", "b", "c", "c.x", "c.y", "d", "d.x", "e", "s"];

impl Generator {
    pub(crate) fn of(seed: u64) -> Generator {
        let seed = seed.wrapping_mul(0x0100_0000_01B3);
        Generator {
            shape: Random::new(seed),
            value: Random::new(seed ^ 0x5555),
            indexed: Vec::new(),
        }
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.shape.below(of.len())]
    }

    fn sign(&mut self) -> i32 {
        if self.shape.chance(50) { 1 } else { -1 }
    }

    /// A constant.
    fn int(&mut self, n: usize) -> i32 {
        i32::try_from(self.value.below(n)).unwrap_or(0)
    }

    /// One of these constants.
    fn any<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.value.below(of.len())]
    }

    fn scalar(&mut self) -> Json {
        match self.value.below(14) {
            0 => json!(null),
            1 => json!(f64::from(self.int(12) - 4) / 2.0),
            2 | 3 => json!(self.any(&["", "a", "ab", "abc", "b", "B"])),
            4 => json!(self.value.chance(50)),
            5 => json!({ "$numberLong": (self.int(6) - 1).to_string() }),
            6 => json!({ "$numberDecimal": self.any(&["1", "1.5", "NaN", "-0"]) }),
            7 => json!({ "$date": { "$numberLong": self.int(4).to_string() } }),
            _ => json!(self.int(6) - 1),
        }
    }

    fn object(&mut self) -> Json {
        let mut o = Map::new();
        for k in ["x", "y"] {
            if self.shape.chance(70) {
                o.insert(k.to_owned(), self.scalar());
            }
        }
        Json::Object(o)
    }

    /// A point of a small grid, so that points coincide and lie on borders.
    fn place(&mut self) -> Json {
        json!([
            f64::from(self.int(9) - 4) / 2.0,
            f64::from(self.int(9) - 4) / 2.0
        ])
    }

    /// A GeoJSON point, line or polygon.
    fn geometry(&mut self) -> Json {
        let (from, size) = (self.place(), 1 + self.int(3));
        let (x, y) = (from[0].as_f64(), from[1].as_f64());
        let (x, y) = (x.unwrap_or(0.0), y.unwrap_or(0.0));
        let (right, top) = (x + f64::from(size), y + f64::from(size));
        match self.shape.below(6) {
            0 => json!({ "type": "LineString", "coordinates": [from, [right, top]] }),
            1 => json!({ "type": "Polygon",
                "coordinates": [[[x, y], [right, y], [right, top], [x, top], [x, y]]] }),
            _ => json!({ "type": "Point", "coordinates": from }),
        }
    }

    /// A condition on a place: `g` is GeoJSON, `p` a pair of numbers.
    fn place_condition(&mut self) -> Json {
        let (place, radius) = (self.place(), f64::from(1 + self.int(4)) * 0.013);
        match self.shape.below(6) {
            0 => json!({ "p": { "$geoWithin": { "$box": [place, [2.1, 2.1]] } } }),
            1 => json!({ "p": { "$geoWithin": { "$center": [place, radius * 60.0] } } }),
            2 => json!({ "p": { "$geoWithin": { "$centerSphere": [place, radius] } } }),
            3 => json!({ "g": { "$geoWithin": { "$centerSphere": [place, radius] } } }),
            4 => json!({ "g": { "$geoIntersects": { "$geometry": self.geometry() } } }),
            _ => json!({ "g": { "$geoWithin": { "$geometry": { "type": "Polygon",
                "coordinates": [[place, [3, -3], [3, 3], [-3, 3], place]] } } } }),
        }
    }

    fn document(&mut self, id: usize) -> Json {
        let mut o = Map::new();
        o.insert("_id".to_owned(), json!(id));
        for field in ["a", "b", "c", "d", "e", "s", "g", "p"] {
            if self.shape.chance(20) {
                continue;
            }
            let v = match field {
                "c" if self.shape.chance(80) => self.object(),
                "d" => match self.shape.below(4) {
                    0 => (0..self.shape.below(4)).map(|_| self.scalar()).collect(),
                    1 => (0..self.shape.below(3)).map(|_| self.object()).collect(),
                    2 => self.object(),
                    _ => self.scalar(),
                },
                "e" => json!(self.int(4)),
                "s" => json!(self.any(&["", "a", "ab", "b", "sea", "Sea"])),
                "g" => self.geometry(),
                "p" => self.place(),
                _ => self.scalar(),
            };
            o.insert(field.to_owned(), v);
        }
        Json::Object(o)
    }

    fn index(&mut self, n: usize) -> Json {
        let mut key = Map::new();
        for _ in 0..1 + self.shape.below(3) {
            let path = self.pick(&["a", "b", "c.x", "d", "e", "s", "c"]);
            key.entry(path).or_insert(json!(self.sign()));
        }
        self.indexed.extend(key.keys().cloned());
        let mut spec = json!({ "key": key, "name": format!("i{n}") });
        match self.shape.below(20) {
            0 => spec["sparse"] = json!(true),
            1 => spec["partialFilterExpression"] = json!({ "e": { "$gte": 1 } }),
            2 => spec["partialFilterExpression"] = json!({ "a": { "$exists": true } }),
            3 => spec["key"] = json!({ "$**": self.sign() }),
            4 => spec["key"] = json!({ self.pick(&["c.$**", "d.$**", "a.$**"]): 1 }),
            5 => spec["key"] = json!({ "e": 1, "c.$**": self.sign() }),
            6 => spec["key"] = json!({ self.pick(&["a", "s", "e"]): "hashed" }),
            7 => spec["key"] = json!({ "e": self.sign(), "a": "hashed", "s": 1 }),
            8 | 9 => spec["clustering"] = json!(true),
            10 => spec["clustering"] = json!([self.pick(&["a", "b", "c"]), "e"]),
            11 | 12 => spec["key"] = json!({ "$**": "columnstore" }),
            13 => {
                spec["key"] = json!({ "a": "columnstore", "c.x": "columnstore",
                    "e": "columnstore", "s": "columnstore" });
            }
            14 => spec["key"] = json!({ "g": "2dsphere" }),
            15 => spec["key"] = json!({ "e": 1, "g": "2dsphere" }),
            16 => spec["key"] = json!({ "p": "2d" }),
            _ => {}
        }
        spec
    }

    fn condition(&mut self) -> Json {
        let ops = ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"];
        match self.shape.below(14) {
            0..=5 => json!({ self.pick(&ops): self.scalar() }),
            6 => json!({ "$in": [self.scalar(), self.scalar(), self.scalar()] }),
            7 => json!({ "$nin": [self.scalar(), self.scalar()] }),
            8 => json!({ "$exists": self.shape.chance(60) }),
            9 => json!({ "$regex": self.any(&["^a", "^ab", "b", "^S"]) }),
            10 => json!({ "$not": { self.pick(&ops): self.scalar() } }),
            11 => json!({ "$gte": self.int(3) - 1, "$lt": self.int(5) }),
            12 => json!({ "$elemMatch": { "$gte": self.int(2) } }),
            _ => json!({ "$type": self.any(&["int", "string", "null", "object", "array"]) }),
        }
    }

    fn filter(&mut self, depth: usize) -> Json {
        match self.shape.below(if depth == 0 { 8 } else { 12 }) {
            8 => json!({ "$or": [self.filter(depth - 1), self.filter(depth - 1)] }),
            9 => json!({ "$and": [self.filter(depth - 1), self.filter(depth - 1)] }),
            10 => json!({ "$nor": [self.filter(depth - 1)] }),
            6 if self.shape.chance(30) => self.place_condition(),
            7 => json!({ "$expr": { self.pick(&["$gt", "$lte", "$eq", "$ne"]): [
                format!("${}", self.pick(&PATHS)), self.scalar()] } }),
            n => {
                let mut o = Map::new();
                for _ in 0..1 + n % 2 {
                    o.insert(self.pick(&PATHS).to_owned(), self.condition());
                }
                Json::Object(o)
            }
        }
    }

    fn change(&mut self, docs: usize) -> Json {
        let filter = self.filter(1);
        match self.shape.below(10) {
            0 => json!({ "delete": "c", "deletes": [{ "q": filter, "limit": 0 }] }),
            1 | 2 => {
                let more: Vec<Json> = (0..3).map(|i| self.document(docs + i)).collect();
                json!({ "insert": "c", "documents": more, "ordered": false })
            }
            3 => json!({ "findAndModify": "c", "query": { "_id": self.int(docs) },
                "update": { "$set": { "a": self.scalar(), "d": [self.scalar()] } }, "new": true }),
            4 => json!({ "findAndModify": "c", "query": filter, "sort": { "_id": self.sign() },
                "remove": true }),
            n => {
                let update = match n {
                    5 => json!({ "$inc": { "e": 1 }, "$set": { "n": self.scalar() } }),
                    6 => json!({ "$unset": { self.pick(&["a", "c", "d"]): 1 } }),
                    7 => json!([{ "$set": { "b": { "$ifNull": ["$a", "$e"] } } }]),
                    8 => json!({ "$min": { "a": self.scalar() }, "$rename": { "s": "t" } }),
                    _ => json!({ "$set": { "s": self.any(&["", "a", "b"]), "b": self.scalar() } }),
                };
                json!({ "update": "c", "updates": [{ "q": filter, "u": update, "multi": true }] })
            }
        }
    }

    fn sort(&mut self) -> Json {
        let mut sort = Map::new();
        for _ in 0..self.shape.below(3) {
            let path = self.pick(&["a", "b", "c.x", "e", "s", "d"]);
            sort.insert(path.to_owned(), json!(self.sign()));
        }
        sort.insert("_id".to_owned(), json!(self.sign()));
        Json::Object(sort)
    }

    /// Conditions on paths of indexes only.
    fn indexed_filter(&mut self) -> Json {
        let mut o = Map::new();
        for _ in 0..1 + self.shape.below(2) {
            let path = self.indexed[self.shape.below(self.indexed.len())].clone();
            o.insert(path, self.condition());
        }
        Json::Object(o)
    }

    fn question(&mut self) -> Json {
        let filter = match self.shape.below(10) {
            0 => json!({}),
            1..=5 => self.indexed_filter(),
            _ => self.filter(2),
        };
        let all = json!({ "batchSize": 100_000 });
        match self.shape.below(15) {
            0 | 1 => {
                let mut find = json!({ "find": "c", "filter": filter, "sort": self.sort(),
                    "batchSize": 100_000 });
                if self.shape.chance(50) {
                    find["limit"] = json!(1 + self.int(9));
                }
                if self.shape.chance(30) {
                    find["skip"] = json!(self.int(4));
                }
                if self.shape.chance(60) {
                    let mut shape = json!({ "_id": i32::from(self.shape.chance(50)) });
                    shape[self.pick(&["a", "b", "e", "s"])] = json!(1);
                    shape[self.pick(&["a", "e", "c.x"])] = json!(1);
                    find["projection"] = shape;
                    // Without their `_id` in the result, documents are still ordered by it.
                }
                find
            }
            2 => json!({ "find": "c", "filter": filter, "batchSize": 100_000 }),
            3 | 8 => json!({ "count": "c", "query": filter }),
            4 => json!({ "distinct": "c", "key": self.pick(&["a", "b", "c.x", "d", "e", "s"]),
                "query": filter }),
            14 => json!({ "find": "c", "projection": { "_id": 1 }, "batchSize": 100_000,
                "filter": { "$or": [self.indexed_filter(), self.indexed_filter()] } }),
            13 => {
                let key = self.indexed[self.shape.below(self.indexed.len())].clone();
                json!({ "distinct": "c", "key": key })
            }
            5 => json!({ "aggregate": "c", "pipeline": [{ "$match": filter }, { "$group": {
                "_id": format!("${}", self.pick(&["e", "s", "c.x"])), "n": { "$sum": 1 },
                "m": { self.pick(&["$min", "$max"]): "$a" } } }], "cursor": all }),
            6 => json!({ "aggregate": "c", "pipeline": [{ "$match": filter },
                { "$sort": self.sort() }, { "$project": { "a": 1, "k": { "$add": ["$e", 1] } } },
                { "$match": { "k": { "$gte": 2 } } }], "cursor": all }),
            9 => {
                let path = self.pick(&["a", "b", "c.x", "e", "s"]);
                json!({ "aggregate": "c", "pipeline": [{ "$match": filter },
                    { "$sort": { path: self.sign(), "_id": self.sign() } },
                    { "$group": { "_id": format!("${path}"), "f": { "$first": "$_id" },
                        "l": { "$last": "$e" } } }], "cursor": all })
            }
            10 => json!({ "aggregate": "c", "pipeline": [{ "$match": filter },
                { "$group": { "_id": format!("${}", self.pick(&["a", "e", "s", "c.x"])) } }],
                "cursor": all }),
            11 => {
                let foreign = self.pick(&["a", "e", "b", "_id"]);
                json!({ "aggregate": "c", "pipeline": [{ "$match": filter },
                    { "$lookup": { "from": "c", "localField": "e", "foreignField": foreign,
                        "as": "j" } }, { "$unwind": "$j" }, { "$match": { "j.e": self.scalar() } },
                    { "$project": { "k": "$j._id" } }], "cursor": all })
            }
            12 => json!({ "aggregate": "c", "pipeline": [{ "$match": filter }, { "$count": "n" }],
                "cursor": all }),
            _ => json!({ "aggregate": "c", "pipeline": [{ "$sort": self.sort() }, { "$limit": 5 },
                { "$lookup": { "from": "c", "localField": "e", "foreignField": "a", "as": "j",
                    "pipeline": [{ "$sort": { "_id": 1 } }, { "$project": { "_id": 1 } }] } }],
                "cursor": all }),
        }
    }

    /// Questions of one shape.
    fn repeats(&mut self) -> Vec<Json> {
        let shape = self.shape.clone();
        let again = |_| {
            self.shape = shape.clone();
            self.question()
        };
        (0..REPEATS).map(again).collect()
    }

    pub(crate) fn scenario(&mut self) -> Scenario {
        // With few documents most plans are scans.
        let size = match self.shape.chance(25) {
            true => 150 + self.shape.below(150),
            false => 5 + self.shape.below(36),
        };
        Scenario {
            indexes: (0..1 + self.shape.below(5))
                .map(|n| self.index(n))
                .collect(),
            documents: (0..size).map(|id| self.document(id)).collect(),
            changes: (0..self.shape.below(6))
                .map(|_| self.change(size))
                .collect(),
            questions: (0..SHAPES).flat_map(|_| self.repeats()).collect(),
            predicates: (0..if size < 50 { 4 } else { 1 })
                .map(|_| self.filter(2))
                .collect(),
            only_plain: Vec::new(),
        }
    }
}
