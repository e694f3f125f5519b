//! How often a query calls an engine on another machine: once for many rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use commands::{Config, Dispatcher, StoreHooks, SystemClock};
use model::{DocBuf, doc};
use storage::observe::{Call, Observed, Observer};
use storage::{Caps, MemoryEngine, Table};

use crate::behaviour::{send, serve};

/// Counts reads of documents and of index entries; each is a request.
#[derive(Default)]
struct Reads(AtomicU64);

impl Observer for Reads {
    fn before(&self, call: &Call<'_>, _: &Caps) -> storage::Result<()> {
        let is_read = match call {
            Call::Get { table, .. } | Call::MultiGet { table, .. } => {
                matches!(table, Table::Doc | Table::Idx)
            }
            Call::Visit { .. } => true,
            _ => false,
        };
        self.0.fetch_add(u64::from(is_read), Ordering::Relaxed);
        Ok(())
    }
}

struct Counted {
    engine: Arc<Observed<Reads>>,
    server: Arc<Dispatcher>,
}

impl Counted {
    fn over(engine: MemoryEngine) -> Counted {
        let engine = Arc::new(Observed::new(Arc::new(engine), Reads::default()));
        let hooks = Arc::new(StoreHooks::new(Arc::new(SystemClock::default())));
        let store = store::Store::open(engine.clone(), hooks).unwrap();
        let server = serve(Config::default(), Arc::new(store));
        let counted = Counted { engine, server };
        let index = doc! { "createIndexes": "c",
        "indexes": [{ "key": { "a": 1i32 }, "name": "a_1" }] };
        counted.run(&index);
        let insert = DocBuf::build(|w| {
            w.put("insert", "c");
            let mut list = w.array("documents");
            for n in 0..1000i32 {
                list.push(&doc! { "_id": n, "a": n / 100, "b": n % 50 });
            }
        });
        counted.run(&insert);
        counted
    }

    fn run(&self, command: &DocBuf) -> DocBuf {
        let mut connection = self.server.connect("127.0.0.1:1");
        let reply = send(&self.server, &mut connection, "d", command.doc());
        assert!(reply.doc().field("ok").truthy(), "{:?}", reply.doc());
        reply
    }

    /// The number of documents in a command's first batch, and how many requests it needs. The
    /// second run is measured, because the first one also chooses the plan.
    fn reads_of(&self, command: &DocBuf) -> (usize, u64) {
        self.run(command);
        let before = self.engine.observer().0.load(Ordering::Relaxed);
        let reply = self.run(command);
        let reads = self.engine.observer().0.load(Ordering::Relaxed) - before;
        let cursor = reply.doc().field("cursor").as_doc().unwrap();
        let batch = cursor.field("firstBatch").as_array().unwrap();
        (batch.iter().count(), reads)
    }
}

#[test]
fn a_hundred_documents_by_an_index_are_two_requests() {
    let remote = Counted::over(MemoryEngine::remote(128));
    let by_index = doc! { "find": "c", "filter": { "a": 3i32 }, "batchSize": 101i32 };
    assert_eq!(remote.reads_of(&by_index), (100, 2));
    let filtered = doc! { "find": "c", "filter": { "a": 3i32, "b": 49i32 }, "limit": 2i32,
    "batchSize": 101i32 };
    assert_eq!(remote.reads_of(&filtered), (2, 2));
    let by_ids = DocBuf::build(|w| {
        w.put("find", "c");
        let mut filter = w.doc("filter");
        let mut id = filter.doc("_id");
        let mut list = id.array("$in");
        for n in 0..100i32 {
            list.push(n * 7);
        }
    });
    assert_eq!(remote.reads_of(&by_ids), (100, 1));
}

#[test]
fn a_find_of_one_document_reads_one_document() {
    let near = Counted::over(MemoryEngine::new());
    let remote = Counted::over(MemoryEngine::remote(128));
    let one = doc! { "find": "c", "filter": { "a": 3i32 }, "limit": 1i32 };
    for counted in [&near, &remote] {
        let explain = doc! { "explain": { "find": "c", "filter": { "a": 3i32 }, "limit": 1i32 } };
        let reply = counted.run(&explain);
        let stats = reply.doc().field("executionStats").as_doc().unwrap();
        assert_eq!(stats.field("totalDocsExamined").as_i64_exact(), Some(1));
        assert_eq!(counted.reads_of(&one).0, 1);
    }
}
