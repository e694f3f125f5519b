//! Plans that were chosen among several are cached, shown, used and removed.

use crate::behaviour::{send, serve, store};
use crate::interrupts::{code, json};
use crate::observability::int;
use crate::truths::batch;
use commands::{Config, Connection, Dispatcher};
use model::DocBuf;
use std::sync::Arc;

struct PlanServer {
    server: Arc<Dispatcher>,
    conn: Connection,
}

/// Both fields have an index.
const BOTH: &str = r#"{"find": "c", "filter": {"a": 5, "b": 5}}"#;

impl PlanServer {
    fn new() -> PlanServer {
        let server = serve(Config::default(), store());
        let conn = server.connect("127.0.0.1:77");
        let mut s = PlanServer { server, conn };
        let documents: Vec<String> = (0..40)
            .map(|n| format!(r#"{{"_id": {n}, "a": {}, "b": {}}}"#, n % 10, n % 20))
            .collect();
        s.ok(&format!(
            r#"{{"insert": "c", "documents": [{}]}}"#,
            documents.join(", ")
        ));
        s.ok(
            r#"{"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a"},
            {"key": {"b": 1}, "name": "b"}]}"#,
        );
        s
    }

    fn ok(&mut self, command: &str) -> DocBuf {
        let reply = send(&self.server, &mut self.conn, "db", json(command).doc());
        assert_eq!(code(&reply), 0, "{command}: {reply:?}");
        reply
    }

    fn entries(&mut self) -> Vec<DocBuf> {
        batch(
            &self.ok(r#"{"aggregate": "c", "pipeline": [{"$planCacheStats": {}}], "cursor": {}}"#),
        )
    }

    fn is_cached(&mut self) -> bool {
        let reply = self.ok(&format!(r#"{{"explain": {BOTH}}}"#));
        let text = reply.doc().to_string();
        text.contains("winningPlan: { isCached: true")
    }
}

#[test]
fn a_plan_with_rivals_is_cached_and_activated_by_its_second_run() {
    let mut s = PlanServer::new();
    s.ok(&format!(r#"{{"explain": {BOTH}}}"#));
    assert!(s.entries().is_empty(), "explain leaves no trace");
    s.ok(r#"{"find": "c", "filter": {"a": 5}}"#);
    s.ok(r#"{"find": "c", "filter": {"_id": 5}}"#);
    s.ok(r#"{"find": "c", "filter": {"z": 5}}"#);
    assert!(s.entries().is_empty(), "nothing competed");

    s.ok(BOTH);
    let first = s.entries();
    let entry = first[0].doc();
    assert_eq!(first.len(), 1);
    assert_eq!(entry.field("isActive").as_bool(), Some(false));
    assert_eq!(
        int(&first[0], "works"),
        8,
        "four entries and as many documents"
    );
    assert!(!s.is_cached());
    let query = entry.field("createdFromQuery").to_string();
    assert_eq!(query, "{ query: { a: 5, b: 5 }, sort: {}, projection: {} }");
    let stages = entry.field("cachedPlan").to_string();
    assert!(stages.contains(r#"stage: "FETCH""#) && stages.contains(r#"indexName: "a""#));
    assert_eq!(
        entry.field("candidatePlanScores").to_string(),
        "[ 100.0, 100.0 ]"
    );

    // Another order of fields and other constants: the same shape.
    s.ok(r#"{"find": "c", "filter": {"b": 6, "a": 6}}"#);
    let second = s.entries();
    assert_eq!(second.len(), 1);
    assert_eq!(second[0].doc().field("isActive").as_bool(), Some(true));
    assert!(s.is_cached());
    let explained = s.ok(&format!(r#"{{"explain": {BOTH}}}"#)).doc().to_string();
    for field in ["planCacheKey", "planCacheShapeHash"] {
        let value = format!("{field}: {}", second[0].doc().field(field));
        assert!(explained.contains(&value), "{value} in {explained}");
    }
}

#[test]
fn an_active_plan_is_used_without_comparison_until_it_performs_badly() {
    let mut s = PlanServer::new();
    s.ok(BOTH);
    s.ok(BOTH);
    assert!(s.is_cached());
    // Ten times as much work: 20 documents have the value.
    let more: Vec<String> = (100..200)
        .map(|n| format!(r#"{{"_id": {n}, "a": 77}}"#))
        .collect();
    s.ok(&format!(
        r#"{{"insert": "c", "documents": [{}]}}"#,
        more.join(", ")
    ));
    let bad = r#"{"find": "c", "filter": {"a": 77, "b": 5}}"#;
    s.ok(bad);
    assert_eq!(
        s.entries()[0].doc().field("isActive").as_bool(),
        Some(false)
    );
}

#[test]
fn changes_of_indexes_and_clearing_forget() {
    let mut s = PlanServer::new();
    let sorted = r#"{"find": "c", "filter": {"a": 5, "b": 5}, "sort": {"z": 1}}"#;
    s.ok(BOTH);
    s.ok(sorted);
    assert_eq!(s.entries().len(), 2);
    s.ok(r#"{"planCacheClear": "c", "query": {"b": 1, "a": 1}, "sort": {"z": 1}}"#);
    assert_eq!(s.entries().len(), 1);
    s.ok(r#"{"planCacheClear": "c"}"#);
    assert!(s.entries().is_empty());
    for ddl in [
        r#"{"createIndexes": "c", "indexes": [{"key": {"y": 1}, "name": "y"}]}"#,
        r#"{"collMod": "c", "index": {"name": "y", "hidden": true}}"#,
        r#"{"dropIndexes": "c", "index": "y"}"#,
    ] {
        s.ok(BOTH);
        assert_eq!(s.entries().len(), 1);
        s.ok(ddl);
        assert!(s.entries().is_empty(), "{ddl}");
    }
    s.ok(BOTH);
    s.ok(r#"{"planCacheSetFilter": "c", "query": {"a": 1, "b": 1}, "indexes": ["b"]}"#);
    assert!(s.entries().is_empty(), "a filter was set");
    s.ok(r#"{"planCacheSetFilter": "c", "query": {"a": 1, "b": 1}, "indexes": ["a", "b"]}"#);
    s.ok(BOTH);
    let filtered = s.entries();
    assert_eq!(
        filtered[0].doc().field("indexFilterSet").as_bool(),
        Some(true)
    );
}

#[test]
fn writes_counts_and_pipelines_use_the_same_plans() {
    let mut s = PlanServer::new();
    s.ok(r#"{"count": "c", "query": {"a": 5, "b": 5}}"#);
    s.ok(r#"{"aggregate": "c", "pipeline": [{"$match": {"a": 5, "b": 5}}], "cursor": {}}"#);
    assert!(s.is_cached());
    s.ok(r#"{"update": "c", "updates": [{"q": {"a": 3, "b": 3}, "u": {"$set": {"n": 1}}}]}"#);
    s.ok(r#"{"delete": "c", "deletes": [{"q": {"a": 3, "b": 3}, "limit": 1}]}"#);
    assert_eq!(s.entries().len(), 1);
    s.ok(r#"{"distinct": "c", "key": "a", "query": {"a": {"$gt": 3}, "b": 5}}"#);
    assert_eq!(s.entries().len(), 2);
}

#[test]
fn no_more_than_a_thousand_shapes_are_kept() {
    let mut s = PlanServer::new();
    for n in 0..1100 {
        let projection = format!(r#""projection": {{"p{n}": 1}}"#);
        s.ok(&BOTH.replace(r#""find": "c","#, &format!(r#""find": "c", {projection},"#)));
    }
    let count = r#"{"aggregate": "c", "pipeline": [{"$planCacheStats": {}}, {"$count": "n"}],
        "cursor": {}}"#;
    assert_eq!(int(&batch(&s.ok(count))[0], "n"), 1000);
}
