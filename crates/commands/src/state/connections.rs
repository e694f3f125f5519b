//! What connections may see of one another: who is there, and what each runs now.

use crate::access::user::User;
use crate::request::spec::Spec;
use model::{DocBuf, OwnedValue};
use operation::Operation;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};

/// What other connections may see of one.
#[derive(Debug, Default)]
pub struct ConnectionInfo {
    /// Number of the connection.
    pub id: i64,
    /// Address of the client.
    pub peer: String,
    /// Our address it came in at; none for a unix socket.
    pub(crate) local: OnceLock<IpAddr>,
    /// What tells it from others in the audit; made when it is first asked for.
    uuid: OnceLock<[u8; 16]>,
    /// Who is logged in.
    pub user: Mutex<Option<Arc<User>>>,
    /// The `client` document of its handshake.
    pub client: Mutex<Option<DocBuf>>,
    /// The operation running now.
    pub op: Mutex<Option<CurrentOp>>,
    /// Buffers of the operation before, for the next one.
    pub(crate) spare: Mutex<(String, Vec<u8>)>,
}

impl ConnectionInfo {
    /// As the log calls it.
    pub fn name(&self) -> String {
        format!("conn{}", self.id)
    }
    /// What tells it from all others, over restarts.
    pub(crate) fn uuid(&self) -> [u8; 16] {
        *self.uuid.get_or_init(|| {
            let mut id: [u8; 16] = rand::random();
            // Version 4, the usual variant.
            id[6] = (id[6] & 0x0f) | 0x40;
            id[8] = (id[8] & 0x3f) | 0x80;
            id
        })
    }
    /// The `application.name` of its handshake.
    pub(crate) fn application(&self) -> Option<String> {
        let client = self.client.lock();
        let application = client.as_ref()?.doc().field("application").as_doc()?;
        application.field("name").as_str().map(str::to_owned)
    }
}

/// A running operation.
#[derive(Clone, Debug)]
pub struct CurrentOp {
    /// Operation number, as `killOp` takes it.
    pub opid: i32,
    /// Start, monotonic microseconds.
    pub start_us: u64,
    /// Start, milliseconds since the epoch.
    pub start_ms: i64,
    /// Its command.
    pub command: &'static Spec,
    /// Its database.
    pub db: String,
    /// The command document; empty when too large to keep.
    pub body: Vec<u8>,
    /// Session.
    pub lsid: Option<[u8; 16]>,
    /// Ends it.
    pub operation: Arc<Operation>,
    /// Cursor it uses.
    pub cursor: Option<i64>,
    /// The comment of the command that opened the cursor, where its own has none.
    pub comment: Option<OwnedValue>,
    /// It was set aside until somebody else gives something back.
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
    /// Adds one from `peer` (`host:port`).
    pub(crate) fn add(&self, peer: &str) -> Arc<ConnectionInfo> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let info = Arc::new(ConnectionInfo {
            id,
            peer: peer.to_owned(),
            ..ConnectionInfo::default()
        });
        self.open.lock().insert(id, Arc::clone(&info));
        info
    }
    /// Forgets one that is closed.
    pub(crate) fn remove(&self, id: i64) {
        self.open.lock().remove(&id);
    }
    /// One that is open.
    pub(crate) fn get(&self, id: i64) -> Option<Arc<ConnectionInfo>> {
        self.open.lock().get(&id).cloned()
    }
    /// Those open now.
    pub fn list(&self) -> Vec<Arc<ConnectionInfo>> {
        self.open.lock().values().cloned().collect()
    }
    /// How many are open now.
    pub fn count(&self) -> usize {
        self.open.lock().len()
    }
    /// Connections made since the start.
    pub fn created(&self) -> i64 {
        self.next.load(Ordering::Relaxed) - 1
    }
}
