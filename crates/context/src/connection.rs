//! State of one connection between its requests.

use super::held::UnsentReply;
use super::progress::Progress;
use super::spent::ResourceUse;
use access::Identity;
use memory::Account;
use operation::{ConnectionId, Link, OpaqueValue, Operation, ReadTotals};
use request::WaitFor;
use state::admission::QueueEntry;
use state::config::Config;
use state::connections::{ConnectionInfo, Connections};
use state::counters::NamespaceCache;
use state::cursors::Cursors;
use state::failpoints::Failure;
use state::service::Service;
use state::waiters;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use store::ReadView;

/// State of one connection.
pub struct Connection {
    /// The part of the state that other connections may see.
    pub info: Arc<ConnectionInfo>,
    /// The user who is logged in.
    pub identity: Identity,
    /// The client has sent `helloOk`.
    pub hello_ok: bool,
    /// The version of the topology that the last greeting reported.
    pub told_topology: Option<i64>,
    /// The name under which the client reaches this server, `host:port`, if its connection shows
    /// it.
    reached_as: Option<String>,
    /// Compressors that both sides support, in the client's order.
    pub compressors: Vec<&'static str>,
    /// The failure that a fail point delays.
    pub failing: Option<Failure>,
    /// The operation of the previous request, to be reused for the next one.
    pub operation: Arc<Operation>,
    /// The data that the connection's operation waits for.
    pub awaits: Option<DataWait>,
    /// The place of its operation in the admission queue.
    pub place: Option<QueueEntry>,
    /// How long its operation has waited for admission; `None` when it has not waited.
    pub queued_us: Option<u64>,
    /// How long its operation has waited for locks of other operations.
    pub locked_us: u64,
    /// The resources that its operation has used, if they are measured.
    pub spent: Option<ResourceUse>,
    /// The running command contains secrets: its document is not shown anywhere.
    pub is_secret: bool,
    /// The wait that its operation was set aside for.
    pub set_aside: Option<SuspendedWait>,
    /// The registration that woke the operation that runs again. When it is dropped, the next
    /// waiter is woken.
    pub woken_by: Option<OpaqueValue>,
    /// The progress of its operation when it was set aside.
    pub progress: Progress,
    /// The namespace that was used last.
    pub last_used: NamespaceCache,
    /// When its operation has begun to wait for data, monotonic microseconds.
    pub idle_since_us: Option<u64>,
    /// How long its operation has waited for data.
    pub idle_us: u64,
    /// The operation whose reply waits for the journal.
    pub held: Option<Box<UnsentReply>>,
    /// The state that its operation reads, if that is not the latest state.
    pub(crate) view: Option<ReadView>,
    all: Arc<Connections>,
}

impl Connection {
    /// Creates the state of a new connection from `peer` (`host:port`). Waking `link` ends the
    /// connection's waits; its reads end when `link` reports that the client has disconnected.
    pub fn new(service: &Service, peer: &str, link: Option<Arc<dyn Link>>) -> Connection {
        let info = service.connections.add(peer);
        let operation = Operation::new(
            Arc::clone(&service.clock),
            link,
            Arc::new(Account::new(Arc::clone(&service.config.memory))),
            service.state.user_writes.clone(),
        );
        Connection {
            operation: Arc::new(operation.of_connection(ConnectionId(info.id))),
            info,
            identity: Identity::of(peer),
            hello_ok: false,
            told_topology: None,
            reached_as: None,
            compressors: Vec::new(),
            failing: None,
            spent: None,
            awaits: None,
            place: None,
            queued_us: None,
            locked_us: 0,
            is_secret: false,
            set_aside: None,
            woken_by: None,
            progress: Progress::default(),
            last_used: NamespaceCache::default(),
            idle_since_us: None,
            idle_us: 0,
            held: None,
            view: None,
            all: Arc::clone(&service.connections),
        }
    }
}

impl Connection {
    /// What the current operation has read, or the last one when none runs.
    pub fn read_totals(&self) -> ReadTotals {
        self.operation.reads().read_totals()
    }

    /// Sets the state that the next operations outside of transactions read; `None` lets their read
    /// concern decide.
    pub fn set_view(&mut self, view: Option<ReadView>) {
        self.view = view;
    }

    /// The state that was set.
    pub fn view(&self) -> Option<&ReadView> {
        self.view.as_ref()
    }

    /// Notes that the operation waits from this monotonic microsecond on.
    pub fn waits(&mut self, on: &WaitFor, now_us: u64) {
        match on {
            WaitFor::Data { .. } | WaitFor::Topology => self.idle_since_us = Some(now_us),
            WaitFor::Release | WaitFor::Unlock => {
                if let Some(op) = self.info.op.lock().as_mut() {
                    op.waits_for_lock = true;
                }
            }
            _ => {}
        }
    }

    /// Notes the address of this server that the client connected to.
    pub fn set_server_address(&mut self, server: Option<IpAddr>) {
        self.identity.set_server_address(server);
        if let Some(ip) = server {
            // The cell is set once, when the client connects.
            let _ = self.info.local.set(ip);
        }
    }

    /// Notes the name, `host:port`, under which the client reaches this server.
    pub fn set_server_name(&mut self, name: String) {
        self.reached_as = Some(name);
    }

    /// The address that this client is told: the configured one if all clients are told the same,
    /// otherwise the address that the client connected to.
    pub fn advertised_address<'a>(&'a self, config: &'a Config) -> &'a str {
        match &self.reached_as {
            Some(name) if !config.is_host_advertised => name,
            _ => &config.host,
        }
    }

    /// Shows other connections who is logged in now.
    pub fn show_user(&self) {
        *self.info.user.lock() = self.identity.user().cloned();
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.all.remove(self.info.id);
    }
}

/// The wait that an operation was set aside for. The operation counts as queued until this is
/// dropped.
pub struct SuspendedWait {
    /// What keeps it in the queue of the one it waits for.
    pub registered: Option<OpaqueValue>,
    queued: Arc<AtomicI64>,
    /// When the operation was set aside, monotonic microseconds.
    pub since_us: u64,
}

impl SuspendedWait {
    /// Counts the operation as queued.
    pub fn new(
        registered: Option<OpaqueValue>,
        queued: &Arc<AtomicI64>,
        since_us: u64,
    ) -> SuspendedWait {
        queued.fetch_add(1, Relaxed);
        SuspendedWait {
            registered,
            queued: Arc::clone(queued),
            since_us,
        }
    }
}

impl Drop for SuspendedWait {
    fn drop(&mut self) {
        self.queued.fetch_sub(1, Relaxed);
    }
}

/// A wait for data during a getMore.
pub struct DataWait {
    /// The suspended cursor; it is closed when this is dropped.
    pub cursor: Option<i64>,
    /// The end of the wait, monotonic microseconds.
    pub until_us: u64,
    /// Wakes the operation when there are data.
    pub _waiting: WaitRegistration,
    /// The open cursors of the server.
    pub cursors: Arc<Cursors>,
}

/// Keeps the operation registered for new data until dropped.
pub enum WaitRegistration {
    /// New documents of a capped collection.
    Capped {
        /// The registration with the collection.
        _waiter: waiters::WaiterGuard,
    },
    /// New entries of the log.
    Log {
        /// The registration with the log.
        _waker: store::WakerGuard,
    },
}

impl Drop for DataWait {
    fn drop(&mut self) {
        if let Some(id) = self.cursor {
            self.cursors.close(id);
        }
    }
}
