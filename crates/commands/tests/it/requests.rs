//! How often a query calls the engine: once for many rows, and once for each row.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use commands::{Config, Dispatcher, StoreHooks, SystemClock};
use model::{DocBuf, doc};
use storage::observe::{Call, ObservedEngine, Observer};
use storage::{Caps, MemoryEngine, Table};

use crate::behaviour::{send, serve};

/// Counts reads of documents and of index entries; each is a request.
#[derive(Default)]
struct RequestCounter {
    all: AtomicU64,
    /// Those of documents by their keys.
    by_key: AtomicU64,
}

impl Observer for RequestCounter {
    fn before_call(&self, call: &Call<'_>, _: &Caps) -> storage::Result<()> {
        let is_read = match call {
            Call::Get { table, .. } | Call::MultiGet { table, .. } => {
                matches!(table, Table::Doc | Table::Idx)
            }
            Call::Visit { .. } => true,
            _ => false,
        };
        self.all.fetch_add(u64::from(is_read), Ordering::Relaxed);
        let by_key = matches!(
            call,
            Call::MultiGet {
                table: Table::Doc,
                ..
            }
        );
        self.by_key.fetch_add(u64::from(by_key), Ordering::Relaxed);
        Ok(())
    }
}

struct CountingServer {
    engine: Arc<ObservedEngine<RequestCounter>>,
    server: Arc<Dispatcher>,
}

impl CountingServer {
    fn start_on(engine: MemoryEngine) -> CountingServer {
        let engine = Arc::new(ObservedEngine::new(
            Arc::new(engine),
            RequestCounter::default(),
        ));
        let hooks = Arc::new(StoreHooks::new(Arc::new(SystemClock::default())));
        let store = store::Store::open(engine.clone(), hooks).unwrap();
        let server = serve(Config::default(), Arc::new(store));
        let counted = CountingServer { engine, server };
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
        let before = self.engine.observer().all.load(Ordering::Relaxed);
        let reply = self.run(command);
        let reads = self.engine.observer().all.load(Ordering::Relaxed) - before;
        let cursor = reply.doc().field("cursor").as_doc().unwrap();
        let batch = cursor.field("firstBatch").as_array().unwrap();
        (batch.iter().count(), reads)
    }
}

#[test]
fn a_hundred_documents_by_an_index_are_two_requests() {
    let remote = CountingServer::start_on(MemoryEngine::remote(128));
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
fn a_query_draws_no_sample_of_many_documents_on_another_machine() {
    let remote = CountingServer::start_on(MemoryEngine::remote(128));
    let all = || remote.engine.observer().all.load(Ordering::Relaxed);
    // Plans are compared: by the index in this order, or by a scan.
    let sorted = doc! { "find": "c", "filter": { "a": { "$gte": 1i32 }, "b": 7i32 },
    "sort": { "a": 1i32 }, "limit": 1i32 };
    let before = all();
    remote.run(&sorted);
    let reads = all() - before;
    assert!(reads <= 10, "{reads} requests");
}

#[test]
fn a_find_of_one_document_reads_one_document() {
    let near = CountingServer::start_on(MemoryEngine::new());
    let remote = CountingServer::start_on(MemoryEngine::remote(128));
    let one = doc! { "find": "c", "filter": { "a": 3i32 }, "limit": 1i32 };
    for counted in [&near, &remote] {
        let explain = doc! { "explain": { "find": "c", "filter": { "a": 3i32 }, "limit": 1i32 } };
        let reply = counted.run(&explain);
        let stats = reply.doc().field("executionStats").as_doc().unwrap();
        assert_eq!(stats.field("totalDocsExamined").as_i64_exact(), Some(1));
        assert_eq!(counted.reads_of(&one).0, 1);
    }
}

#[test]
fn a_reader_without_an_order_reads_each_document_once() {
    let near = CountingServer::start_on(MemoryEngine::new());
    // The ids descend, so that the order of insertion is not that of the keys.
    near.run(&DocBuf::build(|w| {
        w.put("insert", "descending");
        let mut list = w.array("documents");
        for n in 0..1000i32 {
            list.push(&doc! { "_id": 1000 - n, "a": n / 100, "b": n % 50 });
        }
    }));
    let by_key = || near.engine.observer().by_key.load(Ordering::Relaxed);
    let group = |id: &str, n: DocBuf| {
        doc! { "aggregate": "descending", "cursor": {},
        "pipeline": [{ "$group": { "_id": id, "n": n.doc() } }] }
    };
    let before = by_key();
    let sum = near.run(&group("all", doc! { "$sum": "$b" }));
    let count = near.run(&doc! { "count": "descending", "query": { "b": { "$gte": 49i32 } } });
    assert_eq!(by_key() - before, 0, "reads by key");
    let one = |reply: &DocBuf| {
        let cursor = reply.doc().field("cursor").as_doc().unwrap();
        let batch = cursor.field("firstBatch").as_array().unwrap();
        batch
            .iter()
            .next()
            .unwrap()
            .as_doc()
            .unwrap()
            .field("n")
            .as_i64_exact()
    };
    assert_eq!(one(&sum), Some(20 * (0..50).sum::<i64>()));
    assert_eq!(count.doc().field("n").as_i64_exact(), Some(20));
    // The first document and the order of the groups depend on the order of insertion.
    let first = near.run(&group("all", doc! { "$first": "$a" }));
    assert_eq!(one(&first), Some(0));
    let groups = near.run(&group("$a", doc! { "$sum": "$a" }));
    assert_eq!(one(&groups), Some(0));
    assert!(by_key() - before > 0);
}
