//! Throughput of 1 to 8 servers that write one database, when requests to the cluster are all that
//! takes time ([`slow`]). Each server has the same number of clients, each of which runs the same
//! number of commands on documents of its own. Prints a table.
//!
//! `QUARRY_REQUEST_US` is the time of a request; a short one needs processors for all servers.

mod slow;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use commands::{
    Config, Connection, Dispatcher, Outcome, Request, Service, StoreHooks, SystemClock, registry,
};
use model::{DocBuf, Value, doc};
use slow::{Network, SlowEngine};
use storage::MemoryEngine;
use store::Store;

/// So long that the processors of a small machine are idle most of the time, in a build without
/// optimisation.
const REQUEST_US: u64 = 10_000;
const CLIENTS: i32 = 4;
const SERVERS: [i32; 4] = [1, 2, 4, 8];
/// Commands of a client in a measurement.
const COMMANDS: i32 = 8;
/// A measurement is repeated, because the machine may be busy with something else.
const ATTEMPTS: usize = 3;

struct Client {
    dispatcher: Arc<Dispatcher>,
    conn: Connection,
    number: i32,
}

fn request_time() -> Duration {
    let us = std::env::var("QUARRY_REQUEST_US");
    Duration::from_micros(us.map_or(REQUEST_US, |us| us.parse().expect("microseconds")))
}

impl Client {
    fn send(&mut self, command: &DocBuf) -> DocBuf {
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

    /// The `_id` of a document that no other client uses.
    fn id(&self, n: i32) -> i32 {
        self.number * 1000 + n
    }

    fn update(&self, n: i32) -> DocBuf {
        let id = self.id(n);
        doc! { "update": "c", "updates": [{ "q": { "_id": id }, "u": { "$inc": { "n": 1i32 } } }] }
    }
}

/// What the clients do.
#[derive(Clone, Copy)]
struct Work {
    name: &'static str,
    run: fn(&mut Client, i32),
}

const WORK: [Work; 4] = [
    Work {
        name: "read by _id",
        run: |client, n| {
            let found = client.send(&doc! { "find": "c", "filter": { "_id": client.id(n % 4) } });
            let cursor = found.doc().field("cursor").as_doc();
            let batch = cursor.and_then(|cursor| cursor.field("firstBatch").as_array());
            assert_eq!(batch.map(|batch| batch.iter().count()), Some(1));
        },
    },
    Work {
        name: "insert",
        run: |client, n| insert(client, 100 + n),
    },
    Work {
        name: "update by _id",
        run: |client, n| {
            let done = client.send(&client.update(n % 4));
            assert_eq!(done.doc().field("nModified").as_i64_exact(), Some(1));
        },
    },
    Work {
        name: "transaction of two updates",
        run: |client, n| {
            let number = client.number as u8;
            let in_transaction = |mut command: DocBuf| {
                let id = Value::Binary(model::Binary {
                    subtype: 4,
                    bytes: &[number; 16],
                });
                command.put("lsid", doc! { "id": id }.doc());
                command.put("txnNumber", i64::from(n));
                command.put("autocommit", false);
                command
            };
            let mut first = in_transaction(client.update(0));
            first.put("startTransaction", true);
            client.send(&first);
            client.send(&in_transaction(client.update(1)));
            let mut commit = in_transaction(doc! { "commitTransaction": 1i32 });
            commit.put("$db", "admin");
            client.send(&commit);
        },
    },
];

fn insert(client: &mut Client, n: i32) {
    let id = client.id(n);
    client.send(&doc! { "insert": "c", "documents": [{ "_id": id, "n": 0i32 }] });
}

/// The servers, and their clients.
fn start(servers: i32, network: &Arc<Network>) -> Vec<Client> {
    let memory = Arc::new(MemoryEngine::new_checked());
    let mut clients = Vec::new();
    for server in 0..servers {
        let engine = Arc::new(SlowEngine {
            inner: Arc::clone(&memory),
            network: Arc::clone(network),
            seen: Arc::default(),
        });
        let clock = || Arc::new(SystemClock::default());
        let hooks = Arc::new(StoreHooks::new(clock()));
        let store = Store::join(engine, hooks).expect("a store");
        let service = Service::new(Config::default(), clock(), Arc::new(store));
        service.state.load(&service.store).expect("the settings");
        let dispatcher = Arc::new(registry::dispatcher(service.into_shared()));
        clients.extend((0..CLIENTS).map(|n| Client {
            conn: dispatcher.connect("127.0.0.1:50000"),
            dispatcher: Arc::clone(&dispatcher),
            number: server * CLIENTS + n,
        }));
    }
    clients
}

/// The processor time of this thread.
fn thread_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the place for the result is valid.
    let got = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(got, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// What a measurement shows.
#[derive(Clone, Copy)]
struct Rate {
    /// Of all servers.
    per_second: f64,
    /// Of one operation.
    requests: f64,
    /// Of one operation, in microseconds.
    processor_us: f64,
}

fn measure(clients: &mut [Client], network: &Network, work: Work, first: i32) -> Rate {
    let (began, before) = (Instant::now(), network.requests.load(Ordering::Relaxed));
    let busy = std::thread::scope(|threads| {
        let mut running = Vec::new();
        for client in clients.iter_mut() {
            running.push(threads.spawn(move || {
                let began = thread_time();
                (first..first + COMMANDS).for_each(|n| (work.run)(&mut *client, n));
                thread_time() - began
            }));
        }
        let ended = running.into_iter().map(|t| t.join().expect("no panic"));
        ended.sum::<Duration>()
    });
    let operations = f64::from(COMMANDS) * clients.len() as f64;
    let requests = network.requests.load(Ordering::Relaxed) - before;
    Rate {
        per_second: operations / began.elapsed().as_secs_f64(),
        requests: requests as f64 / operations,
        processor_us: busy.as_secs_f64() * 1e6 / operations,
    }
}

/// The best of some measurements of each kind of work.
fn measure_all(servers: i32) -> Vec<Rate> {
    let network = Arc::new(Network {
        request: request_time(),
        requests: AtomicU64::new(0),
    });
    let mut clients = start(servers, &network);
    let mut created = doc! { "create": "c" };
    created.put("$db", "db");
    clients[0].send(&created);
    std::thread::scope(|threads| {
        for client in &mut clients {
            threads.spawn(|| (0..4).for_each(|n| insert(client, n)));
        }
    });
    let mut first = 1;
    WORK.map(|work| {
        let attempts = (0..ATTEMPTS).map(|_| {
            first += COMMANDS;
            measure(&mut clients, &network, work, first)
        });
        let best = attempts.max_by(|a, b| a.per_second.total_cmp(&b.per_second));
        best.expect("an attempt")
    })
    .to_vec()
}

#[test]
fn more_servers_are_as_much_faster() {
    let all = SERVERS.map(measure_all);
    for (n, work) in WORK.iter().enumerate() {
        let one = all[0][n];
        for (servers, rates) in SERVERS.iter().zip(&all) {
            let rate = rates[n];
            let ratio = rate.per_second / (one.per_second * f64::from(*servers));
            println!(
                "{:28} {servers} servers {:7.1}/s ratio {ratio:.3} requests {:.2} CPU {:.0} us",
                work.name, rate.per_second, rate.requests, rate.processor_us
            );
        }
    }
    for (n, work) in WORK.iter().enumerate() {
        let one = all[0][n];
        for (servers, rates) in SERVERS.iter().zip(&all) {
            let rate = rates[n];
            let ratio = rate.per_second / (one.per_second * f64::from(*servers));
            assert!(ratio > 0.9, "{} on {servers}: {ratio}", work.name);
            let requests = rate.requests / one.requests;
            assert!(requests < 1.05, "{} on {servers}: {requests}", work.name);
            let processor = rate.processor_us / one.processor_us;
            assert!(processor < 1.5, "{} on {servers}: {processor}", work.name);
        }
    }
}
