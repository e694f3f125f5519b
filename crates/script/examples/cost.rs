//! The cost of `$where` per document compared with the native filter, and the cost of a context:
//! `cargo run --release -p quarry-script --example cost`.

use model::{Bump, DocBuf, Value, doc};
use operators::Env;
use operators::expr::ParseCx;
use operators::filter::Filter;
use script::Engine;
use std::sync::Arc;
use std::time::{Duration, Instant};

const DOCUMENTS: i32 = 20_000;
const ROUNDS: usize = 5;

fn documents() -> Vec<DocBuf> {
    (0..DOCUMENTS)
        .map(|i| {
            doc! { "_id": model::ObjectId([i as u8; 12]), "n": i % 1000, "name": "a customer",
            "city": "somewhere", "at": Value::Date(i64::from(i)), "price": 12.5, "open": true,
            "count": Value::Int64(i64::from(i)), "tags": ["a", "b", "c"], "note": "x",
            "address": { "street": "s", "number": 7i32, "zip": "12345" }, "f": 1i32, "g": 2i32,
            "h": 3i32, "i": 4i32 }
        })
        .collect()
}

/// The shortest time per document of a few rounds, and the number of matches.
fn measure(docs: &[DocBuf], env: &Env, filter: &str) -> (Duration, usize) {
    let parsed = match filter.strip_prefix("native:") {
        Some(_) => doc! { "n": { "$gt": 500i32 } },
        None => doc! { "$where": filter },
    };
    let parsed = Filter::parse(&mut ParseCx::of_query(env), parsed.doc()).expect("a filter");
    let mut best = (Duration::MAX, 0);
    for _ in 0..ROUNDS {
        let (begun, mut matched, mut arena) = (Instant::now(), 0, Bump::new());
        for d in docs {
            arena.reset();
            matched += usize::from(parsed.matches(d.doc(), &arena, env).expect("a match"));
        }
        best = best.min((begun.elapsed() / DOCUMENTS as u32, matched));
    }
    best
}

fn main() {
    let docs = documents();
    let engine = Arc::new(Engine::new("8.2.0", Box::new(|_, _| {})));
    let new_env = || {
        let mut env = Env::new(0, 1);
        env.scripts = Some(engine.clone());
        env
    };
    println!(
        "{DOCUMENTS} documents of {} bytes",
        docs[0].as_bytes().len()
    );
    for filter in [
        "native: {n: {$gt: 500}}",
        "this.n > 500",
        "function() { return this.n > 500 && this.address.zip == '12345' }",
        "function() { var d = this; return d.n > 500 }",
        "Object.keys(this).length > 3",
    ] {
        let (each, matched) = measure(&docs, &new_env(), filter);
        println!("{:>8} ns  {matched:>6} match  {filter}", each.as_nanos());
    }
    let begun = Instant::now();
    let contexts = 200;
    for _ in 0..contexts {
        measure_one(&docs[0], &new_env());
    }
    println!(
        "{:>8} ns  a new context, its prelude and one call",
        (begun.elapsed() / contexts).as_nanos()
    );
}

fn measure_one(d: &DocBuf, env: &Env) {
    let filter = doc! { "$where": "this.n > 500" };
    let filter = Filter::parse(&mut ParseCx::of_query(env), filter.doc()).expect("a filter");
    filter.matches(d.doc(), &Bump::new(), env).expect("a match");
}
