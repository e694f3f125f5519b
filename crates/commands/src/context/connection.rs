//! State of one connection between its requests.

use super::held::Held;
use super::progress::Progress;
use super::spent::Spent;
use crate::access::Identity;
use crate::config::Config;
use crate::request::WaitFor;
use crate::state::admission::Place;
use crate::state::connections::{ConnectionInfo, Connections};
use crate::state::counters::LastUsed;
use crate::state::cursors::Cursors;
use crate::state::failpoints::Failure;
use crate::state::service::Service;
use crate::state::waiters;
use memory::Account;
use operation::{ConnectionId, Examined, Link, OpaqueValue, Operation};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use store::ReadView;

/// State of one connection.
pub struct Connection {
    /// What others may see.
    pub info: Arc<ConnectionInfo>,
    /// Who it is.
    pub identity: Identity,
    /// `helloOk` was asked for.
    pub hello_ok: bool,
    /// The state of the topology that a greeting has told last.
    pub(crate) told_topology: Option<i64>,
    /// The client's name of this server, `host:port`, as far as its connection shows it.
    reached_as: Option<String>,
    /// Compressors both sides know, in the client's order.
    pub compressors: Vec<&'static str>,
    /// The failure a fail point holds back until its time has come.
    pub(crate) failing: Option<Failure>,
    /// Of the operation before, for the next one.
    pub(crate) operation: Arc<Operation>,
    /// What its operation waits for.
    pub(crate) awaits: Option<DataWait>,
    /// The place of its operation among those that wait to run.
    pub(crate) place: Option<Place>,
    /// How long its operation has waited to run, and whether it has.
    pub(crate) queued_us: Option<u64>,
    /// How long its operation has waited for locks of others.
    pub(crate) locked_us: u64,
    /// What its operation has cost, where that is measured.
    pub(crate) spent: Option<Spent>,
    /// What it runs now carries secrets: its document is shown nowhere.
    pub(crate) is_secret: bool,
    /// What its operation was set aside for.
    pub(crate) set_aside: Option<SetAside>,
    /// What woke the operation that runs again: who waits behind it is called when this goes.
    pub(crate) woken_by: Option<OpaqueValue>,
    /// What its operation had done when it was set aside.
    pub(crate) progress: Progress,
    /// The namespace used last.
    pub(crate) last_used: LastUsed,
    /// Since when its operation waits for data, monotonic microseconds.
    pub(crate) idle_since_us: Option<u64>,
    /// How long its operation has waited for data.
    pub(crate) idle_us: u64,
    /// The operation whose reply waits for the journal.
    pub(crate) held: Option<Box<Held>>,
    /// What its operation reads where it is not the latest state.
    pub(crate) view: Option<ReadView>,
    all: Arc<Connections>,
}

impl Connection {
    /// A new connection from `peer` (`host:port`). Its waits end when `link` is woken, and its
    /// reads end when that says that the client has gone.
    pub(crate) fn new(service: &Service, peer: &str, link: Option<Arc<dyn Link>>) -> Connection {
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
            last_used: LastUsed::default(),
            idle_since_us: None,
            idle_us: 0,
            held: None,
            view: None,
            all: Arc::clone(&service.connections),
        }
    }
}

impl Connection {
    /// What its operation has read, or the last one.
    pub fn examined(&self) -> Examined {
        self.operation.reads().examined()
    }

    /// What its next operations read, outside of transactions; `None` for what they ask for.
    pub(crate) fn reads_at(&mut self, view: Option<ReadView>) {
        self.view = view;
    }

    /// Its operation waits from this monotonic microsecond on.
    pub(crate) fn waits(&mut self, on: &WaitFor, now_us: u64) {
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

    /// Notes at which of our addresses the client came in.
    pub fn came_in_at(&mut self, server: Option<IpAddr>) {
        self.identity.came_in_at(server);
        if let Some(ip) = server {
            // Said once, when it connects.
            let _ = self.info.local.set(ip);
        }
    }

    /// Notes by which name, `host:port`, the client reaches this server.
    pub fn reached_as(&mut self, name: String) {
        self.reached_as = Some(name);
    }

    /// The address that this client is told: the one that the configuration gives to everybody, or
    /// else the one that the client has come in at.
    pub(crate) fn advertised_address<'a>(&'a self, config: &'a Config) -> &'a str {
        match &self.reached_as {
            Some(name) if !config.is_host_advertised => name,
            _ => &config.host,
        }
    }

    /// Shows others who is logged in now.
    pub(crate) fn show_user(&self) {
        *self.info.user.lock() = self.identity.user().cloned();
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.all.remove(self.info.id);
    }
}

/// What an operation was set aside for; it counts as queued until dropped.
pub(crate) struct SetAside {
    pub(crate) registered: Option<OpaqueValue>,
    queued: Arc<AtomicI64>,
    /// Since when, monotonic microseconds.
    pub(crate) since_us: u64,
}

impl SetAside {
    pub(crate) fn new(
        registered: Option<OpaqueValue>,
        queued: &Arc<AtomicI64>,
        since_us: u64,
    ) -> SetAside {
        queued.fetch_add(1, Relaxed);
        SetAside {
            registered,
            queued: Arc::clone(queued),
            since_us,
        }
    }
}

impl Drop for SetAside {
    fn drop(&mut self) {
        self.queued.fetch_sub(1, Relaxed);
    }
}

/// A wait for data in the middle of a getMore.
pub(crate) struct DataWait {
    /// The suspended cursor; it ends when this is dropped.
    pub(crate) cursor: Option<i64>,
    /// Monotonic microseconds.
    pub(crate) until_us: u64,
    pub(crate) _waiting: Waiting,
    pub(crate) cursors: Arc<Cursors>,
}

/// What wakes the operation, until dropped.
pub(crate) enum Waiting {
    /// New documents of a capped collection.
    Capped { _waiter: waiters::Waiting },
    /// New entries of the log.
    Log { _waker: store::Waking },
}

impl Drop for DataWait {
    fn drop(&mut self) {
        if let Some(id) = self.cursor {
            self.cursors.close(id);
        }
    }
}
