//! The commands for all servers and what must agree; and the reduction of a disagreement.

use crate::servers::{Server, Servers};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::fmt::{Display, Formatter};

#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) indexes: Vec<Json>,
    pub(crate) documents: Vec<Json>,
    pub(crate) changes: Vec<Json>,
    pub(crate) questions: Vec<Json>,
    pub(crate) predicates: Vec<Json>,
    /// Documents that only the reference server gets: for the test of the search itself.
    pub(crate) only_plain: Vec<Json>,
}

type CheckResult = Result<(), String>;
/// Numbers of comparisons by kind, and of plans by the stages they had.
#[derive(Debug, Default)]
pub(crate) struct QuestionCounts {
    pub(crate) compared: BTreeMap<&'static str, usize>,
    pub(crate) stages: BTreeMap<String, usize>,
    /// Entries of plan caches when the scenarios ended.
    pub(crate) cached_plans: usize,
}

impl QuestionCounts {
    fn count(&mut self, kind: &'static str) {
        *self.compared.entry(kind).or_default() += 1;
    }

    /// Adds the stages in a reply to `explain`.
    fn count_stages(&mut self, explained: &Json) {
        match explained {
            Json::Object(o) => {
                if let Some(stage) = o.get("stage").and_then(Json::as_str) {
                    *self.stages.entry(stage.to_owned()).or_default() += 1;
                }
                o.iter()
                    .filter(|(name, _)| *name != "rejectedPlans")
                    .for_each(|(_, v)| self.count_stages(v));
            }
            Json::Array(a) => a.iter().for_each(|v| self.count_stages(v)),
            _ => {}
        }
    }
}

/// Equal numbers in one form: which of them represents a group or a distinct value is not defined.
fn canonical(v: &Json) -> Json {
    match v {
        Json::Object(o) => {
            let kinds = [
                "$numberInt",
                "$numberLong",
                "$numberDouble",
                "$numberDecimal",
            ];
            let number = kinds.iter().find_map(|k| o.get(*k)).and_then(Json::as_str);
            match number.and_then(|n| n.parse::<f64>().ok()) {
                // Adding zero removes the sign of zero.
                Some(n) => json!({ "number": (n + 0.0).to_string() }),
                None => o.iter().map(|(k, v)| (k.clone(), canonical(v))).collect(),
            }
        }
        Json::Array(a) => a.iter().map(canonical).collect(),
        other => other.clone(),
    }
}

/// The content of a reply: documents, values, counts or an error code; unordered documents are
/// sorted.
fn reply_content(reply: &Json, ordered: bool) -> Json {
    if let Some(code) = reply.get("code") {
        return json!({ "code": code });
    }
    let batch = reply.pointer("/cursor/firstBatch");
    let told = batch.or_else(|| reply.get("values")).unwrap_or(reply);
    let mut told = canonical(told);
    if let (Json::Array(list), false) = (&mut told, ordered) {
        list.sort_by_key(Json::to_string);
    }
    told
}

fn is_ordered(question: &Json) -> bool {
    let first = question.pointer("/pipeline/0/$sort").is_some();
    first || question.get("sort").is_some()
}

/// An answer and its server.
struct Answer<'a> {
    of: &'a str,
    is: &'a Json,
}

fn answer<'a>(of: &'a str, is: &'a Json) -> Answer<'a> {
    Answer { of, is }
}

fn differ(what: &str, one: &Answer<'_>, other: &Answer<'_>) -> CheckResult {
    if one.is == other.is {
        return Ok(());
    }
    Err(format!(
        "{what}\n{}: {}\n{}: {}",
        one.of, one.is, other.of, other.is
    ))
}

impl Scenario {
    /// The scenario with one more document on the reference server.
    pub(crate) fn with_a_difference(scenario: Scenario) -> Scenario {
        Scenario {
            only_plain: vec![json!({ "_id": "more", "a": 1 })],
            ..scenario
        }
    }

    /// Number of pieces that can be removed.
    pub(crate) fn len(&self) -> usize {
        self.indexes.len()
            + self.documents.len()
            + self.changes.len()
            + self.questions.len()
            + self.predicates.len()
            + self.only_plain.len()
    }

    /// Runs the scenario in a new database; returns the disagreement.
    pub(crate) fn run(&self, servers: &mut Servers, asked: &mut QuestionCounts) -> CheckResult {
        let db = servers.database();
        let outcome = self.run_in(&db, servers, asked);
        servers.drop_database(&db);
        outcome
    }

    fn run_in(&self, db: &str, servers: &mut Servers, asked: &mut QuestionCounts) -> CheckResult {
        self.fill(db, servers);
        for change in &self.changes {
            let want = reply_content(&servers.plain.send(db, change), true);
            for server in &mut servers.others {
                asked.count("engines");
                let got = reply_content(&server.send(db, change), true);
                differ(
                    &change.to_string(),
                    &answer("as written", &want),
                    &answer(server.name, &got),
                )?;
            }
        }
        self.compare_documents(db, servers, asked)?;
        for server in &servers.others {
            server.work();
        }
        for question in &self.questions {
            self.ask(db, servers, asked, question)?;
        }
        if let Some(server) = servers.others.first_mut() {
            let list = json!({ "aggregate": "c", "pipeline": [{ "$planCacheStats": {} }],
                "cursor": { "batchSize": 100_000 } });
            let entries = reply_content(&server.send(db, &list), false);
            asked.cached_plans += entries.as_array().map_or(0, Vec::len);
        }
        for predicate in &self.predicates {
            for server in &mut servers.others {
                partition(db, server, predicate)?;
                count_by_row(db, server, predicate)?;
                asked.count("TLP");
                asked.count("NoREC");
            }
        }
        Ok(())
    }

    /// Inserts documents that the indexes accept into all servers, one after the other.
    fn fill(&self, db: &str, servers: &mut Servers) {
        for server in &mut servers.others {
            for index in &self.indexes {
                server.send(db, &json!({ "createIndexes": "c", "indexes": [index] }));
            }
        }
        let mut refused = vec![false; self.documents.len()];
        for server in &mut servers.others {
            for (d, refused) in self.documents.iter().zip(&mut refused) {
                let reply = server.send(db, &json!({ "insert": "c", "documents": [d] }));
                *refused = reply.get("writeErrors").is_some();
            }
        }
        let all = self
            .documents
            .iter()
            .zip(refused)
            .filter(|(_, refused)| !refused);
        for d in all.map(|(d, _)| d).chain(&self.only_plain) {
            servers
                .plain
                .send(db, &json!({ "insert": "c", "documents": [d] }));
        }
        for server in &servers.others {
            server.work();
        }
    }

    fn compare_documents(
        &self,
        db: &str,
        servers: &mut Servers,
        asked: &mut QuestionCounts,
    ) -> CheckResult {
        let all = json!({ "find": "c", "sort": { "_id": 1 }, "batchSize": 100_000 });
        let want = reply_content(&servers.plain.send(db, &all), true);
        for server in &mut servers.others {
            asked.count("documents");
            let got = reply_content(&server.send(db, &all), true);
            differ(
                "documents after the changes",
                &answer("as written", &want),
                &answer(server.name, &got),
            )?;
            let checked = server.send(db, &json!({ "validate": "c", "full": true }));
            if checked["valid"] == json!(false) {
                return Err(format!("{}: {checked}", server.name));
            }
        }
        Ok(())
    }

    /// Indexes with entries for every document.
    fn whole_indexes(&self) -> impl Iterator<Item = &Json> {
        self.indexes.iter().filter(|i| {
            let key = i["key"].as_object().into_iter().flatten();
            i.get("sparse").is_none()
                && i.get("partialFilterExpression").is_none()
                && key.into_iter().all(|(path, kind)| {
                    !path.ends_with("$**") && (kind.is_number() || kind == "hashed")
                })
        })
    }

    fn ask(
        &self,
        db: &str,
        servers: &mut Servers,
        asked: &mut QuestionCounts,
        q: &Json,
    ) -> CheckResult {
        let ordered = is_ordered(q);
        let want = reply_content(&servers.plain.send(db, q), ordered);
        // With fewer documents another plan may fail.
        if want.get("code").is_some() {
            return Ok(());
        }
        if let Some(server) = servers.others.first_mut() {
            let explain = json!({ "explain": q, "verbosity": "queryPlanner" });
            asked.count_stages(&server.send(db, &explain));
        }
        for server in &mut servers.others {
            asked.count("engines");
            let got = reply_content(&server.send(db, q), ordered);
            differ(
                &q.to_string(),
                &answer("as written", &want),
                &answer(server.name, &got),
            )?;
            query::exec::set_scan_threads(1);
            let alone = reply_content(&server.send(db, q), ordered);
            query::exec::set_scan_threads(4);
            let together = reply_content(&server.send(db, q), ordered);
            asked.count("threads");
            differ(
                &q.to_string(),
                &answer("by one thread", &alone),
                &answer("by four", &together),
            )?;
            if q.get("distinct").is_some() {
                continue;
            }
            for index in self.whole_indexes() {
                let mut hinted = q.clone();
                hinted["hint"] = index["name"].clone();
                let got = reply_content(&server.send(db, &hinted), ordered);
                if got.get("code").is_some() {
                    continue;
                }
                asked.count("hints");
                differ(
                    &hinted.to_string(),
                    &answer("as written", &want),
                    &answer(server.name, &got),
                )?;
            }
        }
        Ok(())
    }

    /// The scenario without everything that can be removed.
    pub(crate) fn reduce(&self, servers: &mut Servers) -> Scenario {
        let mut small = self.clone();
        let parts: [fn(&mut Scenario) -> &mut Vec<Json>; 6] = [
            |s| &mut s.questions,
            |s| &mut s.predicates,
            |s| &mut s.changes,
            |s| &mut s.indexes,
            |s| &mut s.documents,
            |s| &mut s.only_plain,
        ];
        loop {
            let before = small.len();
            for part in parts {
                for n in (0..part(&mut small).len()).rev() {
                    let mut less = small.clone();
                    part(&mut less).remove(n);
                    if less.run(servers, &mut QuestionCounts::default()).is_err() {
                        small = less;
                    }
                }
            }
            if small.len() == before {
                return small;
            }
        }
    }
}

impl Display for Scenario {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        for (what, list) in [
            ("indexes", &self.indexes),
            ("documents", &self.documents),
            ("changes", &self.changes),
            ("questions", &self.questions),
            ("predicates", &self.predicates),
        ] {
            writeln!(f, "{what}:")?;
            for one in list {
                writeln!(f, "  {one}")?;
            }
        }
        Ok(())
    }
}

fn ids(db: &str, server: &mut Server, filter: &Json) -> Vec<Json> {
    let find = json!({ "find": "c", "filter": filter, "projection": { "_id": 1 },
        "batchSize": 100_000 });
    let mut ids = match reply_content(&server.send(db, &find), false) {
        Json::Array(list) => list,
        other => vec![other],
    };
    ids.sort_by_key(Json::to_string);
    ids
}

/// Checks that a predicate and its negation together select every document once: for find, for a
/// group, and for updates.
fn partition(db: &str, server: &mut Server, p: &Json) -> CheckResult {
    let rest = json!({ "$nor": [p] });
    let whole = ids(db, server, &json!({}));
    let (selected, left) = (ids(db, server, p), ids(db, server, &rest));
    if selected.first().is_some_and(|d| d.get("code").is_some()) {
        return Ok(());
    }
    let mut both = [selected.clone(), left].concat();
    both.sort_by_key(Json::to_string);
    differ(
        &format!("{}: TLP of {p}", server.name),
        &answer("whole", &json!(whole)),
        &answer("parts", &json!(both)),
    )?;
    let sum = |filter: &Json| {
        json!({ "aggregate": "c", "cursor": {}, "pipeline": [{ "$match": filter },
            { "$group": { "_id": null, "n": { "$sum": 1 } } }] })
    };
    let mut n = |filter: &Json| {
        let reply = server.send(db, &sum(filter));
        let n = reply.pointer("/cursor/firstBatch/0/n/$numberInt");
        n.and_then(|n| n.as_str()?.parse::<usize>().ok())
            .unwrap_or(0)
    };
    let parts = n(p) + n(&rest);
    if parts != whole.len() {
        return Err(format!("TLP of {p} by $group: {parts} of {}", whole.len()));
    }
    // Exactly one of two updates changes each document.
    for filter in [p, &rest] {
        let update = json!({ "update": "c", "updates": [{ "q": filter,
            "u": { "$inc": { "tlp": 1 } }, "multi": true }] });
        server.send(db, &update);
    }
    let once = ids(db, server, &json!({ "tlp": 1 }));
    let clear = json!({ "update": "c", "updates": [{ "q": {}, "u": { "$unset": { "tlp": 1 } },
        "multi": true }] });
    server.send(db, &clear);
    differ(
        &format!("{}: TLP of updates by {p}", server.name),
        &answer("whole", &json!(whole)),
        &answer("once", &json!(once)),
    )
}

/// The `_id` of a document in the form of a command.
fn plain_id(d: &Json) -> Json {
    let number = d.pointer("/_id/number").and_then(Json::as_str);
    number
        .and_then(|n| n.parse::<i64>().ok())
        .map_or_else(|| d["_id"].clone(), |n| json!(n))
}

/// Checks that the count of a predicate equals the number found by evaluating it on each document.
fn count_by_row(db: &str, server: &mut Server, p: &Json) -> CheckResult {
    let reply = server.send(db, &json!({ "count": "c", "query": p }));
    if reply.get("code").is_some() {
        return Ok(());
    }
    let counted = reply_content(&reply, true)["n"].clone();
    let mut n = 0;
    for id in ids(db, server, &json!({})) {
        let one = json!({ "$and": [{ "_id": plain_id(&id) }, p] });
        n += ids(db, server, &one).len();
    }
    let by_row = json!({ "number": n.to_string() });
    differ(
        &format!("{}: NoREC of {p}", server.name),
        &answer("counted", &counted),
        &answer("by document", &by_row),
    )
}
