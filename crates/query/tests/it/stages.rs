//! Pipelines over the host in memory: what the recorded cases do not reach (spilling, batches, limits).

use crate::memory_host::MemoryHost;
use model::{DocBuf, Namespace, doc};
use operators::Env;
use operators::expr::ParseCx;
use query::pipeline::{ParseOptions, Pipeline, Rt};

fn ns() -> Namespace {
    Namespace::new("db", "c").unwrap()
}

/// Runs `{p: [stages]}` and shows the documents; an error shows as its code.
pub fn run(host: &MemoryHost, spec: &DocBuf) -> Vec<String> {
    let env = Env::new(0, 1);
    let parsed = Pipeline::parse_value(&mut ParseCx::new(&env), spec.doc().field("p"), &ParseOptions::collection(ns()));
    match parsed.and_then(|p| p.run_to_end(&Rt::new(&env, host))) {
        Ok(docs) => docs.iter().map(|d| format!("{d:?}")).collect(),
        Err(e) => vec![e.code().to_string()],
    }
}

fn numbers(n: i32) -> MemoryHost {
    let host = MemoryHost::default();
    for i in 0..n {
        host.insert(&ns(), doc! { "_id": i, "k": (i * 7919) % n, "pad": "x".repeat(50).as_str() }).unwrap();
    }
    host
}

#[test]
fn a_sort_past_its_budget_spills_and_stays_sorted() {
    let mut host = numbers(2000);
    let spec = doc! { "p": [{ "$sort": { "k": 1i32 } }] };
    let whole = run(&host, &spec);
    host.memory_limit_bytes = Some(20_000);
    assert_eq!(run(&host, &spec), whole);
    let keys: Vec<i64> = (0..2000).collect();
    let found: Vec<i64> = whole.iter().map(|d| d.split("k: ").nth(1).unwrap().split(',').next().unwrap().parse().unwrap()).collect();
    assert_eq!(found, keys);
}

#[test]
fn a_sort_with_a_limit_keeps_the_first_of_equals() {
    let host = MemoryHost::default();
    for i in 0..1000 {
        host.insert(&ns(), doc! { "_id": i, "k": i % 3 }).unwrap();
    }
    let spec = doc! { "p": [{ "$sort": { "k": -1i32 } }, { "$limit": 3i32 }] };
    assert_eq!(run(&host, &spec), ["{ _id: 2, k: 2 }", "{ _id: 5, k: 2 }", "{ _id: 8, k: 2 }"]);
}

#[test]
fn skip_and_limit_cut_across_batches() {
    let host = numbers(20);
    let spec = doc! { "p": [{ "$skip": 4i32 }, { "$limit": 5i32 }, { "$skip": 3i32 }, { "$count": "n" }] };
    assert_eq!(run(&host, &spec), ["{ n: 2 }"]);
}

#[test]
fn positions_and_shapes_are_checked() {
    let host = MemoryHost::default();
    for (spec, want) in [
        (doc! { "p": [1i32] }, "14"),
        (doc! { "p": 1i32 }, "14"),
        (doc! { "p": [{}] }, "40323"),
        (doc! { "p": [{ "$limit": 1i32, "$skip": 1i32 }] }, "40323"),
        (doc! { "p": [{ "$nope": 1i32 }] }, "40324"),
        (doc! { "p": [{ "$limit": -1i32 }, { "$nope": 1i32 }] }, "40324"),
        (doc! { "p": [{ "$limit": 0i32 }] }, "15958"),
    ] {
        assert_eq!(run(&host, &spec), [want], "{spec:?}");
    }
}
