//! What connections may see of one another: their clients, and the operation that each runs now.

use access::user::User;
use model::{DocBuf, OwnedValue};
use operation::Operation;
use parking_lot::Mutex;
use request::spec::Spec;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};

/// The part of a connection that other connections may see.
#[derive(Debug, Default)]
pub struct ConnectionInfo {
    /// Number of the connection.
    pub id: i64,
    /// Address of the client.
    pub peer: String,
    /// The server's address that the client connected to; empty for a unix socket.
    pub local: OnceLock<IpAddr>,
    /// The identity of the connection in the audit; created when it is first asked for.
    uuid: OnceLock<[u8; 16]>,
    /// The user who is logged in.
    pub user: Mutex<Option<Arc<User>>>,
    /// The `client` document of its handshake.
    pub client: Mutex<Option<DocBuf>>,
    /// The operation that runs now.
    pub op: Mutex<Option<CurrentOp>>,
    /// Buffers of the previous operation, to be reused by the next.
    pub spare: Mutex<(String, Vec<u8>)>,
}

impl ConnectionInfo {
    /// The name of the connection in the log.
    pub fn name(&self) -> String {
        format!("conn{}", self.id)
    }
    /// The identity of the connection, unique across restarts.
    pub(crate) fn uuid(&self) -> [u8; 16] {
        *self.uuid.get_or_init(|| {
            let mut id: [u8; 16] = rand::random();
            // UUID version 4, variant 1.
            id[6] = (id[6] & 0x0f) | 0x40;
            id[8] = (id[8] & 0x3f) | 0x80;
            id
        })
    }
    /// The `application.name` of its handshake.
    pub fn application(&self) -> Option<String> {
        let client = self.client.lock();
        let application = client.as_ref()?.doc().field("application").as_doc()?;
        application.field("name").as_str().map(str::to_owned)
    }
}

/// A running operation.
#[derive(Clone, Debug)]
pub struct CurrentOp {
    /// The number of the operation, for `killOp`.
    pub opid: i32,
    /// Start, monotonic microseconds.
    pub start_us: u64,
    /// Start, milliseconds since the epoch.
    pub start_ms: i64,
    /// The command.
    pub command: &'static Spec,
    /// The database.
    pub db: String,
    /// The command document; empty when too large to keep.
    pub body: Vec<u8>,
    /// The session.
    pub lsid: Option<[u8; 16]>,
    /// The operation, by which it can be interrupted.
    pub operation: Arc<Operation>,
    /// The cursor that the operation uses.
    pub cursor: Option<i64>,
    /// The comment of the command that opened the cursor, if the operation's own command has none.
    pub comment: Option<OwnedValue>,
    /// The operation was set aside until another operation releases a lock.
    pub waits_for_lock: bool,
}

/// All connections that are open.
#[derive(Debug)]
pub struct Connections {
    next: AtomicI64,
    open: Mutex<BTreeMap<i64, Arc<ConnectionInfo>>>,
}

impl Default for Connections {
    fn default() -> Connections {
        Connections {
            next: AtomicI64::new(1),
            open: Mutex::default(),
        }
    }
}

impl Connections {
    /// Adds a connection from `peer` (`host:port`).
    pub fn add(&self, peer: &str) -> Arc<ConnectionInfo> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let info = Arc::new(ConnectionInfo {
            id,
            peer: peer.to_owned(),
            ..ConnectionInfo::default()
        });
        self.open.lock().insert(id, Arc::clone(&info));
        info
    }
    /// Removes a connection that is closed.
    pub fn remove(&self, id: i64) {
        self.open.lock().remove(&id);
    }
    /// An open connection by its number.
    pub(crate) fn get(&self, id: i64) -> Option<Arc<ConnectionInfo>> {
        self.open.lock().get(&id).cloned()
    }
    /// The connections that are open now.
    pub fn list(&self) -> Vec<Arc<ConnectionInfo>> {
        self.open.lock().values().cloned().collect()
    }
    /// How many connections are open now.
    pub fn count(&self) -> usize {
        self.open.lock().len()
    }
    /// Connections opened since the start.
    pub fn created_count(&self) -> i64 {
        self.next.load(Ordering::Relaxed) - 1
    }
}
