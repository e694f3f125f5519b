//! Random histories of a collection with a column index: random documents of all types, with nested
//! paths and arrays, random writes and transactions. The worker runs at random moments; reads are
//! of the current state, in transactions, and of snapshots opened before. Groups, finds, counts and
//! values from columns have to equal those from documents, which `{ $natural: 1 }` reads.
//! `QUARRY_COLUMNS=n` runs n rounds instead of a few; `QUARRY_SEED=n` begins with another seed.

use crate::column_indexes::{Server, lowest, with_fields};
use crate::columns::{PATHS, Rng, document, filter, group};
use serde_json::{Value as Json, json};

const QUICK_ROUNDS: u64 = 10;
const STEPS: usize = 120;

fn index(g: &mut Rng) -> Json {
    let mut key = serde_json::Map::new();
    match g.roll(3) {
        0 => _ = key.insert("$**".to_owned(), json!("columnstore")),
        _ => {
            for path in PATHS {
                if g.roll(6) > 0 {
                    key.insert((*path).to_owned(), json!("columnstore"));
                }
            }
            key.insert("a".to_owned(), json!("columnstore"));
        }
    }
    json!({ "createIndexes": "c", "indexes": [{ "key": key, "name": "columns" }] })
}

/// A random find, count or distinct.
fn question(g: &mut Rng) -> Json {
    let query = match g.roll(2) {
        0 => json!({}),
        _ => filter(g, 2),
    };
    match g.roll(6) {
        0 => {
            let mut count = json!({ "count": "c", "query": query });
            if g.roll(3) == 0 {
                count["limit"] = json!(1 + g.roll(30) as i32);
                count["skip"] = json!(g.roll(5) as i32);
            }
            count
        }
        1 => json!({ "distinct": "c", "key": g.pick(PATHS), "query": query }),
        _ => {
            let mut projection = serde_json::Map::new();
            for _ in 0..1 + g.roll(3) {
                projection.insert(g.pick(PATHS).to_owned(), json!(1));
            }
            if g.roll(3) == 0 {
                projection.insert("_id".to_owned(), json!(0));
            }
            if projection.len() == 1 && projection.contains_key("_id") {
                projection.insert("_id".to_owned(), json!(1));
            }
            let mut find = json!({ "find": "c", "filter": query, "projection": projection,
                "batchSize": if g.roll(2) == 0 { 9 } else { 100_000 } });
            if g.roll(3) == 0 {
                let direction = if g.roll(2) == 0 { 1 } else { -1 };
                find["sort"] = json!({ g.pick(PATHS): direction, "_id": 1 });
            }
            if g.roll(3) == 0 {
                find["limit"] = json!(1 + g.roll(40) as i32);
            }
            if g.roll(4) == 0 {
                find["skip"] = json!(g.roll(9) as i32);
            }
            find
        }
    }
}

/// The history of one collection.
struct CollectionHistory {
    g: Rng,
    server: Server,
    /// Ids come in random order.
    clustered: bool,
    plain: bool,
    next: usize,
    /// Cluster times of snapshots.
    moments: Vec<Json>,
    answered: usize,
    failed: usize,
}

impl CollectionHistory {
    fn new(seed: u64) -> CollectionHistory {
        let mut g = Rng(seed.wrapping_mul(0x1000_0000_01B3));
        let mut server = Server::new();
        let clustered = g.roll(2) == 0;
        if clustered {
            server.ok(&json!({ "create": "c",
                "clusteredIndex": { "key": { "_id": 1 }, "unique": true } }));
        } else {
            server.ok(&json!({ "create": "c" }));
        }
        CollectionHistory {
            plain: g.roll(3) == 0,
            g,
            server,
            clustered,
            next: 0,
            moments: Vec::new(),
            answered: 0,
            failed: 0,
        }
    }

    fn documents(&mut self, number: usize) -> Vec<Json> {
        let mut all: Vec<Json> = Vec::new();
        for _ in 0..number {
            self.next += 1;
            let id = match self.clustered {
                true => self.g.roll(400),
                false => self.next,
            };
            if all.iter().all(|d| d["_id"] != json!(id as i32)) {
                let mut one = document(&mut self.g, id, self.plain);
                if self.g.roll(60) == 0 {
                    one["b"] = json!("long ".repeat(1000));
                }
                all.push(one);
            }
        }
        all
    }

    fn draw_id(&mut self) -> i32 {
        let below = if self.clustered { 400 } else { self.next + 1 };
        self.g.roll(below) as i32
    }

    /// One random write, which may fail.
    fn write(&mut self, more: &Json) {
        let id = self.draw_id();
        let command = match self.g.roll(9) {
            0..=2 => {
                let number = 1 + self.g.roll(12);
                let docs = self.documents(number);
                json!({ "insert": "c", "documents": docs, "ordered": false })
            }
            3 => {
                let mut new = document(&mut self.g, id as usize, self.plain);
                new["_id"] = json!(id);
                json!({ "update": "c", "updates": [{ "q": { "_id": id }, "u": new }] })
            }
            4 => {
                json!({ "update": "c", "updates": [{ "q": { "_id": { "$gte": id, "$lt": id + 9 } },
                "u": { "$set": { "a": id % 5, "d.x": id % 3 } }, "multi": true }] })
            }
            5 => json!({ "update": "c", "updates": [{ "q": { "_id": id },
                "u": { "$unset": { "b": 1 }, "$set": { "c": [1, { "y": id }] } } }] }),
            6 => json!({ "delete": "c", "deletes": [{ "q": { "_id": id }, "limit": 1 }] }),
            7 => json!({ "delete": "c", "deletes": [
                { "q": { "_id": { "$gte": id, "$lt": id + 15 } }, "limit": 0 }] }),
            _ => json!({ "findAndModify": "c", "query": { "_id": id },
                "update": { "$inc": { "n": 1 } } }),
        };
        self.server.send(&with_fields(command, more));
    }

    fn transaction(&mut self) {
        let begin = self.server.transaction_fields(true);
        self.server
            .send(&with_fields(json!({ "find": "c", "limit": 1 }), &begin));
        let inside = self.server.transaction_fields(false);
        for _ in 0..1 + self.g.roll(4) {
            match self.g.roll(4) {
                0 if !self.compare(&inside) => {
                    let end = with_fields(json!({ "abortTransaction": 1 }), &inside);
                    self.server.send(&end);
                    return;
                }
                0 => {}
                _ => self.write(&inside),
            }
        }
        if self.g.roll(4) == 0 {
            self.server.work();
        }
        let end = self
            .g
            .pick(&["commitTransaction", "commitTransaction", "abortTransaction"]);
        let end = with_fields(json!({ end: 1 }), &inside);
        self.server.send(&end);
    }

    /// Compares one random read; false after an error.
    fn compare(&mut self, more: &Json) -> bool {
        if self.g.roll(2) == 0 {
            return self.compare_answers(more);
        }
        let mut stages = Vec::new();
        if self.g.roll(2) == 0 {
            stages.push(json!({ "$match": filter(&mut self.g, 2) }));
        }
        stages.push(json!({ "$group": group(&mut self.g) }));
        let mut more = more.clone();
        if self.g.roll(5) == 0 {
            more["collation"] = json!({ "locale": "en", "strength": 2 });
        }
        let [by_columns, by_documents] = self.server.run_both(&stages, &more);
        if by_columns.is_err() && more.get("autocommit").is_some() {
            return false;
        }
        match by_documents.is_ok() {
            true => self.answered += 1,
            false => self.failed += 1,
        }
        assert_eq!(by_columns, by_documents, "{}, {more}", json!(stages));
        by_documents.is_ok()
    }

    fn compare_answers(&mut self, more: &Json) -> bool {
        let asked = question(&mut self.g);
        let mut more = more.clone();
        if self.g.roll(5) == 0 {
            more["collation"] = json!({ "locale": "en", "strength": 2 });
        }
        let works = self.g.roll(3) == 0;
        let hint = [json!({}), json!("columns")][self.g.roll(2)].clone();
        let by_columns = with_fields(asked.clone(), &json!({ "hint": hint }));
        let by_columns = self.server.answer(&by_columns, &more, works);
        if by_columns.is_err() && more.get("autocommit").is_some() {
            return false;
        }
        let by_documents = with_fields(asked.clone(), &json!({ "hint": { "$natural": 1 } }));
        let by_documents = self.server.answer(&by_documents, &more, false);
        match by_documents.is_ok() {
            true => self.answered += 1,
            false => self.failed += 1,
        }
        assert_eq!(by_columns, by_documents, "{asked}, {more}");
        by_documents.is_ok()
    }

    fn remember(&mut self) {
        let find = json!({ "find": "c", "limit": 1, "readConcern": { "level": "snapshot" } });
        let reply = self.server.ok(&find);
        self.moments.push(reply["cursor"]["atClusterTime"].clone());
    }

    fn step(&mut self) {
        match self.g.roll(40) {
            0..=11 => self.write(&json!({})),
            12..=13 => self.transaction(),
            14..=18 => self.server.work(),
            19 => self.remember(),
            20..=24 if !self.moments.is_empty() => {
                let at = self.g.roll(self.moments.len());
                let at = self.moments[at].clone();
                let concern = json!({ "level": "snapshot", "atClusterTime": at });
                _ = self.compare(&json!({ "readConcern": concern }));
            }
            25 => {
                let drop = json!({ "dropIndexes": "c", "index": "columns" });
                let create = index(&mut self.g);
                self.server.send(&drop);
                self.server.ok(&create);
            }
            _ => _ = self.compare(&json!({})),
        }
    }
}

#[test]
fn column_indexes_give_what_documents_give() {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let rounds = number("QUARRY_COLUMNS").unwrap_or(QUICK_ROUNDS);
    let first = number("QUARRY_SEED").unwrap_or(1);
    let (mut answered, mut failed, mut rows, mut documents) = (0, 0, 0, 0);
    let mut found = 0;
    for seed in first..first + rounds {
        let mut story = CollectionHistory::new(seed);
        let some = 20 + story.g.roll(80);
        let docs = story.documents(some);
        if story.g.roll(2) == 0 {
            let create = index(&mut story.g);
            story.server.ok(&create);
            story
                .server
                .ok(&json!({ "insert": "c", "documents": docs }));
        } else {
            story
                .server
                .ok(&json!({ "insert": "c", "documents": docs }));
            let create = index(&mut story.g);
            story.server.ok(&create);
        }
        eprintln!("seed {seed}");
        (0..STEPS).for_each(|_| story.step());
        let stages = [json!({ "$group": { "_id": "$a", "n": { "$sum": 1 } } })];
        let stage = story.server.explain_stages(&stages);
        if stage["stage"] == json!("COLUMN_SCAN") {
            let counted = |name: &str| stage[name]["$numberInt"].as_str()?.parse::<u64>().ok();
            rows += counted("rowsFromSegments").expect("a number");
            documents += counted("docsExamined").expect("a number");
        }
        let find = json!({ "find": "c", "projection": { "a": 1 } });
        let explain = json!({ "explain": find, "verbosity": "executionStats" });
        let reply = story.server.ok(&explain);
        let stage = lowest(reply["executionStats"]["executionStages"].clone());
        if stage["stage"] == json!("COLUMN_SCAN") {
            let built = stage["rowsFromSegments"]["$numberInt"].as_str();
            found += built.expect("a number").parse::<u64>().expect("a number");
        }
        story.server.validate();
        answered += story.answered;
        failed += story.failed;
    }
    println!(
        "{answered} answered, {failed} failed alike; {rows} and {found} rows, {documents} documents"
    );
    assert!(
        rounds < QUICK_ROUNDS
            || answered > 150 && failed > 10 && rows > 100 && documents > 16 && found > 100
    );
}
