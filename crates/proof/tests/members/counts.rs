//! Requests to the stores and to the oracle of each operation, through the commands of a server
//! that writes beside others. They are those that the client counts, on an idle cluster of one
//! region. Prints a table.

use std::collections::BTreeMap;
use std::sync::Arc;

use commands::{
    Config as ServerConfig, Connection, Dispatcher, Link, Outcome, Request, Service, StoreHooks,
    SystemClock, registry,
};
use engine_tikv::{Config, TikvMember};
use model::{DocBuf, doc};
use storage::{Engine, StatSink};
use store::{LogKeeper, Store};

use crate::{Cluster, take_turn};

/// Each operation is done this many times: renewals of the lease count, too.
const TIMES: i32 = 40;
/// For those renewals, and for the removal of locks by other requests.
const SLACK: f64 = 0.3;

pub(crate) struct Server {
    pub(crate) engine: Arc<TikvMember>,
    dispatcher: Dispatcher,
    conn: Connection,
    _keeper: Option<LogKeeper>,
}

/// A client that does not go away.
struct Present;

impl Link for Present {
    fn wake(&self) {}

    fn is_gone(&self) -> bool {
        false
    }
}

fn connect(dispatcher: &Dispatcher) -> Connection {
    dispatcher.connect_linked("127.0.0.1:50000", Some(Arc::new(Present)))
}

/// Requests by kind.
type Counts = BTreeMap<String, i64>;

impl Server {
    pub(crate) fn join(cluster: &Cluster) -> Server {
        Server::join_with(cluster, |hooks| hooks)
    }

    fn join_with(cluster: &Cluster, make: impl Fn(StoreHooks) -> StoreHooks) -> Server {
        // Nobody moves the safe point, which takes requests, too.
        let config = Config {
            keep_versions: None,
            ..cluster.new_database()
        };
        let engine = TikvMember::join(&config).expect("a member joins");
        let engine = Arc::new(engine);
        let clock = || Arc::new(SystemClock::default());
        let hooks = Arc::new(make(StoreHooks::new(clock())));
        let store = Store::join(engine.clone(), hooks).expect("a store");
        let keeper = store.keep_log();
        let service = Service::new(ServerConfig::default(), clock(), Arc::new(store));
        service.state.load(&service.store).expect("the settings");
        let dispatcher = registry::dispatcher(service.into_shared());
        Server {
            engine,
            conn: connect(&dispatcher),
            dispatcher,
            _keeper: keeper,
        }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.dispatcher.service().store
    }

    /// Goes on with a new connection; the output is the one before, which is idle.
    pub(crate) fn reconnect(&mut self) -> Connection {
        let new = connect(&self.dispatcher);
        std::mem::replace(&mut self.conn, new)
    }

    pub(crate) fn send(&mut self, command: &DocBuf) -> DocBuf {
        let mut body = command.clone();
        if !body.doc().contains("$db") {
            body.put("$db", "db");
        }
        let mut reply = Vec::new();
        let mut request = Request::new(body.doc());
        loop {
            match self.dispatcher.handle(&mut self.conn, &request, &mut reply) {
                Outcome::Reply | Outcome::Durable(_) => break,
                Outcome::Wait { .. } => request.waited = true,
                other => panic!("{other:?} to {command:?}"),
            }
        }
        let reply = DocBuf::from_bytes(reply).expect("one document");
        let is_ok = reply.doc().field("ok").as_f64() == Some(1.0);
        let failed = reply.doc().contains("writeErrors");
        assert!(is_ok && !failed, "{:?} to {command:?}", reply.doc());
        reply
    }

    fn counts(&self) -> Counts {
        let mut counts = Counts::new();
        let add = &mut |name: &str, n: i64| {
            if let Some(kind) = name.strip_prefix("requests.") {
                counts.insert(kind.to_owned(), n);
            }
        };
        let mut sink: &mut StatSink<'_> = add;
        self.engine.stats(&mut sink);
        counts
    }
}

/// Requests of one operation on average.
pub(crate) struct Cost {
    pub(crate) stores: f64,
    pub(crate) oracle: f64,
    pub(crate) kinds: String,
}

/// Runs `operate` several times and counts.
pub(crate) fn measure(server: &mut Server, mut operate: impl FnMut(&mut Server, i32)) -> Cost {
    // What it keeps in memory is read now.
    operate(server, 0);
    let before = server.counts();
    (1..=TIMES).for_each(|n| operate(server, n));
    let mut cost = Cost {
        stores: 0.0,
        oracle: 0.0,
        kinds: String::new(),
    };
    for (kind, after) in server.counts() {
        let each = (after - before.get(&kind).unwrap_or(&0)) as f64 / f64::from(TIMES);
        if each < 0.1 {
            continue;
        }
        match kind.as_str() {
            "pd_get_timestamp" => cost.oracle += each,
            // Other questions to PD are about regions and are kept.
            kind if kind.starts_with("pd_") => {}
            _ => cost.stores += each,
        }
        cost.kinds += &format!(" {kind} {each:.2}");
    }
    cost
}

fn documents(from: i32, count: i32) -> Vec<DocBuf> {
    (from..from + count)
        .map(|n| doc! { "_id": n, "a": n, "b": n % 10, "c": n + 5 })
        .collect()
}

fn insert(docs: &[DocBuf]) -> DocBuf {
    DocBuf::build(|command| {
        command.put("insert", "c");
        let mut documents = command.array("documents");
        docs.iter().for_each(|doc| _ = documents.push(doc));
    })
}

fn update(n: i32, field: &str) -> DocBuf {
    let change = doc! { field: 1i32 };
    doc! { "update": "c", "updates": [{ "q": { "_id": n }, "u": { "$inc": change.doc() } }] }
}

#[test]
fn each_operation_takes_few_requests() {
    let Some(cluster) = Cluster::open() else {
        return;
    };
    let _turn = take_turn();
    let mut server = Server::join(&cluster);
    server.send(&doc! { "createIndexes": "c", "indexes": [
        { "key": { "a": 1i32 }, "name": "a" },
        { "key": { "b": 1i32 }, "name": "b" },
        { "key": { "c": 1i32 }, "name": "c" },
    ] });
    server.send(&insert(&documents(0, 1000)));
    let mut table = Vec::new();
    let mut row = |name: &'static str, bounds: [f64; 2], cost: Cost| {
        println!(
            "{name:32} stores {:5.2} of {:4} oracle {:5.2} of {:4} {}",
            cost.stores, bounds[0], cost.oracle, bounds[1], cost.kinds
        );
        table.push((name, bounds, cost));
    };
    let cost = measure(&mut server, |server, n| {
        let found = server.send(&doc! { "find": "c", "filter": { "_id": n } });
        assert_eq!(batch_len(&found), 1);
    });
    row("read by _id", [1.0, 1.0], cost);
    let cost = measure(&mut server, |server, n| {
        server.send(&insert(&documents(2000 + n, 1)));
    });
    row("insert, three indexes", [3.0, 2.0], cost);
    let cost = measure(&mut server, |server, n| {
        let done = server.send(&update(n, "x"));
        assert_eq!(done.doc().field("nModified").as_i64_exact(), Some(1));
    });
    row("update by _id", [3.0, 2.0], cost);
    let cost = measure(&mut server, |server, n| {
        let find = doc! { "find": "c", "filter": { "b": n % 10 }, "limit": 100i32 };
        assert_eq!(batch_len(&server.send(&find)), 100);
    });
    row("find of 100 by an index", [3.0, 1.0], cost);
    let cost = measure(&mut server, |server, n| {
        transfer(server, i64::from(n) + 1);
    });
    row("transaction of ten writes", [27.0, 12.0], cost);
    for (name, [stores, oracle], cost) in table {
        let is_within = cost.stores <= stores + SLACK && cost.oracle <= oracle + SLACK;
        assert!(is_within, "{name}: {} {}", cost.stores, cost.oracle);
    }
}

/// What a client that writes one document after the other costs more with a log of changes: what
/// several commits have logged is published together.
#[test]
fn the_log_of_changes_takes_few_requests() {
    let Some(cluster) = Cluster::open() else {
        return;
    };
    let _turn = take_turn();
    let mut server = Server::join_with(&cluster, |hooks| hooks.with_log(1 << 30));
    server.send(&insert(&documents(0, 10)));
    let cost = measure(&mut server, |server, n| {
        server.send(&insert(&documents(2000 + n, 1)));
    });
    println!(
        "an insert with a log: {} {} {}",
        cost.stores, cost.oracle, cost.kinds
    );
    assert!(cost.stores <= 5.0 && cost.oracle <= 3.0);
    let cost = measure(&mut server, |server, n| {
        server.send(&insert(&documents(5000 + n * 100, 100)));
    });
    println!(
        "100 inserts with a log: {} {} {}",
        cost.stores, cost.oracle, cost.kinds
    );
    assert!(cost.stores <= 8.0 && cost.oracle <= 4.0);
    let status = server.send(&doc! { "serverStatus": 1i32, "$db": "admin" });
    let quarry = status.doc().field("quarry").as_doc().expect("a section");
    let figure = |section: &str, name: &str| {
        let section = quarry.field(section).as_doc().expect("a section");
        section.field(name).as_f64().expect("a number")
    };
    assert!(figure("log", "unpublishedSeconds") < 5.0);
    assert!((1.0..=10_000.0).contains(&figure("engine", "lease.left_ms")));
    assert_eq!(figure("engine", "commits.looked_up"), 0.0);
}

fn batch_len(reply: &DocBuf) -> usize {
    let cursor = reply.doc().field("cursor").as_doc();
    let batch = cursor.and_then(|cursor| cursor.field("firstBatch").as_array());
    batch.map_or(0, |batch| batch.iter().count())
}

/// Ten updates of different documents in a transaction.
fn transfer(server: &mut Server, number: i64) {
    let statement = |mut command: DocBuf| {
        let id = model::Value::Binary(model::Binary {
            subtype: 4,
            bytes: &[7; 16],
        });
        command.put("lsid", doc! { "id": id }.doc());
        command.put("txnNumber", number);
        command.put("autocommit", false);
        command
    };
    for n in 0..10i32 {
        let mut command = statement(update(n, "y"));
        if n == 0 {
            command.put("startTransaction", true);
        }
        server.send(&command);
    }
    let mut commit = statement(doc! { "commitTransaction": 1i32 });
    commit.put("$db", "admin");
    server.send(&commit);
}
