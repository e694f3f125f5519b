//! Reads on a server that does not hold the database, next to the server that holds it: two
//! services over one engine; only one of them writes, and it announces its changes.

use crate::behaviour::{send, serve};
use crate::interrupts::{code, json};
use commands::{
    Config, Connection, Dispatcher, ReadService, Request, Service, StoreHooks, SystemClock,
    registry,
};
use model::{Doc, DocBuf, doc};
use parking_lot::RwLock;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use storage::{
    BatchOp, Caps, CommitPos, Cursor, CursorOpts, Durability, DurableHook, Engine, Follower,
    IdentSet, KeyRange, MemoryEngine, Moment, Reader, Result, Snapshot, StatSink, StorageError,
    Table, VerifyReport, WriteBatch,
};
use store::Store;

/// The key of the counter of the writer's announcements.
const ANNOUNCED: &[u8] = b"announced";

/// Selects the rows that are announced.
type RowPredicate = fn(Table, &[u8]) -> bool;

/// The engine of the server that writes.
struct WriterEngine {
    inner: Arc<MemoryEngine>,
    kept: OnceLock<RowPredicate>,
    number: AtomicU64,
}

/// The engine of the server that reads; for it, the latest state is the snapshot `newest`.
struct ReaderEngine {
    inner: Arc<MemoryEngine>,
    newest: RwLock<Arc<dyn Snapshot>>,
}

/// Forwards the calls of a reader.
macro_rules! reads {
    ($engine:ty, $self:ident, $state:expr) => {
        impl Reader for $engine {
            fn get_with(
                &$self,
                table: Table,
                key: &[u8],
                f: &mut dyn FnMut(&[u8]),
            ) -> Result<bool> {
                $state.get_with(table, key, f)
            }
            fn multi_get(
                &$self,
                table: Table,
                keys: &[&[u8]],
                each: &mut dyn FnMut(usize, Option<&[u8]>),
            ) -> Result<()> {
                $state.multi_get(table, keys, each)
            }
            fn cursor(
                &$self,
                table: Table,
                range: KeyRange<'_>,
                opts: CursorOpts,
            ) -> Result<Box<dyn Cursor>> {
                $state.cursor(table, range, opts)
            }
        }
    };
}

reads!(WriterEngine, self, self.inner);
reads!(ReaderEngine, self, self.newest.read());

/// Forwards the calls that both engines implement alike.
macro_rules! alike {
    () => {
        fn caps(&self) -> &Caps {
            self.inner.caps()
        }
        fn durable_pos(&self) -> CommitPos {
            self.last_pos()
        }
        fn wait_durable(&self, pos: CommitPos) -> Result<()> {
            self.inner.wait_durable(pos)
        }
        fn stats(&self, sink: &mut StatSink<'_>) {
            self.inner.stats(sink);
        }
        fn checkpoint(&self, path: &Path) -> Result<()> {
            self.inner.checkpoint(path)
        }
        fn verify(&self) -> Result<VerifyReport> {
            self.inner.verify()
        }
        fn flush(&self) -> Result<()> {
            self.inner.flush()
        }
        fn close(&self) -> Result<()> {
            Ok(())
        }
    };
}

pub(crate) use {alike, reads};

impl Engine for WriterEngine {
    alike!();
    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        self.inner.snapshot()
    }
    fn last_pos(&self) -> CommitPos {
        self.inner.last_pos()
    }
    fn on_durable(&self, hook: DurableHook) {
        self.inner.on_durable(hook);
    }
    fn apply(&self, batch: &WriteBatch, durability: Durability) -> Result<CommitPos> {
        let is_kept = |op: BatchOp<'_>| match op {
            BatchOp::Put { table, key, .. } | BatchOp::Delete { table, key } => {
                self.kept.get().is_some_and(|kept| kept(table, key))
            }
            BatchOp::Add { .. } | BatchOp::DeleteRange { .. } => false,
        };
        let mut batch = batch.clone();
        if batch.iter().any(is_kept) {
            let number = self.number.fetch_add(1, Ordering::Relaxed) + 1;
            batch.put(Table::Tmp, ANNOUNCED, &number.to_be_bytes());
        }
        self.inner.apply(&batch, durability)
    }
    fn announce(&self, kept: RowPredicate) {
        let _ = self.kept.set(kept);
    }
    fn announce_now(&self) -> Result<()> {
        let number = self.number.fetch_add(1, Ordering::Relaxed) + 1;
        let mut batch = WriteBatch::new();
        batch.put(Table::Tmp, ANNOUNCED, &number.to_be_bytes());
        self.inner.apply(&batch, Durability::Buffered).map(|_| ())
    }
    fn drop_range(&self, table: Table, range: KeyRange<'_>) -> Result<()> {
        self.inner.drop_range(table, range)
    }
    fn set_dropped(&self, table: Table, idents: Arc<IdentSet>) {
        self.inner.set_dropped(table, idents);
    }
    fn approx_size(&self, table: Table, range: KeyRange<'_>) -> Result<u64> {
        self.inner.approx_size(table, range)
    }
}

impl Engine for ReaderEngine {
    alike!();
    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        Ok(Arc::clone(&self.newest.read()))
    }
    fn last_pos(&self) -> CommitPos {
        self.newest.read().pos()
    }
    fn on_durable(&self, _: DurableHook) {}
    fn apply(&self, batch: &WriteBatch, _: Durability) -> Result<CommitPos> {
        panic!("a reader writes {batch:?}");
    }
    fn drop_range(&self, _: Table, _: KeyRange<'_>) -> Result<()> {
        panic!("a reader drops");
    }
    fn set_dropped(&self, _: Table, _: Arc<IdentSet>) {}
    fn approx_size(&self, _: Table, _: KeyRange<'_>) -> Result<u64> {
        Err(StorageError::Unsupported("sizes are the writer's"))
    }
}

impl Follower for ReaderEngine {
    fn moment(&self) -> Result<Moment> {
        let snapshot = self.inner.snapshot()?;
        let mut announced = Vec::new();
        snapshot.get(Table::Tmp, ANNOUNCED, &mut announced)?;
        *self.newest.write() = Arc::clone(&snapshot);
        Ok(Moment {
            snapshot,
            announced,
        })
    }
}

/// A server that holds the database, and one that only reads it.
struct Pair {
    holder: Arc<Dispatcher>,
    reading: ReadService,
    writer: Connection,
    reader: Connection,
}

fn pair(auth: bool) -> Pair {
    let inner = Arc::new(MemoryEngine::new());
    let written: Arc<dyn Engine> = Arc::new(WriterEngine {
        inner: Arc::clone(&inner),
        kept: OnceLock::new(),
        number: AtomicU64::new(0),
    });
    let hooks = || StoreHooks::new(Arc::new(SystemClock::default()));
    let config = || Config {
        auth,
        ..Config::default()
    };
    let store = Store::open(written, Arc::new(hooks().with_log(1 << 20))).expect("a store");
    let holder = serve(config(), Arc::new(store));
    let read = Arc::new(ReaderEngine {
        newest: RwLock::new(inner.snapshot().expect("a state")),
        inner,
    });
    let moment = read.moment().expect("a moment");
    let engine: Arc<dyn Engine> = Arc::clone(&read) as Arc<dyn Engine>;
    let store = Store::follow(engine, Arc::new(hooks()), &moment).expect("a store");
    let service = Service::new(config(), Arc::new(SystemClock::default()), Arc::new(store));
    service.state.load(&service.store).expect("the settings");
    let dispatcher = registry::reading_dispatcher(service.into_shared());
    let reading = ReadService::new(dispatcher, read);
    Pair {
        writer: holder.connect("127.0.0.1:1"),
        reader: reading.dispatcher().connect("127.0.0.1:2"),
        holder,
        reading,
    }
}

impl Pair {
    fn write(&mut self, db: &str, command: &str) -> DocBuf {
        let reply = send(&self.holder, &mut self.writer, db, json(command).doc());
        assert_eq!(code(&reply), 0, "{command}: {reply:?}");
        reply
    }

    /// The reply of the reading server; `None` when it forwards the command.
    fn read(&mut self, db: &str, command: &str) -> Option<DocBuf> {
        let mut body = json(command);
        body.put("$db", db);
        let request = Request::new(body.doc());
        let mut reply = Vec::new();
        let is_here = self.reading.is_for(&request)
            && self.reading.answer(&mut self.reader, &request, &mut reply);
        is_here.then(|| DocBuf::from_bytes(reply).expect("one document"))
    }
}

/// The parts of a reply that depend on data.
fn remove_times(reply: Doc<'_>) -> DocBuf {
    DocBuf::build(|w| {
        for (name, value) in reply.iter() {
            if !["operationTime", "$clusterTime"].contains(&name) {
                w.put(name, value);
            }
        }
    })
}

const READS: &[&str] = &[
    r#"{"find": "c", "sort": {"_id": 1}}"#,
    r#"{"find": "c", "filter": {"_id": 2}}"#,
    r#"{"find": "c", "filter": {"a": 5}, "sort": {"_id": 1}}"#,
    r#"{"find": "c", "filter": {"a": {"$gte": 2}}, "sort": {"a": 1, "_id": 1}}"#,
    r#"{"find": "c"}"#,
    r#"{"find": "view", "sort": {"_id": 1}}"#,
    r#"{"find": "renamed", "sort": {"_id": 1}}"#,
    r#"{"find": "capped"}"#,
    r#"{"find": "series", "sort": {"_id": 1}}"#,
    r#"{"count": "c"}"#,
    r#"{"count": "c", "query": {"a": 5}}"#,
    r#"{"distinct": "c", "key": "a"}"#,
    r#"{"aggregate": "c", "pipeline": [{"$group": {"_id": null, "n": {"$sum": 1}}}],
        "cursor": {}}"#,
    r#"{"aggregate": "c", "pipeline": [{"$lookup": {"from": "renamed", "localField": "_id",
        "foreignField": "_id", "as": "other"}}, {"$sort": {"_id": 1}}], "cursor": {}}"#,
    r#"{"listCollections": 1}"#,
    r#"{"listIndexes": "c"}"#,
];

const WRITES: &[&str] = &[
    r#"{"insert": "c", "documents": [{"_id": 1, "a": 1}, {"_id": 2, "a": 2}]}"#,
    r#"{"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a"}]}"#,
    r#"{"insert": "c", "documents": [{"_id": 3, "a": 3}]}"#,
    r#"{"insert": "c", "documents": [{"_id": 4, "a": [5, 6]}]}"#,
    r#"{"insert": "c", "documents": [{"_id": 0, "a": 5}]}"#,
    r#"{"update": "c", "updates": [{"q": {"_id": 2}, "u": {"$set": {"a": 9}}}]}"#,
    r#"{"create": "view", "viewOn": "c", "pipeline": [{"$match": {"a": {"$gt": 4}}}]}"#,
    r#"{"collMod": "view", "viewOn": "c", "pipeline": [{"$match": {"a": {"$lt": 4}}}]}"#,
    r#"{"dropIndexes": "c", "index": "a"}"#,
    r#"{"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 1}]}"#,
    r#"{"create": "capped", "capped": true, "size": 4096, "max": 2}"#,
    r#"{"insert": "capped", "documents": [{"_id": 3}, {"_id": 2}, {"_id": 1}]}"#,
    r#"{"create": "series", "timeseries": {"timeField": "t"}}"#,
    r#"{"insert": "series", "documents": [{"_id": 1, "t": {"$date": "2026-01-01T00:00:00Z"}}]}"#,
    r#"{"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a", "unique": true}]}"#,
    r#"{"drop": "c"}"#,
    r#"{"insert": "c", "documents": [{"_id": 2, "b": 1}]}"#,
    r#"{"dropDatabase": 1}"#,
    r#"{"insert": "c", "documents": [{"_id": 7, "a": 5}]}"#,
];

#[test]
fn each_change_is_in_the_next_read() {
    let mut p = pair(false);
    let mut here = 0;
    let rename = r#"{"renameCollection": "db.c", "to": "db.renamed"}"#;
    for (n, write) in WRITES.iter().enumerate() {
        p.write("db", write);
        if n == 5 {
            p.write("admin", rename);
            p.write("db", WRITES[0]);
            p.write("db", WRITES[1]);
        }
        for read in READS {
            let expected = send(&p.holder, &mut p.writer, "db", json(read).doc());
            match p.read("db", read) {
                Some(found) => {
                    here += 1;
                    let (found, expected) =
                        (remove_times(found.doc()), remove_times(expected.doc()));
                    assert_eq!(found, expected, "{read} after {write}");
                }
                // The error comes from the holder.
                None => assert_ne!(code(&expected), 0, "{read} after {write}: {expected:?}"),
            }
        }
    }
    let all = WRITES.len() * READS.len();
    assert!(here * 10 > all * 9, "{here} of {all} reads were executed");
}

#[test]
fn a_reader_keeps_its_cursor_and_forwards_cursors_of_the_holder() {
    let mut p = pair(false);
    for n in 0..10 {
        p.write(
            "db",
            &format!(r#"{{"insert": "c", "documents": [{{"_id": {n}}}]}}"#),
        );
    }
    let find = r#"{"find": "c", "batchSize": 3}"#;
    let first = p.read("db", find).expect("it is read here");
    let id = first.doc().field("cursor").as_doc().unwrap().field("id");
    let id = id.as_i64_exact().expect("there is more");
    p.write("db", r#"{"drop": "c"}"#);
    let more = format!(r#"{{"getMore": {{"$numberLong": "{id}"}}, "collection": "c"}}"#);
    let rest = p.read("db", &more).expect("its cursor is here");
    let rest = rest.doc().field("cursor").as_doc().unwrap();
    assert_eq!(
        rest.field("nextBatch").as_array().unwrap().iter().count(),
        7
    );
    assert!(p.read("db", &more).is_none(), "it has ended");
    p.write(
        "db",
        r#"{"insert": "d", "documents": [{"_id": 1}, {"_id": 2}]}"#,
    );
    let other = p.write("db", r#"{"find": "d", "batchSize": 1}"#);
    let id = other.doc().field("cursor").as_doc().unwrap().field("id");
    let id = id.as_i64_exact().unwrap();
    let more = format!(r#"{{"getMore": {{"$numberLong": "{id}"}}, "collection": "d"}}"#);
    assert!(p.read("db", &more).is_none(), "the holder's cursor");
    let kill = format!(r#"{{"killCursors": "d", "cursors": [{{"$numberLong": "{id}"}}]}}"#);
    assert!(p.read("db", &kill).is_none(), "the holder's cursor");
}

#[test]
fn an_ended_session_closes_its_local_cursors() {
    let mut p = pair(false);
    let insert = r#"{"insert": "c", "documents": [{"_id": 1}, {"_id": 2}]}"#;
    p.write("db", insert);
    let lsid = r#"{"id": {"$binary": {"base64": "AAAAAAAAAAAAAAAAAAAAAA==", "subType": "04"}}}"#;
    let find = format!(r#"{{"find": "c", "batchSize": 1, "lsid": {lsid}}}"#);
    let first = p.read("db", &find).expect("it is read here");
    let id = first.doc().field("cursor").as_doc().unwrap().field("id");
    let id = id.as_i64_exact().expect("there is more");
    assert!(p.reading.service().cursors.owner(id).is_some());
    let mut body = json(&format!(r#"{{"endSessions": [{lsid}]}}"#));
    body.put("$db", "admin");
    let request = Request::new(body.doc());
    assert!(!p.reading.is_for(&request));
    p.reading.hand_on(&mut p.reader, &request);
    assert!(p.reading.service().cursors.owner(id).is_none());
}

#[test]
fn commands_other_than_current_reads_are_forwarded() {
    let mut p = pair(false);
    p.write(
        "db",
        r#"{"create": "capped", "capped": true, "size": 4096}"#,
    );
    for (db, command) in [
        ("db", r#"{"insert": "c", "documents": [{"_id": 1}]}"#),
        (
            "db",
            r#"{"find": "c", "txnNumber": {"$numberLong": "1"}, "autocommit": false}"#,
        ),
        ("db", r#"{"find": "capped", "tailable": true}"#),
        (
            "db",
            r#"{"find": "c", "readConcern": {"level": "snapshot"}}"#,
        ),
        (
            "db",
            r#"{"aggregate": "c", "pipeline": [{"$changeStream": {}}], "cursor": {}}"#,
        ),
        (
            "db",
            r#"{"aggregate": "c", "pipeline": [{"$out": "d"}], "cursor": {}}"#,
        ),
        (
            "db",
            r#"{"aggregate": "c", "pipeline": [{"$facet": {"a": [{"$collStats": {}}]}}],
                "cursor": {}}"#,
        ),
        (
            "db",
            r#"{"aggregate": "c", "pipeline": [{"$unionWith": {"coll": "d", "pipeline":
                [{"$indexStats": {}}]}}], "cursor": {}}"#,
        ),
        (
            "db",
            r#"{"aggregate": "c", "pipeline": [{"$lookup": {"from": {"db": "local", "coll":
                "oplog.rs"}, "pipeline": [], "as": "x"}}], "cursor": {}}"#,
        ),
        (
            "db",
            r#"{"aggregate": "c", "pipeline": [{"$search": {"text": {"query": "a", "path": "b"}}}],
                "cursor": {}}"#,
        ),
        (
            "db",
            r#"{"aggregate": "c", "pipeline": [{"$lookup": {"from": "d", "pipeline":
                [{"$vectorSearch": {}}], "as": "x"}}], "cursor": {}}"#,
        ),
        (
            "db",
            r#"{"aggregate": "c", "pipeline": [{"$unionWith": "system.views"}], "cursor": {}}"#,
        ),
        (
            "db",
            r#"{"aggregate": 1, "pipeline": [{"$currentOp": {}}], "cursor": {}}"#,
        ),
        ("db", r#"{"find": "system.js"}"#),
        ("local", r#"{"find": "oplog.rs"}"#),
        ("admin", r#"{"find": "system.users"}"#),
        // The holder answers requests that fail.
        ("db", r#"{"find": "capped", "filter": {"$nothing": 1}}"#),
        ("db", r#"{"find": "capped", "unknown": 1}"#),
    ] {
        assert!(p.read(db, command).is_none(), "{command}");
    }
    let status = p.read("admin", r#"{"serverStatus": 1}"#).expect("its own");
    let quarry = status.doc().field("quarry").as_doc().unwrap();
    let reads = quarry.field("reads").as_doc().unwrap();
    assert_eq!(reads.field("handedOn").as_i64_exact(), Some(2), "{reads:?}");
}

#[test]
fn rights_are_those_of_the_next_read() {
    let mut p = pair(true);
    let user = r#"{"createUser": "u", "pwd": "secret", "roles": [{"role": "read", "db": "db"}]}"#;
    let root = r#"{"createUser": "root", "pwd": "secret", "roles": ["root"]}"#;
    p.write("admin", root);
    let told = |name: &str, db: &str| {
        doc! { "authInfo": { "authenticatedUsers": [{ "user": name, "db": db }] } }
    };
    // The administrator's connection to the holder.
    let mut admin = p.reading.dispatcher().connect("127.0.0.1:3");
    assert!(p.reading.log_in(&mut admin, told("root", "admin").doc()));
    p.writer.identity = std::mem::take(&mut admin.identity);
    p.write("admin", user);
    p.write("db", r#"{"insert": "c", "documents": [{"_id": 1}]}"#);
    let find = r#"{"find": "c"}"#;
    assert!(p.read("db", find).is_none(), "nobody has logged in");
    assert!(
        !p.reading
            .log_in(&mut p.reader, told("nobody", "admin").doc())
    );
    assert!(
        !p.reading
            .log_in(&mut p.reader, told("u", "$external").doc())
    );
    assert!(!p.reading.log_in(&mut p.reader, doc! { "ok": 1.0 }.doc()));
    assert!(p.read("db", find).is_none(), "nobody has logged in");
    assert!(p.reading.log_in(&mut p.reader, told("u", "admin").doc()));
    assert!(p.read("db", find).is_some());
    assert!(p.read("other", find).is_none(), "no right to this database");
    let revoke = r#"{"revokeRolesFromUser": "u", "roles": [{"role": "read", "db": "db"}]}"#;
    p.write("admin", revoke);
    assert!(p.read("db", find).is_none(), "the right was revoked");
    p.write("admin", &revoke.replace("revokeRolesFrom", "grantRolesTo"));
    assert!(p.read("db", find).is_some());
    p.write("admin", r#"{"dropUser": "u"}"#);
    assert!(p.read("db", find).is_none(), "the user is gone");
}
