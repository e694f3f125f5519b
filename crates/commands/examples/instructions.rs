//! Runs operations through the dispatcher over the engine in memory, to count instructions:
//! `valgrind --tool=cachegrind target/release/examples/instructions OPERATION ROUNDS`. The
//! difference between two numbers of rounds excludes the cost of the start.

use commands::{
    Config, Connection, Dispatcher, Outcome, Request, Service, StoreHooks, SystemClock, registry,
};
use model::{Binary, Doc, DocBuf, doc};
use std::sync::Arc;

/// Documents of the collection that is read.
const DOCS: i32 = 1000;
const LOG_BYTES: u64 = 64 << 20;

/// A server without sockets, and one connection.
struct Server {
    dispatcher: Dispatcher,
    conn: Connection,
    reply: Vec<u8>,
}

impl Server {
    fn start() -> Server {
        let clock = Arc::new(SystemClock::default());
        let hooks = Arc::new(StoreHooks::new(clock.clone()).with_log(LOG_BYTES));
        let engine = Arc::new(storage::MemoryEngine::new());
        let store = store::Store::open(engine, hooks).unwrap_or_else(|e| panic!("{}", e.message()));
        let service = Service::new(Config::default(), clock, Arc::new(store)).into_shared();
        let dispatcher = registry::dispatcher(service);
        let conn = dispatcher.connect("127.0.0.1:1");
        let mut server = Server {
            dispatcher,
            conn,
            reply: Vec::new(),
        };
        server.fill();
        server
    }

    fn fill(&mut self) {
        for coll in ["c", "w"] {
            self.run(
                doc! { "createIndexes": coll, "indexes": [
                    { "key": { "a": 1 }, "name": "a" }, { "key": { "b": 1 }, "name": "b" },
                    { "key": { "s": 1 }, "name": "s" }
                ], "$db": "db" }
                .doc(),
            );
        }
        for i in 0..DOCS {
            let document = document(i);
            self.run(doc! { "insert": "c", "documents": [document.doc()], "$db": "db" }.doc());
            let small = doc! { "_id": i, "text": "of the other side" };
            self.run(doc! { "insert": "other", "documents": [small.doc()], "$db": "db" }.doc());
        }
    }

    fn run(&mut self, command: Doc<'_>) {
        let request = Request {
            validated: true,
            ..Request::new(command)
        };
        self.reply.clear();
        let outcome = self
            .dispatcher
            .handle(&mut self.conn, &request, &mut self.reply);
        let is_reply = matches!(outcome, Outcome::Reply | Outcome::Durable(_));
        let reply = Doc::from_prefix(&self.reply);
        let is_well = reply.field("ok").truthy() && !reply.contains("writeErrors");
        assert!(is_reply && is_well, "{outcome:?}: {reply:?} to {command:?}");
    }

    fn operation(&mut self, name: &str, i: i32) {
        let at = i % DOCS;
        match name {
            "point-read" => {
                self.run(doc! { "find": "c", "filter": { "_id": at }, "$db": "db" }.doc());
            }
            "insert" => {
                let document = document(DOCS + i);
                self.run(doc! { "insert": "w", "documents": [document.doc()], "$db": "db" }.doc());
            }
            "update" => {
                let update =
                    doc! { "q": { "_id": at }, "u": { "$inc": { "n": 1 }, "$set": { "b": i } } };
                self.run(doc! { "update": "c", "updates": [update.doc()], "$db": "db" }.doc());
            }
            "transaction" => self.transaction(i),
            "find-by-index" => {
                self.run(doc! { "find": "c", "filter": { "a": at / 10 }, "$db": "db" }.doc());
            }
            "filter-scan" => {
                let filter = doc! { "n": { "$lt": -1 }, "t": "none" };
                self.run(doc! { "find": "c", "filter": filter.doc(), "$db": "db" }.doc());
            }
            "group" => {
                let group = doc! { "_id": "$g", "n": { "$sum": "$n" }, "count": { "$sum": 1 } };
                let stage = doc! { "$group": group.doc() };
                self.aggregate(stage.doc());
            }
            "lookup" => {
                let lookup = doc! {
                    "from": "other", "localField": "_id", "foreignField": "_id", "as": "o"
                };
                let stage = doc! { "$lookup": lookup.doc() };
                self.aggregate(stage.doc());
            }
            "count" => {
                self.run(doc! { "count": "c", "query": { "a": at / 10 }, "$db": "db" }.doc());
            }
            _ => panic!("no operation is called {name}"),
        }
    }

    fn aggregate(&mut self, stage: Doc<'_>) {
        let limit = doc! { "$limit": 100 };
        let cursor = DocBuf::new();
        self.run(
            doc! { "aggregate": "c", "pipeline": [limit.doc(), stage], "cursor": cursor.doc(),
            "$db": "db" }
            .doc(),
        );
    }

    /// A transaction that inserts two documents.
    fn transaction(&mut self, i: i32) {
        let id = [7; 16];
        let session = doc! { "id": Binary { subtype: 4, bytes: &id } };
        let number = i64::from(i) + 1;
        for part in 0..2 {
            let document = document(DOCS + 2 * i + part);
            let mut insert = doc! {
                "insert": "w", "documents": [document.doc()], "lsid": session.doc(),
                "txnNumber": number,
                "autocommit": false, "$db": "db"
            };
            if part == 0 {
                insert.put("startTransaction", true);
            }
            self.run(insert.doc());
        }
        self.run(
            doc! {
                "commitTransaction": 1, "lsid": session.doc(), "txnNumber": number,
                "autocommit": false, "$db": "admin"
            }
            .doc(),
        );
    }
}

fn document(i: i32) -> DocBuf {
    doc! {
        "_id": i, "a": i / 10, "b": i.wrapping_mul(7919), "s": format!("name {i:08}").as_str(),
        "g": i % 10, "n": i,
        "t": "a text of some length"
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_default();
    let rounds = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(0);
    let mut server = Server::start();
    (0..rounds).for_each(|i| server.operation(&name, i));
}
