//! The server of a run: the real command layer over memory, where every call to the engine is a
//! scheduling point; and a client, which waits like a connection. Promises: all commands and
//! replies are in the run's log, in order. Must not know: what the commands are.

use crate::schedule;
use commands::{
    Config, Connection, Dispatcher, Link, Outcome, Request, Service, StoreHooks, SystemClock,
    registry,
};
use model::{DocBuf, extjson};
use serde_json::{Value as Json, json};
use std::fmt::Write;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use storage::observe::{Call, ObservedEngine, Observer};
use storage::{Caps, CommitPos, Engine, MemoryEngine, StorageError};
use store::Store;

/// Other threads may run before and after each call to the engine.
struct SchedulingObserver;

impl Observer for SchedulingObserver {
    fn before_call(&self, call: &Call<'_>, _: &Caps) -> storage::Result<()> {
        meet(call);
        Ok(())
    }

    fn after_call(
        &self,
        call: &Call<'_>,
        _: Result<CommitPos, &StorageError>,
    ) -> storage::Result<()> {
        meet(call);
        Ok(())
    }
}

fn meet(call: &Call<'_>) {
    match call {
        Call::Apply { .. } => schedule::commit(),
        _ => schedule::meet(),
    }
}

/// All lines in order. The number of lines is the time of the history.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Lines>>);

#[derive(Default)]
struct Lines {
    text: String,
    count: u64,
}

impl Log {
    /// Adds a line and returns its number.
    pub(crate) fn write_line(&self, who: usize, what: &str) -> u64 {
        let mut lines = self.0.lock().expect("nobody panics with it");
        lines.count += 1;
        let number = lines.count;
        writeln!(lines.text, "{number} {who} {what}").expect("a string");
        number
    }

    pub(crate) fn take(&self) -> String {
        std::mem::take(&mut self.0.lock().expect("nobody panics with it").text)
    }
}

pub(crate) struct Server {
    engine: Arc<dyn Engine>,
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) log: Log,
}

impl Server {
    pub(crate) fn open() -> Server {
        let engine: Arc<dyn Engine> = Arc::new(ObservedEngine::new(
            Arc::new(MemoryEngine::new()),
            SchedulingObserver,
        ));
        Server::start_on(engine, Log::default())
    }

    /// The same data and log, without the server's state in memory.
    pub(crate) fn reopen(self) -> Server {
        let Server { engine, log, .. } = self;
        Server::start_on(engine, log)
    }

    fn start_on(engine: Arc<dyn Engine>, log: Log) -> Server {
        let clock = || Arc::new(SystemClock::default());
        let hooks = StoreHooks::new(clock()).with_log(1 << 30);
        let store = Store::open(engine.clone(), Arc::new(hooks)).expect("a sound engine");
        let service = Service::new(Config::default(), clock(), Arc::new(store));
        Server {
            engine,
            dispatcher: Arc::new(registry::dispatcher(service.into_shared())),
            log,
        }
    }

    pub(crate) fn client(&self, number: usize) -> Client {
        let bell = Arc::new(ConnectionWaker::default());
        let address = format!("127.0.0.1:{}", number + 1);
        Client {
            conn: self.dispatcher.connect_linked(&address, Some(bell.clone())),
            dispatcher: Arc::clone(&self.dispatcher),
            log: self.log.clone(),
            bell,
            number,
            transaction: 0,
            retryable: None,
        }
    }
}

/// Wakes a connection.
#[derive(Default)]
struct ConnectionWaker {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Link for ConnectionWaker {
    fn wake(&self) {
        *self.rung.lock().expect("nobody panics with it") = true;
        self.changed.notify_all();
    }

    fn is_gone(&self) -> bool {
        false
    }
}

/// A client with a session of its own.
pub(crate) struct Client {
    dispatcher: Arc<Dispatcher>,
    conn: Connection,
    bell: Arc<ConnectionWaker>,
    log: Log,
    pub(crate) number: usize,
    /// The number of its last transaction or retryable write.
    transaction: i64,
    /// The last retryable write, if it can be sent again: no later command had a number.
    pub(crate) retryable: Option<Json>,
}

/// A reply, and when the command was sent and answered.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) body: Json,
    pub(crate) sent: u64,
    pub(crate) answered: u64,
}

impl Reply {
    /// The error code of the command or of its first statement; 0 without an error.
    pub(crate) fn code(&self) -> i64 {
        let own = self.body["code"].as_i64();
        let first = self.body["writeErrors"][0]["code"].as_i64();
        own.or(first).unwrap_or(0)
    }

    /// Whether the operation, its session or its cursor was killed, or the index that it read was
    /// dropped.
    pub(crate) fn is_killed(&self) -> bool {
        [11601, 237, 43, 175].contains(&self.code())
    }

    pub(crate) fn is_transient(&self) -> bool {
        let labels = self.body["errorLabels"].as_array();
        labels.is_some_and(|l| l.iter().any(|l| l == "TransientTransactionError"))
    }

    /// The documents of a cursor's batch.
    pub(crate) fn batch(&self) -> &[Json] {
        let cursor = &self.body["cursor"];
        let batch = cursor["firstBatch"].as_array();
        batch
            .or(cursor["nextBatch"].as_array())
            .map_or(&[], Vec::as_slice)
    }
}

pub(crate) fn long(n: i64) -> Json {
    json!({ "$numberLong": n.to_string() })
}

impl Client {
    /// Sends a command and waits for its reply, as long as the server makes it wait.
    pub(crate) fn send(&mut self, db: &str, command: &Json) -> Reply {
        let sent = self.log.write_line(self.number, &command.to_string());
        let mut body = extjson::document(command).unwrap_or_else(|e| panic!("{e}: {command}"));
        body.put("$db", db);
        let mut request = Request::new(body.doc());
        let mut reply = Vec::new();
        while let Outcome::Wait { until_us, .. } =
            self.dispatcher.handle(&mut self.conn, &request, &mut reply)
        {
            request.waited = true;
            self.log.write_line(self.number, "waits");
            let now_us = self.dispatcher.service().clock.monotonic_us();
            let left = Duration::from_micros(until_us.saturating_sub(now_us));
            let rung = self.bell.rung.lock().expect("nobody panics with it");
            let waited = self.bell.changed.wait_timeout_while(rung, left, |r| !*r);
            *waited.expect("nobody panics with it").0 = false;
        }
        let reply = DocBuf::from_bytes(reply).expect("one document");
        let body = extjson::from_document(reply.doc(), extjson::Mode::Relaxed);
        let answered = self.log.write_line(self.number, &body.to_string());
        Reply {
            body,
            sent,
            answered,
        }
    }

    fn session(&self) -> Json {
        Client::session_of(self.number)
    }

    /// The session of a client.
    pub(crate) fn session_of(number: usize) -> Json {
        let id = format!("00000000-0000-4000-8000-{number:012}");
        json!({ "id": { "$uuid": id } })
    }

    /// Sends a command in the client's session.
    pub(crate) fn send_in_session(&mut self, mut command: Json) -> Reply {
        command["lsid"] = self.session();
        self.send("t", &command)
    }

    /// Sends a write with a number, this many times.
    pub(crate) fn retryable(&mut self, mut command: Json, times: usize) -> Vec<Reply> {
        self.transaction += 1;
        command["txnNumber"] = long(self.transaction);
        command["lsid"] = self.session();
        self.retryable = Some(command.clone());
        (0..times).map(|_| self.send("t", &command)).collect()
    }

    /// A statement of a transaction, the first one or a later one.
    pub(crate) fn statement(&mut self, is_first: bool, mut command: Json) -> Reply {
        if is_first {
            self.transaction += 1;
            self.retryable = None;
            command["startTransaction"] = true.into();
            command["readConcern"] = json!({ "level": "snapshot" });
        }
        command["txnNumber"] = long(self.transaction);
        command["autocommit"] = false.into();
        command["lsid"] = self.session();
        let ends =
            command.get("commitTransaction").is_some() || command.get("abortTransaction").is_some();
        self.send(if ends { "admin" } else { "t" }, &command)
    }
}
