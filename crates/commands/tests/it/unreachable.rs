//! A cluster that is unreachable for some time: clients get an error after which drivers repeat the
//! command, nothing is written, and the same command succeeds afterwards.

use crate::behaviour::{send, serve};
use crate::interrupts::{code, json};
use crate::reading::{alike, reads};
use commands::{Config, Connection, Dispatcher, StoreHooks, SystemClock};
use model::DocBuf;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use storage::{
    Caps, CommitPos, Cursor, CursorOpts, Durability, DurableHook, Engine, IdentSet, KeyRange,
    MemoryEngine, Reader, Result, Snapshot, StatSink, StorageError, Table, VerifyReport,
    WriteBatch,
};
use store::Store;

/// An engine whose cluster can be made unreachable.
struct RemoteEngine {
    inner: Arc<MemoryEngine>,
    is_away: AtomicBool,
}

reads!(RemoteEngine, self, self.inner);

impl Engine for RemoteEngine {
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
        if self.is_away.load(Ordering::Relaxed) {
            return Err(StorageError::Unreachable("no answer in 25 s".to_owned()));
        }
        self.inner.apply(batch, durability)
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

struct Server {
    engine: Arc<RemoteEngine>,
    dispatcher: Arc<Dispatcher>,
    connection: Connection,
}

fn server() -> Server {
    let engine = Arc::new(RemoteEngine {
        inner: Arc::new(MemoryEngine::new()),
        is_away: AtomicBool::new(false),
    });
    let hooks = StoreHooks::new(Arc::new(SystemClock::default())).with_log(1 << 20);
    let shared: Arc<dyn Engine> = Arc::clone(&engine) as Arc<dyn Engine>;
    let store = Store::open(shared, Arc::new(hooks)).expect("a store");
    let dispatcher = serve(Config::default(), Arc::new(store));
    Server {
        engine,
        connection: dispatcher.connect("127.0.0.1:1"),
        dispatcher,
    }
}

impl Server {
    fn send(&mut self, command: &str) -> DocBuf {
        let db = if command.contains("commitTransaction") {
            "admin"
        } else {
            "db"
        };
        send(
            &self.dispatcher,
            &mut self.connection,
            db,
            json(command).doc(),
        )
    }

    fn set_away(&self, is_away: bool) {
        self.engine.is_away.store(is_away, Ordering::Relaxed);
    }
}

fn labels(reply: &DocBuf) -> Vec<String> {
    let labels = reply.doc().field("errorLabels");
    let labels = labels
        .as_array()
        .into_iter()
        .flat_map(|list| list.iter().collect::<Vec<_>>());
    labels
        .filter_map(|label| label.as_str().map(str::to_owned))
        .collect()
}

const SESSION: &str = concat!(
    r#""lsid": {"id": {"$binary": "#,
    r#"{"base64": "AAAAAAAAAAAAAAAAAAAAAQ==", "subType": "04"}}}"#
);

#[test]
fn a_write_that_does_not_reach_the_data_is_one_that_drivers_repeat() {
    let mut server = server();
    assert_eq!(code(&server.send(r#"{"create": "c"}"#)), 0);
    let number = r#""txnNumber": {"$numberLong": "1"}"#;
    let insert = format!(r#"{{"insert": "c", "documents": [{{"_id": 1}}], {SESSION}, {number}}}"#);
    server.set_away(true);
    let reply = server.send(&insert);
    assert_eq!(code(&reply), 6, "{reply:?}");
    assert_eq!(labels(&reply), ["RetryableWriteError"], "{reply:?}");
    // A driver does not repeat a command without a number, and gets no label for it.
    let reply = server.send(r#"{"insert": "c", "documents": [{"_id": 2}]}"#);
    assert_eq!((code(&reply), labels(&reply)), (6, Vec::new()), "{reply:?}");
    server.set_away(false);
    let reply = server.send(&insert);
    assert_eq!(
        (code(&reply), reply.doc().field("n").as_i64_exact()),
        (0, Some(1)),
        "{reply:?}"
    );
    let reply = server.send(r#"{"count": "c"}"#);
    assert_eq!(reply.doc().field("n").as_i64_exact(), Some(1), "{reply:?}");
}

#[test]
fn a_commit_that_does_not_reach_the_data_can_be_repeated() {
    let mut server = server();
    assert_eq!(code(&server.send(r#"{"create": "c"}"#)), 0);
    let number = format!(r#"{SESSION}, "txnNumber": {{"$numberLong": "1"}}, "autocommit": false"#);
    let insert = format!(
        r#"{{"insert": "c", "documents": [{{"_id": 1}}], {number}, "startTransaction": true}}"#
    );
    assert_eq!(code(&server.send(&insert)), 0);
    let commit = format!(r#"{{"commitTransaction": 1, {number}}}"#);
    server.set_away(true);
    let reply = server.send(&commit);
    assert_eq!(code(&reply), 6, "{reply:?}");
    assert_eq!(labels(&reply), ["RetryableWriteError"], "{reply:?}");
    server.set_away(false);
    let reply = server.send(&commit);
    // Either the commit succeeds, or the transaction is known to be aborted; it is never lost
    // after an acknowledgement.
    let committed = code(&reply) == 0;
    assert!(committed || code(&reply) == 251, "{reply:?}");
    let reply = server.send(r#"{"count": "c"}"#);
    let found = reply.doc().field("n").as_i64_exact();
    assert_eq!(found, Some(i64::from(committed)), "{reply:?}");
}
