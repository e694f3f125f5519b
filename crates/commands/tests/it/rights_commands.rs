//! Random commands with collection names in every possible place: as the value of the first field,
//! in stages at any depth, in views, in commands inside commands.

use crate::rights_touch::NAMES;
use crate::rights_walk::{Random, TEMPLATES, make_request, template};
use commands::registry;
use model::extjson;
use serde_json::{Value as Json, json};

/// Parameters of random commands.
pub(crate) struct Shape<'a> {
    /// The namespace that is used most often.
    pub(crate) often: &'a str,
    /// A cursor of another user, or 0.
    pub(crate) cursor: i64,
}

struct CommandGenerator<'r, 'a> {
    random: &'r mut Random,
    shape: &'a Shape<'a>,
    db: &'a str,
}

/// A random command and its database.
pub(crate) fn command(random: &mut Random, shape: &Shape<'_>) -> (String, Json) {
    let (own, _) = shape.often.split_once('.').unwrap_or_default();
    let db = match random.below(8) {
        0 => "e",
        1 => "d",
        _ => own,
    };
    if shape.cursor != 0 {
        let (db, coll) = shape.often.split_once('.').unwrap_or_default();
        let id = json!({ "$numberLong": shape.cursor.to_string() });
        return (db.to_owned(), json!({ "getMore": id, "collection": coll }));
    }
    let mut maker = CommandGenerator { random, shape, db };
    match maker.random.below(10) {
        0 => maker.template(),
        1 => maker.draw_registered(),
        _ => maker.draw_command(),
    }
}

impl CommandGenerator<'_, '_> {
    fn coll(&mut self) -> String {
        let often = self.shape.often.split_once('.').unwrap_or_default();
        if often.0 == self.db && self.random.below(100) < 45 {
            return often.1.to_owned();
        }
        let names = ["c0", "c1", "c2", "cap", "ts", "v0", "v1", "w", "x"];
        names[self.random.below(names.len())].to_owned()
    }

    fn namespace(&mut self) -> String {
        match self.random.below(3) {
            0 => self.shape.often.to_owned(),
            1 => NAMES[self.random.below(NAMES.len())].to_owned(),
            _ => {
                let coll = self.coll();
                format!("{}.{coll}", self.db)
            }
        }
    }

    fn admin(&self, command: Json) -> (String, Json) {
        ("admin".to_owned(), command)
    }

    fn on_database(&self, command: Json) -> (String, Json) {
        (self.db.to_owned(), command)
    }

    /// A command from the templates, on the collection that most commands use.
    fn template(&mut self) -> (String, Json) {
        let (db, text) = TEMPLATES[self.random.below(TEMPLATES.len())];
        let (own, coll) = self.shape.often.split_once('.').unwrap_or_default();
        let text = text
            .replace("'n'", &format!("'{coll}'"))
            .replace("'d.n'", &format!("'{}'", self.shape.often))
            .replace("'o'", "'c1'")
            .replace("'d.o'", "'d.c1'")
            .replace("'db': 'd'", &format!("'db': '{own}'"))
            .replace("'d.$cmd'", &format!("'{own}.$cmd'"));
        // Operations of `applyOps` have a field `o` instead of this name.
        let text = text.replace("'c1': {", "'o': {");
        let body = extjson::from_document(template(&text).doc(), extjson::Mode::Canonical);
        let db = if db == "d" { own } else { db };
        (db.to_owned(), body)
    }

    fn draw_registered(&mut self) -> (String, Json) {
        let all: Vec<_> = registry::all().collect();
        let spec = &all[self.random.below(all.len())].spec;
        let body = extjson::from_document(make_request(spec).doc(), extjson::Mode::Canonical);
        let coll = self.shape.often.split_once('.').unwrap_or_default().1;
        let text = body.to_string().replace("\"n\"", &format!("\"{coll}\""));
        let body = serde_json::from_str(&text).unwrap_or(body);
        match self.random.below(3) {
            0 => self.admin(body),
            _ => self.on_database(body),
        }
    }

    fn filter(&mut self) -> Json {
        match self.random.below(4) {
            0 => json!({ "a": { "$gte": 1 } }),
            1 => json!({ "_id": 1 }),
            2 => json!({ "$expr": { "$gt": ["$a", 0] } }),
            _ => json!({}),
        }
    }

    /// A stage that writes.
    fn end(&mut self) -> Json {
        let coll = self.coll();
        let db = if self.random.below(3) == 0 {
            "e"
        } else {
            self.db
        };
        match self.random.below(6) {
            0 => json!({ "$out": coll }),
            1 => json!({ "$out": { "db": db, "coll": coll } }),
            2 => json!({ "$merge": coll }),
            3 => json!({ "$merge": { "into": { "db": db, "coll": coll } } }),
            4 => {
                let matched = ["replace", "keepExisting", "merge", "fail"][self.random.below(4)];
                let not = ["insert", "discard", "fail"][self.random.below(3)];
                json!({ "$merge": { "into": coll, "whenMatched": matched, "whenNotMatched": not } })
            }
            _ => json!({ "$merge": { "into": coll, "whenMatched": [{ "$set": { "m": 1 } }] } }),
        }
    }

    fn source_stage(&mut self) -> Json {
        match self.random.below(8) {
            0 => json!({ "$collStats": { "count": {}, "storageStats": {} } }),
            1 => json!({ "$indexStats": {} }),
            2 => json!({ "$planCacheStats": {} }),
            3 => json!({ "$listSearchIndexes": {} }),
            4 => json!({ "$changeStream": {} }),
            5 => json!({ "$search": { "text": { "query": "a", "path": "a" } } }),
            6 => {
                let (a, b) = (self.pipeline(1), self.pipeline(1));
                json!({ "$rankFusion": { "input": { "pipelines": { "a": a, "b": b } } } })
            }
            _ => json!({ "$geoNear": { "near": [0, 0], "distanceField": "d", "key": "a" } }),
        }
    }

    fn stage(&mut self, depth: usize) -> Json {
        let coll = self.coll();
        let deep = depth > 0;
        match self.random.below(14) {
            0 => json!({ "$match": self.filter() }),
            1 => json!({ "$addFields": { "k": "$a" } }),
            2 => json!({ "$sort": { "a": 1 } }),
            3 => json!({ "$group": { "_id": "$a", "n": { "$sum": 1 } } }),
            4 | 5 => json!({ "$lookup": { "from": coll, "localField": "a", "foreignField": "a",
                "as": "j" } }),
            6 if deep => json!({ "$lookup": { "from": coll, "as": "j", "let": { "p": "$a" },
                "pipeline": self.pipeline(depth - 1) } }),
            7 if deep => json!({ "$lookup": { "from": coll, "localField": "a",
                "foreignField": "a", "as": "j", "pipeline": self.pipeline(depth - 1) } }),
            8 if deep => json!({ "$lookup": { "as": "j", "pipeline": [
                { "$documents": [{ "a": 1 }] }, self.stage(depth - 1)] } }),
            9 => json!({ "$unionWith": coll }),
            10 if deep => json!({ "$unionWith": { "coll": coll,
                "pipeline": self.pipeline(depth - 1) } }),
            11 if deep => json!({ "$unionWith": { "pipeline": [
                { "$documents": [{ "a": 1 }] }, self.stage(depth - 1)] } }),
            12 if deep => json!({ "$facet": { "f": self.pipeline(depth - 1),
                "g": self.pipeline(depth - 1) } }),
            _ => json!({ "$graphLookup": { "from": coll, "startWith": "$a",
                "connectFromField": "a", "connectToField": "a", "as": "j" } }),
        }
    }

    fn pipeline(&mut self, depth: usize) -> Json {
        (0..self.random.below(3))
            .map(|_| self.stage(depth))
            .collect()
    }

    /// The complete pipeline of a command.
    fn stages(&mut self) -> Vec<Json> {
        let mut all = Vec::new();
        if self.random.below(8) == 0 {
            all.push(self.source_stage());
        }
        for _ in 0..self.random.below(4) {
            let depth = self.random.below(4);
            all.push(self.stage(depth));
        }
        if self.random.below(4) == 0 {
            all.push(self.end());
        }
        all
    }

    fn draw_command(&mut self) -> (String, Json) {
        match self.random.below(10) {
            0..=3 => {
                let own = match self.random.below(10) {
                    0 => json!(1),
                    _ => json!(self.coll()),
                };
                let stages = self.stages();
                self.on_database(json!({ "aggregate": own, "pipeline": stages, "cursor": {} }))
            }
            4 => self.draw_explain(),
            5 => self.bulk_write(),
            6 => self.apply_ops(),
            7 => self.definition(),
            _ => {
                let command = self.simple();
                self.on_database(command)
            }
        }
    }

    fn draw_explain(&mut self) -> (String, Json) {
        let stages = self.stages();
        let inner = match self.random.below(3) {
            0 => self.simple(),
            _ => json!({ "aggregate": self.coll(), "pipeline": stages, "cursor": {} }),
        };
        let how = ["queryPlanner", "executionStats", "allPlansExecution"][self.random.below(3)];
        let outer = match self.random.below(6) {
            0 => json!({ "explain": { "explain": inner } }),
            1 => {
                let mut flagged = inner;
                flagged["explain"] = json!(true);
                flagged
            }
            _ => json!({ "explain": inner, "verbosity": how }),
        };
        self.on_database(outer)
    }

    fn bulk_write(&mut self) -> (String, Json) {
        let spaces: Vec<Json> = (0..3).map(|_| json!({ "ns": self.namespace() })).collect();
        let ops: Vec<Json> = (0..1 + self.random.below(3))
            .map(|_| {
                let at = self.random.below(3);
                match self.random.below(3) {
                    0 => json!({ "insert": at, "document": { "a": 3 } }),
                    1 => json!({ "update": at, "filter": {}, "updateMods": { "$set": { "b": 1 } },
                        "multi": true, "upsert": true }),
                    _ => json!({ "delete": at, "filter": {}, "multi": true }),
                }
            })
            .collect();
        self.admin(json!({ "bulkWrite": 1, "ops": ops, "nsInfo": spaces, "ordered": false }))
    }

    fn operation(&mut self, depth: usize) -> Json {
        let ns = self.namespace();
        let (db, coll) = ns.split_once('.').unwrap_or_default();
        let cmd = format!("{db}.$cmd");
        match self.random.below(8) {
            0 => json!({ "op": "i", "ns": ns, "o": { "_id": 8 } }),
            1 => json!({ "op": "u", "ns": ns, "o2": { "_id": 1 }, "o": { "$v": 2, "diff": {
                "u": { "a": 7 } } } }),
            2 => json!({ "op": "d", "ns": ns, "o": { "_id": 1 } }),
            3 => json!({ "op": "c", "ns": cmd, "o": { "drop": coll } }),
            4 => {
                let to = self.namespace();
                json!({ "op": "c", "ns": cmd, "o": { "renameCollection": ns, "to": to,
                    "dropTarget": true } })
            }
            5 => json!({ "op": "c", "ns": cmd, "o": { "create": "w", "viewOn": coll,
                "pipeline": self.pipeline(2) } }),
            6 if depth > 0 => json!({ "op": "c", "ns": "admin.$cmd", "o": { "applyOps": [
                self.operation(depth - 1)] } }),
            _ => json!({ "op": "c", "ns": cmd, "o": { "collMod": coll, "validator": {} } }),
        }
    }

    fn apply_ops(&mut self) -> (String, Json) {
        let ops: Vec<Json> = (0..1 + self.random.below(3))
            .map(|_| self.operation(2))
            .collect();
        self.admin(json!({ "applyOps": ops }))
    }

    fn definition(&mut self) -> (String, Json) {
        let (coll, stages) = (self.coll(), self.pipeline(3));
        match self.random.below(6) {
            0 | 1 => self.on_database(json!({ "create": "w", "viewOn": coll, "pipeline": stages })),
            2 => {
                let view = ["v0", "v1", "w"][self.random.below(3)];
                self.on_database(json!({ "collMod": view, "viewOn": coll, "pipeline": stages }))
            }
            3 => {
                let (from, to) = (self.namespace(), self.namespace());
                self.admin(json!({ "renameCollection": from, "to": to, "dropTarget": true }))
            }
            4 => {
                let to = self.coll();
                self.on_database(json!({ "cloneCollectionAsCapped": coll, "toCollection": to,
                    "size": 4096 }))
            }
            _ => {
                let out = match self.random.below(3) {
                    0 => json!({ "inline": 1 }),
                    1 => json!({ "merge": self.coll(), "db": self.db }),
                    _ => json!(self.coll()),
                };
                self.on_database(
                    json!({ "mapReduce": coll, "map": "function() { emit(1, 1) }",
                    "reduce": "function(k, v) { return 1 }", "out": out }),
                )
            }
        }
    }

    fn simple(&mut self) -> Json {
        let (coll, filter) = (self.coll(), self.filter());
        match self.random.below(20) {
            0 | 1 => json!({ "find": coll, "filter": filter }),
            2 => json!({ "find": coll, "filter": filter, "sort": { "a": 1 }, "hint": "a_1" }),
            3 => json!({ "count": coll, "query": filter }),
            4 => json!({ "distinct": coll, "key": "a", "query": filter }),
            5 | 6 => json!({ "insert": coll, "documents": [{ "a": 5 }, { "_id": 1 }] }),
            7 | 8 => json!({ "update": coll, "updates": [{ "q": filter,
                "u": { "$inc": { "a": 1 } }, "multi": true }] }),
            9 => json!({ "update": coll, "updates": [{ "q": { "_id": 77 },
                "u": [{ "$set": { "a": 1 } }], "upsert": true }] }),
            10 => json!({ "delete": coll, "deletes": [{ "q": filter, "limit": 0 }] }),
            11 => json!({ "findAndModify": coll, "query": filter, "update": { "$set": { "b": 3 } },
                "upsert": true, "new": true }),
            12 => json!({ "findAndModify": coll, "query": filter, "remove": true }),
            13 => json!({ "createIndexes": coll, "indexes": [{ "key": { "b": 1 },
                "name": "b_1" }] }),
            14 => json!({ "dropIndexes": coll, "index": "*" }),
            15 => json!({ "drop": coll }),
            16 => json!({ "validate": coll, "full": true }),
            17 => json!({ "compact": coll, "force": true }),
            18 => json!({ "dataSize": format!("{}.{coll}", self.db) }),
            _ => json!({ "filemd5": 1, "root": coll }),
        }
    }
}
