//! A fake server: one thread per connection, documents in a map, faults on request. It implements
//! only what the tests need.

pub(crate) mod data;
pub(crate) mod wire;

use std::collections::BTreeMap;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use data::{aggregate, batch, documents, expire, find, insert, is_change_stream, update};
use mongodb::bson::{Document, doc};

/// The faults of the fake server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    /// Acknowledge but do not store every n-th document.
    pub(crate) lose_every: Option<usize>,
    /// Close all connections after this number of inserts.
    pub(crate) die_after_inserts: Option<usize>,
    /// Answer inserts with an error after this number of inserts.
    pub(crate) refuse_after_inserts: Option<usize>,
    /// Acknowledge every n-th update without doing it.
    pub(crate) skip_update_every: Option<usize>,
    /// Take 300 ms for every n-th update.
    pub(crate) stall_updates_every: Option<usize>,
    /// Refuse every n-th update as overloaded.
    pub(crate) overload_every: Option<usize>,
    /// At the update with this number, answer no client for this time.
    pub(crate) freeze_at_update: Option<(usize, Duration)>,
    /// Change every n-th reply to a find; the fault, and n.
    pub(crate) finds: Option<(FindFault, usize)>,
    /// After this number of updates that set a field, acknowledge further ones without doing them.
    pub(crate) skip_sets_after: Option<usize>,
    /// Do every n-th update that adds to a field twice.
    pub(crate) add_twice_every: Option<usize>,
    /// Answer updates of this field with an error.
    pub(crate) refuse_updates_of: Option<&'static str>,
    /// Accept at most this number of connections; close further ones immediately.
    pub(crate) connections_max: Option<usize>,
    /// Change every tenth event of a change stream.
    pub(crate) events: Option<EventFault>,
    /// Answer searches with the first stored documents, and count one document too few.
    pub(crate) searches_badly: bool,
    /// Claim to be a router, as servers do that share one database.
    pub(crate) is_router: bool,
    /// Take this long to answer `hello`, by which drivers measure the latency of a server.
    pub(crate) hello_takes: Option<Duration>,
    /// Remove documents of this age, by their field `expires_from`, when they are counted.
    pub(crate) expire_after: Option<Duration>,
}

/// A change of the documents in a reply to a find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FindFault {
    /// No documents.
    Empty,
    /// The last document is missing.
    Fewer,
    /// Each document has only its `_id`.
    OnlyId,
    /// Each text is truncated.
    Cut,
    /// Each document has the contents of another.
    Mixed,
    /// The last document comes twice.
    Doubled,
    /// The documents come in another order.
    Reordered,
}

/// A change of an event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EventFault {
    Lost,
    Doubled,
    Swapped,
}

#[derive(Debug, Default)]
struct State {
    collections: BTreeMap<String, Vec<Document>>,
    indexes: Vec<String>,
    insert_calls: usize,
    inserted: usize,
    updates: usize,
    sets: usize,
    finds: usize,
    open: usize,
    /// The time for which the server answered no client.
    frozen: Duration,
    dead: bool,
    connections: Vec<TcpStream>,
    /// The remaining documents and the session of each cursor.
    cursors: BTreeMap<i64, (Vec<Document>, Option<Document>)>,
    last_cursor: i64,
    /// Documents inserted while there were change streams, and each stream's position.
    events: Vec<Document>,
    streams: BTreeMap<i64, usize>,
}

/// A server that listens until it is dropped or dies.
#[derive(Debug)]
pub(crate) struct FakeServer {
    pub(crate) port: u16,
    state: Arc<Mutex<State>>,
}

impl FakeServer {
    pub(crate) fn start(faults: Faults) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        // Each server gives different cursor ids.
        let state = State {
            last_cursor: i64::from(port) * 1_000,
            ..State::default()
        };
        let state = Arc::new(Mutex::new(state));
        listen(listener, state.clone(), faults);
        Self { port, state }
    }

    /// The port of another server with the same data.
    pub(crate) fn add_server(&self, faults: Faults) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        listen(listener, self.state.clone(), faults);
        port
    }

    pub(crate) fn uri(&self) -> String {
        format!("mongodb://127.0.0.1:{}", self.port)
    }

    /// Documents of a collection, without the parts that differ between runs.
    pub(crate) fn documents(&self, collection: &str) -> Vec<Document> {
        let state = self.state.lock().unwrap();
        let mut out = state
            .collections
            .get(collection)
            .cloned()
            .unwrap_or_default();
        for document in &mut out {
            if document.get_object_id("_id").is_ok() {
                document.remove("_id");
            }
            document.remove("dateandtime");
        }
        out
    }

    /// All stored documents, in an order that does not depend on the order of insertion.
    pub(crate) fn stored_documents(&self) -> Vec<String> {
        let state = self.state.lock().unwrap();
        let mut out: Vec<String> = state
            .collections
            .iter()
            .flat_map(|(name, documents)| {
                documents
                    .iter()
                    .map(move |document| format!("{name}: {document}"))
            })
            .collect();
        out.sort();
        out
    }

    /// Names of collections; for databases other than the first, with the database's name.
    pub(crate) fn collections(&self) -> Vec<String> {
        let state = self.state.lock().unwrap();
        state.collections.keys().cloned().collect()
    }

    /// The time for which the server answered no client, in seconds.
    pub(crate) fn frozen_seconds(&self) -> f64 {
        self.state.lock().unwrap().frozen.as_secs_f64()
    }

    /// The number of updates that were received.
    pub(crate) fn updates(&self) -> u64 {
        self.state.lock().unwrap().updates as u64
    }

    pub(crate) fn indexes(&self) -> Vec<String> {
        self.state.lock().unwrap().indexes.clone()
    }

    /// Stores a document before the lab connects.
    pub(crate) fn store(&self, collection: &str, document: Document) {
        self.state
            .lock()
            .unwrap()
            .collections
            .entry(collection.to_owned())
            .or_default()
            .push(document);
    }
}

fn listen(listener: TcpListener, shared: Arc<Mutex<State>>, faults: Faults) {
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut state = shared.lock().unwrap();
            if state.dead {
                return;
            }
            if faults
                .connections_max
                .is_some_and(|most| state.open >= most)
            {
                continue;
            }
            state.open += 1;
            state.connections.push(stream.try_clone().unwrap());
            let shared = shared.clone();
            std::thread::spawn(move || {
                wire::serve(stream, &shared, faults);
                shared.lock().unwrap().open -= 1;
            });
        }
    });
}

/// The reply to a command; `None` if the server dies.
fn answer(command: &Document, state: &mut State, faults: Faults) -> Option<Document> {
    let name = command.keys().next().unwrap().to_lowercase();
    let collection = command
        .values()
        .next()
        .unwrap()
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let collection = match command.get_str("$db") {
        // Other tests use databases with other names and expect collection names without them.
        Ok(database @ ("open" | "closed" | "quarry_lab_2")) => format!("{database}.{collection}"),
        _ => collection,
    };
    Some(match name.as_str() {
        "hello" | "ismaster" => doc! {
            "isWritablePrimary": true, "ismaster": true, "maxBsonObjectSize": 16_777_216,
            "msg": if faults.is_router { "isdbgrid" } else { "" },
            "maxMessageSizeBytes": 48_000_000,
            "maxWriteBatchSize": 100_000, "minWireVersion": 0, "maxWireVersion": 21,
            "readOnly": false, "logicalSessionTimeoutMinutes": 30, "ok": 1.0
        },
        "buildinfo" => doc! { "version": "8.0.0", "quarry": { "version": "0.0.1" }, "ok": 1.0 },
        "serverstatus" => doc! { "pid": std::process::id() as i64, "process": "fake", "ok": 1.0 },
        "create" | "drop" => {
            state.collections.insert(collection, Vec::new());
            doc! { "ok": 1.0 }
        }
        "createindexes" => {
            state.indexes.extend(
                documents(command, "indexes")
                    .iter()
                    .map(|index| index.get_str("name").unwrap().to_owned()),
            );
            doc! { "ok": 1.0 }
        }
        "insert" => return insert(command, &collection, state, faults),
        "count" => {
            expire(&collection, state, faults);
            doc! { "n": state.collections.get(&collection).map_or(0, Vec::len) as i32, "ok": 1.0 }
        }
        "aggregate" if is_change_stream(command) => {
            state.last_cursor += 1;
            state.streams.insert(state.last_cursor, state.events.len());
            doc! { "cursor": { "id": state.last_cursor, "ns": "quarry_lab.c", "firstBatch": [] },
            "ok": 1.0 }
        }
        "createsearchindexes" => doc! { "ok": 1.0 },
        "aggregate" => aggregate(command, &collection, state, faults),
        "getmore"
            if state
                .streams
                .contains_key(&command.get_i64("getMore").unwrap()) =>
        {
            let id = command.get_i64("getMore").unwrap();
            let from = state.streams.insert(id, state.events.len()).unwrap();
            let batch = state.events[from..].to_vec();
            doc! { "cursor": { "id": id, "ns": "quarry_lab.c", "nextBatch": batch }, "ok": 1.0 }
        }
        "getmore" => match state.cursors.remove(&command.get_i64("getMore").unwrap()) {
            Some((left, session)) if command.get_document("lsid").ok() != session.as_ref() => {
                state
                    .cursors
                    .insert(command.get_i64("getMore").unwrap(), (left, session));
                doc! { "ok": 0.0, "code": 50_738, "codeName": "Location50738",
                "errmsg": "the cursor was opened in another session" }
            }
            Some((left, _)) => batch(command, left, "nextBatch", state),
            None => {
                doc! { "ok": 0.0, "code": 43, "codeName": "CursorNotFound",
                "errmsg": "no such cursor" }
            }
        },
        "find" => find(command, &collection, state, faults),
        "update" => update(command, &collection, state, faults),
        "collstats" => {
            let count = state.collections.get(&collection).map_or(0, Vec::len) as i32;
            doc! { "count": count, "size": count * 130, "storageSize": count * 60,
            "totalIndexSize": count * 20, "ok": 1.0 }
        }
        "ping" | "endsessions" | "setparameter" | "killcursors" => doc! { "ok": 1.0 },
        other => {
            doc! { "ok": 0.0, "code": 59, "codeName": "CommandNotFound",
            "errmsg": format!("no such command: '{other}'") }
        }
    })
}
