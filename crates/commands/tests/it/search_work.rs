//! Searches are operations like any other: currentOp shows them, killOp and time limits end them,
//! and they are explained and counted.

use crate::interrupts::{check_prompt, code, start};
use crate::search::{Server, aggregate};
use model::{Doc, DocBuf, Value, doc};
use std::time::Instant;

/// So many documents that highlighting them all takes seconds.
fn start_filled() -> Server {
    let mut s = Server::new();
    let words = "a fox runs through the wood and over the hill. ".repeat(60);
    for begin in (0..6000).step_by(500) {
        let docs: Vec<DocBuf> = (begin..begin + 500)
            .map(|n: i32| doc! { "_id": n, "t": words.as_str(), "v": [f64::from(n), 1.0] })
            .collect();
        s.insert(&docs);
    }
    let fields = doc! { "t": { "type": "string" } };
    s.create(doc! { "definition": { "mappings": { "fields": &fields } } });
    let vectors = doc! { "fields": [{ "type": "vector", "path": "v", "numDimensions": 2i32,
    "similarity": "euclidean" }] };
    s.create(doc! { "name": "vectors", "type": "vectorSearch", "definition": &vectors });
    s.wait_ready("default");
    s.wait_ready("vectors");
    s
}

/// A search that highlights every document in one batch.
fn long_search() -> DocBuf {
    let search = doc! { "$search": { "text": { "path": "t", "query": "fox" },
    "highlight": { "path": "t" } } };
    let shown = doc! { "$project": { "h": { "$meta": "searchHighlights" } } };
    doc! { "aggregate": "c", "pipeline": [&search, &shown, { "$match": { "_id": -1i32 } }],
    "cursor": {} }
}

fn with_field(command: &DocBuf, field: &str, v: Value<'_>) -> DocBuf {
    DocBuf::build(|w| {
        w.put_all(command.doc());
        w.put(field, v);
    })
}

#[test]
fn a_search_is_ended_seen_and_counted() {
    let mut s = start_filled();
    let before = figures(&mut s);
    assert_eq!(before.doc().field("documents").as_i64_exact(), Some(12_000));
    let ready = before
        .doc()
        .field("indexes")
        .as_doc()
        .expect("indexes")
        .field("ready");
    assert_eq!(ready.as_i64_exact(), Some(2));
    let began = Instant::now();
    let reply = s.run(&with_field(&long_search(), "maxTimeMS", Value::Int32(60)));
    assert_eq!(code(&reply), 50, "{reply:?}");
    assert!(began.elapsed().as_millis() < 2000);
    let dispatcher = s.dispatcher().clone();
    let (running, opid) = start(&dispatcher, long_search(), None);
    let signal = Instant::now();
    let killed = doc! { "killOp": 1i32, "op": opid, "$db": "admin" };
    s.ok(&killed);
    let reply = check_prompt(running, signal, "a search");
    assert_eq!(code(&reply), 11_601, "{reply:?}");
    let near = doc! { "$vectorSearch": { "index": "vectors", "path": "v",
    "queryVector": [3.0, 1.0], "exact": true, "limit": 1i32 } };
    let found = s.aggregate("c", &[near]);
    assert_eq!(found[0].doc().field("_id").as_i64_exact(), Some(3));
    let bad = doc! { "$search": { "text": { "path": "t" } } };
    assert_eq!(s.code(&aggregate("c", &[bad])), 8);
    let after = figures(&mut s);
    let grown = |name: &str| {
        let of = |d: &DocBuf| d.doc().field(name).as_i64_exact().unwrap_or(-1);
        of(&after) - of(&before)
    };
    assert_eq!(grown("searches"), 4);
    assert_eq!(grown("searchesFailed"), 1);
    assert!(grown("searchMicros") > 0);
}

/// `serverStatus.quarry.search`.
fn figures(s: &mut Server) -> DocBuf {
    let status = s.ok(&doc! { "serverStatus": 1i32 });
    let quarry = status.doc().field("quarry").as_doc().expect("a section");
    quarry
        .field("search")
        .as_doc()
        .unwrap_or(Doc::EMPTY)
        .to_buf()
}

#[test]
fn a_search_is_explained() {
    let mut s = Server::new();
    s.insert(&[
        doc! { "_id": 1i32, "t": "fox" },
        doc! { "_id": 2i32, "t": "dog" },
    ]);
    s.create(doc! { "definition": { "mappings": { "dynamic": true } } });
    s.wait_ready("default");
    let search = doc! { "$search": { "text": { "path": "t", "query": "fox" } } };
    let aggregate = aggregate("c", &[search.clone(), doc! { "$limit": 5i32 }]);
    let explained = s.ok(&doc! { "explain": &aggregate, "verbosity": "executionStats" });
    let stages = explained.doc().field("stages").as_array().expect("stages");
    let first = stages.get(0).and_then(|v| Some(v.as_doc()?.to_buf()));
    let first = first.expect("a stage");
    let shown = first.doc().field("$search").as_doc().expect("the search");
    assert_eq!(
        shown.field("text").as_doc(),
        search
            .doc()
            .field("$search")
            .as_doc()
            .and_then(|d| d.field("text").as_doc())
    );
    assert_eq!(
        first.doc().field("nReturned").as_i64_exact(),
        Some(1),
        "{explained:?}"
    );
    // Without execution statistics, the search is not run.
    let planned = s.ok(&doc! { "explain": &aggregate, "verbosity": "queryPlanner" });
    let stages = planned.doc().field("stages").as_array().expect("stages");
    let first = stages.get(0).and_then(|v| Some(v.as_doc()?.to_buf()));
    assert!(!first.expect("a stage").doc().contains("nReturned"));
}
