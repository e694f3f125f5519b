//! A fake server: one thread per connection, documents in a map, faults on request. It is no
//! database and knows no more than it must.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mongodb::bson::{Bson, Document, doc};

/// What goes wrong.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    /// Acknowledge but do not store every n-th document.
    pub(crate) lose_every: Option<usize>,
    /// Close everything after so many inserts.
    pub(crate) die_after_inserts: Option<usize>,
    /// Answer inserts with an error after so many.
    pub(crate) refuse_after_inserts: Option<usize>,
    /// Acknowledge every n-th update without doing it.
    pub(crate) skip_update_every: Option<usize>,
    /// Take 300 ms for every n-th update.
    pub(crate) stall_updates_every: Option<usize>,
    /// Refuse every n-th update as overloaded.
    pub(crate) overload_every: Option<usize>,
    /// At that update answer nobody for so long.
    pub(crate) freeze_at_update: Option<(usize, Duration)>,
    /// What becomes of every tenth event of a change stream.
    pub(crate) events: Option<EventFault>,
    /// Remove documents of this age, by their field `expires_from`, when they are counted.
    pub(crate) expire_after: Option<Duration>,
}

/// What becomes of an event.
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
    dead: bool,
    connections: Vec<TcpStream>,
    /// Documents left, by cursor.
    cursors: BTreeMap<i64, Vec<Document>>,
    last_cursor: i64,
    /// What was inserted while there were change streams, and how far each has read.
    events: Vec<Document>,
    streams: BTreeMap<i64, usize>,
}

/// A server that listens until it is dropped or dies.
#[derive(Debug)]
pub(crate) struct Fake {
    pub(crate) port: u16,
    state: Arc<Mutex<State>>,
}

impl Fake {
    pub(crate) fn start(faults: Faults) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        // Each server gives other cursor ids.
        let state = State {
            last_cursor: i64::from(port) * 1_000,
            ..State::default()
        };
        let state = Arc::new(Mutex::new(state));
        let shared = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut state = shared.lock().unwrap();
                if state.dead {
                    return;
                }
                state.connections.push(stream.try_clone().unwrap());
                let shared = shared.clone();
                std::thread::spawn(move || serve(stream, &shared, faults));
            }
        });
        Self { port, state }
    }

    pub(crate) fn uri(&self) -> String {
        format!("mongodb://127.0.0.1:{}", self.port)
    }

    /// Documents of a collection, without what differs between runs.
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

    /// Everything stored, in an order that does not depend on who came first.
    pub(crate) fn all(&self) -> Vec<String> {
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

    /// Names of collections, those of other databases than the first with the database's.
    pub(crate) fn collections(&self) -> Vec<String> {
        let state = self.state.lock().unwrap();
        state.collections.keys().cloned().collect()
    }

    /// Updates that came.
    pub(crate) fn updates(&self) -> u64 {
        self.state.lock().unwrap().updates as u64
    }

    pub(crate) fn indexes(&self) -> Vec<String> {
        self.state.lock().unwrap().indexes.clone()
    }

    /// Puts a document there before the lab comes.
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

fn serve(mut stream: TcpStream, state: &Mutex<State>, faults: Faults) {
    while let Some((id, code, body)) = read_message(&mut stream) {
        let Some(command) = parse(code, &body) else {
            return;
        };
        let Some(reply) = answer(&command, &mut state.lock().unwrap(), faults) else {
            return;
        };
        if is_empty_batch(&reply) {
            std::thread::sleep(Duration::from_millis(2));
        }
        let bytes = reply.to_vec().unwrap();
        let mut out = Vec::new();
        let head: &[u8] = if code == 2_013 {
            &[0, 0, 0, 0, 0]
        } else {
            &[8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]
        };
        let length = 16 + head.len() + bytes.len();
        for number in [length as i32, 0, id, if code == 2_013 { 2_013 } else { 1 }] {
            out.extend(number.to_le_bytes());
        }
        out.extend(head);
        out.extend(bytes);
        if stream.write_all(&out).is_err() {
            return;
        }
    }
}

fn read_message(stream: &mut TcpStream) -> Option<(i32, i32, Vec<u8>)> {
    let mut head = [0_u8; 16];
    stream.read_exact(&mut head).ok()?;
    let number = |at: usize| i32::from_le_bytes(head[at..at + 4].try_into().unwrap());
    let mut body = vec![0; number(0) as usize - 16];
    stream.read_exact(&mut body).ok()?;
    Some((number(4), number(12), body))
}

/// A command with its document sequences as arrays.
fn parse(code: i32, body: &[u8]) -> Option<Document> {
    let document_at = |at: usize| {
        let length = i32::from_le_bytes(body.get(at..at + 4)?.try_into().ok()?) as usize;
        Some((
            Document::from_reader(body.get(at..at + length)?).ok()?,
            at + length,
        ))
    };
    if code == 2_004 {
        let name_end = 4 + body.get(4..)?.iter().position(|byte| *byte == 0)?;
        return Some(document_at(name_end + 1 + 8)?.0);
    }
    let mut at = 4;
    let mut out = Document::new();
    while at < body.len() {
        match body[at] {
            0 => {
                let (document, next) = document_at(at + 1)?;
                // The command's name must stay the first key, whichever section came first.
                let sequences = std::mem::replace(&mut out, document);
                out.extend(sequences);
                at = next;
            }
            _ => {
                let end = at
                    + 1
                    + i32::from_le_bytes(body.get(at + 1..at + 5)?.try_into().ok()?) as usize;
                let name_end = at + 5 + body.get(at + 5..)?.iter().position(|byte| *byte == 0)?;
                let name = String::from_utf8(body[at + 5..name_end].to_vec()).ok()?;
                let mut items = Vec::new();
                at = name_end + 1;
                while at < end {
                    let (document, next) = document_at(at)?;
                    items.push(Bson::Document(document));
                    at = next;
                }
                out.insert(name, items);
            }
        }
    }
    Some(out)
}

fn documents(command: &Document, key: &str) -> Vec<Document> {
    command
        .get_array(key)
        .unwrap()
        .iter()
        .map(|item| item.as_document().unwrap().clone())
        .collect()
}

/// A batch of what is left; a cursor for the rest.
fn batch(command: &Document, mut left: Vec<Document>, name: &str, state: &mut State) -> Document {
    let own = command.get_i64("getMore").ok();
    let size = command
        .get_i32("batchSize")
        .map_or(left.len(), |size| size as usize)
        .min(left.len());
    let rest = left.split_off(size);
    let mut id = 0;
    if !rest.is_empty() {
        state.last_cursor += 1;
        id = own.unwrap_or(state.last_cursor);
        state.cursors.insert(id, rest);
    }
    doc! { "cursor": { "id": id, "ns": "d.c", name: left }, "ok": 1.0 }
}

fn cursor(first: Vec<Document>) -> Document {
    doc! { "cursor": { "id": 0_i64, "ns": "quarry_lab.c", "firstBatch": first }, "ok": 1.0 }
}

/// None: the server dies.
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
        // Other tests name databases of their own and look for plain names.
        Ok(database @ ("open" | "closed" | "quarry_lab_2")) => format!("{database}.{collection}"),
        _ => collection,
    };
    Some(match name.as_str() {
        "hello" | "ismaster" => doc! {
            "isWritablePrimary": true, "ismaster": true, "maxBsonObjectSize": 16_777_216,
            "maxMessageSizeBytes": 48_000_000,
            "maxWriteBatchSize": 100_000, "minWireVersion": 0, "maxWireVersion": 21,
            "readOnly": false, "ok": 1.0
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
        "aggregate" => aggregate(command, &collection, state),
        "find"
            if !command
                .get_document("filter")
                .is_ok_and(|filter| filter.contains_key("_id")) =>
        {
            let stored = state
                .collections
                .get(&collection)
                .cloned()
                .unwrap_or_default();
            batch(command, stored, "firstBatch", state)
        }
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
            Some(left) => batch(command, left, "nextBatch", state),
            None => {
                doc! { "ok": 0.0, "code": 43, "codeName": "CursorNotFound",
                "errmsg": "no such cursor" }
            }
        },
        "find" => {
            let id = command
                .get_document("filter")
                .unwrap()
                .get_i64("_id")
                .unwrap();
            let stored = &state.collections[&collection];
            cursor(
                stored
                    .iter()
                    .filter(|document| document.get_i64("_id").is_ok_and(|own| own == id))
                    .cloned()
                    .collect(),
            )
        }
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

fn is_change_stream(command: &Document) -> bool {
    documents(command, "pipeline")
        .first()
        .is_some_and(|stage| stage.contains_key("$changeStream"))
}

/// A change stream that has nothing to tell.
fn is_empty_batch(reply: &Document) -> bool {
    let cursor = reply.get_document("cursor");
    cursor.is_ok_and(|cursor| {
        cursor
            .get_array("nextBatch")
            .is_ok_and(|batch| batch.is_empty())
    })
}

/// An insert as change streams tell of it.
fn tell(collection: &str, document: &Document, state: &mut State, faults: Faults) {
    if state.streams.is_empty() {
        return;
    }
    let token = format!("{:08}", state.inserted);
    let id = document.get("_id").unwrap().clone();
    let event = doc! {
        "_id": { "_data": token }, "operationType": "insert",
        "ns": { "db": "quarry_lab", "coll": collection }, "documentKey": { "_id": id },
        "fullDocument": document.clone(),
    };
    let number = state.events.len();
    match faults.events.filter(|_| state.inserted.is_multiple_of(10)) {
        None => state.events.push(event),
        Some(EventFault::Lost) => {}
        Some(EventFault::Doubled) => state.events.extend([event.clone(), event]),
        Some(EventFault::Swapped) => state.events.insert(number.saturating_sub(1), event),
    }
}

fn expire(collection: &str, state: &mut State, faults: Faults) {
    let Some((age, stored)) = faults
        .expire_after
        .zip(state.collections.get_mut(collection))
    else {
        return;
    };
    let now = mongodb::bson::DateTime::now().timestamp_millis();
    stored.retain(|document| {
        document.get_datetime("expires_from").map_or(true, |from| {
            now - from.timestamp_millis() < age.as_millis() as i64
        })
    });
}

fn aggregate(command: &Document, collection: &str, state: &State) -> Document {
    let stored = state
        .collections
        .get(collection)
        .cloned()
        .unwrap_or_default();
    let total: i64 = stored
        .iter()
        .map(|document| i64::from(document.get_i32("k").unwrap_or(0)))
        .sum();
    let group = documents(command, "pipeline")
        .iter()
        .find_map(|stage| stage.get_document("$group").ok().cloned())
        .unwrap();
    let counts = group.get_document("n").is_ok();
    cursor(vec![if counts {
        doc! { "_id": 1, "n": stored.len() as i64 }
    } else {
        doc! { "_id": null, "total": total }
    }])
}

fn update(command: &Document, collection: &str, state: &mut State, faults: Faults) -> Document {
    let id = documents(command, "updates")[0]
        .get_document("q")
        .unwrap()
        .get_i64("_id")
        .unwrap();
    state.updates += 1;
    if faults
        .stall_updates_every
        .is_some_and(|every| state.updates.is_multiple_of(every))
    {
        std::thread::sleep(Duration::from_millis(300));
    }
    if faults
        .overload_every
        .is_some_and(|every| state.updates.is_multiple_of(every))
    {
        return doc! {
            "ok": 0.0, "code": 462, "codeName": "IngressRequestRateLimitExceeded",
            "errmsg": "come back later",
            "errorLabels": ["SystemOverloadedError", "RetryableError"],
        };
    }
    // All connections share the state, which is locked meanwhile.
    if let Some((number, time)) = faults.freeze_at_update
        && state.updates == number
    {
        std::thread::sleep(time);
    }
    let skipped = faults
        .skip_update_every
        .is_some_and(|every| state.updates.is_multiple_of(every));
    let found = state
        .collections
        .get_mut(collection)
        .unwrap()
        .iter_mut()
        .find(|document| document.get_i64("_id").is_ok_and(|own| own == id))
        .unwrap();
    if !skipped {
        let k = found.get_i32("k").unwrap();
        found.insert("k", k + 1);
    }
    doc! { "n": 1, "nModified": 1, "ok": 1.0 }
}

fn insert(
    command: &Document,
    collection: &str,
    state: &mut State,
    faults: Faults,
) -> Option<Document> {
    state.insert_calls += 1;
    if faults
        .die_after_inserts
        .is_some_and(|calls| state.insert_calls > calls)
    {
        state.dead = true;
        for connection in &state.connections {
            let _ = connection.shutdown(Shutdown::Both);
        }
        return None;
    }
    if faults
        .refuse_after_inserts
        .is_some_and(|calls| state.insert_calls > calls)
    {
        return Some(
            doc! { "ok": 0.0, "code": 14_031, "codeName": "OutOfDiskSpace", "errmsg": "no space \
            left" },
        );
    }
    let batch = documents(command, "documents");
    let count = batch.len();
    for document in batch {
        state.inserted += 1;
        tell(collection, &document, state, faults);
        if !faults
            .lose_every
            .is_some_and(|every| state.inserted.is_multiple_of(every))
        {
            state
                .collections
                .entry(collection.to_owned())
                .or_default()
                .push(document);
        }
    }
    Some(doc! { "n": count as i32, "ok": 1.0 })
}
