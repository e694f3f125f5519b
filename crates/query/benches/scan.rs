//! The cost of a document in a scan that finds nothing, through planner, scan and matcher over the
//! memory engine: `cargo bench -p quarry-query --bench scan`. `QUARRY_PASSES=n` runs n scans and
//! ends, for counting instructions.

use divan::counter::ItemsCount;
use model::{DocBuf, Namespace, doc};
use operation::{Operation, SystemClock};
use operators::Env;
use operators::expr::ParseCx;
use query::exec::MatchFilter;
use query::physical::each_match;
use query::plan::{PlanRequest, plan_read};
use std::sync::Arc;
use storage::MemoryEngine;
use store::{Collection, NoHooks, Store};

const DOCS: i32 = 20_000;

fn main() {
    if let Some(passes) = std::env::var("QUARRY_PASSES")
        .ok()
        .and_then(|n| n.parse::<usize>().ok())
    {
        let c = collection();
        let found: usize = (0..passes).map(|_| scan(&c, &empty_filter())).sum();
        println!("{found} matches of {} documents", passes * DOCS as usize);
        return;
    }
    divan::main();
}

fn collection() -> Arc<Collection> {
    let store = Store::open(Arc::new(MemoryEngine::new()), Arc::new(NoHooks)).unwrap();
    let operation = Operation::new_detached(Arc::new(SystemClock::default()));
    let c = store
        .writer(&operation)
        .create_collection(&Namespace::new("db", "c").unwrap(), DocBuf::new(), [0; 16])
        .unwrap();
    for n in 0..DOCS {
        let d = doc! { "_id": n, "n": n, "group": n % 100, "name": format!("name-{n:06}").as_str(),
            "price": f64::from(n) / 4.0,
        "active": n % 2 == 0, "count": i64::from(n) * 3, "city": "Oslo", "text": "something of a \
            certain length", "last": n % 1000 };
        c.writer(&operation).insert(&[d.doc()], true).unwrap();
    }
    c
}

fn empty_filter() -> DocBuf {
    doc! { "last": -1i32 }
}

fn scan(c: &Arc<Collection>, spec: &DocBuf) -> usize {
    let env = Env::new(0, 1);
    let f = MatchFilter::parse(&mut ParseCx::new(&env), spec.doc()).unwrap();
    let plan = plan_read(
        c,
        &PlanRequest {
            filter: Some(&f),
            ..PlanRequest::default()
        },
    )
    .unwrap();
    let mut found = 0;
    each_match(c, &plan, Some(&f), &env, &mut |_| {
        found += 1;
        Ok(true)
    })
    .unwrap();
    found
}

#[divan::bench]
fn finds_nothing(b: divan::Bencher<'_, '_>) {
    let (c, spec) = (collection(), empty_filter());
    b.counter(ItemsCount::new(DOCS as usize))
        .bench_local(|| scan(&c, &spec));
}

#[divan::bench]
fn finds_all(b: divan::Bencher<'_, '_>) {
    let (c, spec) = (collection(), doc! { "n": { "$gte": 0i32 } });
    b.counter(ItemsCount::new(DOCS as usize))
        .bench_local(|| scan(&c, &spec));
}
