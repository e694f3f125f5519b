//! Point reads through the dispatcher over the engine in memory, for counting instructions:
//! `perf stat -e instructions:u target/release/examples/point_reads 1000000`.

use commands::{Config, Outcome, Request, Service, StoreHooks, SystemClock, registry};
use model::doc;
use std::sync::Arc;

fn main() {
    let asked = std::env::args().nth(1).and_then(|n| n.parse().ok());
    let rounds: i32 = asked.unwrap_or(100_000);
    let clock = Arc::new(SystemClock::default());
    let hooks = Arc::new(StoreHooks::new(clock.clone()));
    let engine = Arc::new(storage::MemoryEngine::new());
    let store = store::Store::open(engine, hooks).unwrap_or_else(|e| panic!("{}", e.message()));
    let service = Service::new(Config::default(), clock, Arc::new(store)).into_shared();
    let dispatcher = registry::dispatcher(service);
    let mut conn = dispatcher.connect("127.0.0.1:1");
    let mut reply = Vec::new();
    for i in 0..1000i32 {
        let insert = doc! { "insert": "c", "documents": [{ "_id": i, "a": i }], "$db": "db" };
        dispatcher.handle(&mut conn, &Request::new(insert.doc()), &mut reply);
    }
    for i in 0..rounds {
        let find = doc! { "find": "c", "filter": { "_id": i % 1000 }, "$db": "db" };
        let request = Request {
            validated: true,
            ..Request::new(find.doc())
        };
        reply.clear();
        let outcome = dispatcher.handle(&mut conn, &request, &mut reply);
        assert!(matches!(outcome, Outcome::Reply), "{outcome:?}");
    }
    println!("{rounds} reads, {} bytes in the last reply", reply.len());
}
