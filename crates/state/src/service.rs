//! The state that all connections share. Must not know: how requests are dispatched, which commands
//! exist.

use super::State;
use super::connections::Connections;
use super::counters::Counters;
use super::cursors::Cursors;
use super::machine::Host;
use super::parameters::Parameters;
use super::room::LargeBudget;
use super::search::SearchIndexes;
use super::sessions::Session;
use super::ttl::Ttl;
use super::waiters::CappedWaiters;
use crate::config::Config;
use crate::release::Release;
use access::{Access, LoginConfig};
use model::{MongoError, ObjectId, Result, Timestamp, code};
use operation::{Clock, Operation, interrupted_error};
use operators::Scripts;
use request::args::to_i64;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;
use store::Store;

/// The state that all connections share.
pub struct Service {
    /// Configuration.
    pub config: Config,
    /// The data.
    pub store: Arc<Store>,
    /// Users, roles and rights.
    pub access: Access,
    /// The source of time.
    pub clock: Arc<dyn Clock>,
    /// Counters of operations.
    pub counters: Counters,
    /// Room for operations on large documents.
    pub room: LargeBudget,
    /// Open cursors.
    pub cursors: Arc<Cursors>,
    /// Operations that wait for data in capped collections.
    pub capped_waiters: Arc<CappedWaiters>,
    /// The collections in which documents expire.
    pub ttl: Ttl,
    /// Search indexes and their states.
    pub search: SearchIndexes,
    /// Parameters, sessions, profiling and the like.
    pub state: State,
    /// Time of the start, milliseconds since the epoch.
    pub started_ms: i64,
    /// Time of the start, monotonic microseconds.
    pub started_us: u64,
    /// Identity of this process, part of the topology version.
    pub process_id: ObjectId,
    /// Identity of the election that made this server primary, unless it belongs to a pair.
    election_id: ObjectId,
    /// The open connections.
    pub connections: Arc<Connections>,
    topology_counter: AtomicI64,
    next_op: AtomicI64,
    operation_time: AtomicU64,
    me: std::sync::OnceLock<std::sync::Weak<Service>>,
    /// Runs JavaScript; set when the service is shared.
    scripts: std::sync::OnceLock<Arc<script::Engine>>,
}

/// The largest lead, in seconds, of a cluster time that the server follows
/// (`maxAcceptableLogicalClockDriftSecs`).
const CLOCK_AHEAD_S_MAX: i64 = 365 * 24 * 3600;
/// How often an operation is restarted when its collection is replaced while it runs.
pub const REPLACED_RETRIES: usize = 10;

/// Sets the limits of 9.0: how many transactions may be open, and that one operation may use a
/// fifth of the machine's memory, or 1 GiB if that is more.
fn bound_operations(parameters: &Parameters) {
    const TRANSACTIONS: i64 = 10_000;
    const OPERATION_BYTES_MIN: i64 = 1 << 30;
    let share = Host::read().memory_limit_bytes / 5;
    parameters.follow_release("maxConcurrentMultiDocumentTransactions", TRANSACTIONS);
    parameters.follow_release(
        "internalQueryMaxMemoryUsageBytesPerOperation",
        share.max(OPERATION_BYTES_MIN),
    );
}

impl Service {
    /// An operation for writes of the server itself.
    pub fn own_operation(&self) -> Operation {
        Operation::new_detached(Arc::clone(&self.clock))
    }

    /// Creates a service.
    pub fn new(config: Config, clock: Arc<dyn Clock>, store: Arc<Store>) -> Service {
        let started_ms = clock.now_ms();
        let seconds = u32::try_from(started_ms / 1000).unwrap_or(0);
        let mut process_id = [0u8; 12];
        process_id[..4].copy_from_slice(&seconds.to_be_bytes());
        process_id[4..].copy_from_slice(&rand::random::<[u8; 8]>());
        let access = Access::new(
            Arc::clone(&store),
            LoginConfig {
                is_required: config.auth,
                oidc: config.oidc.clone(),
                ldap: config.ldap.clone(),
                plain_without_tls: config.plain_without_tls,
            },
        );
        let state = State::default();
        if let Some(threads) = config.scan_threads {
            query::exec::set_scan_threads(threads);
        }
        let own = Release::of(config.profile).own_fcv();
        own.clone_into(&mut state.fcv.lock());
        if config.profile.bounds_operations() {
            bound_operations(&state.parameters);
        }
        Service {
            access,
            started_us: clock.monotonic_us(),
            started_ms,
            counters: Counters::default(),
            room: LargeBudget::new(&config.memory),
            cursors: Arc::default(),
            capped_waiters: Arc::default(),
            ttl: Ttl::default(),
            search: SearchIndexes::default(),
            state,
            process_id: ObjectId(process_id),
            election_id: super::pair::election_id(1),
            topology_counter: AtomicI64::new(6),
            next_op: AtomicI64::new(1),
            connections: Arc::default(),
            operation_time: AtomicU64::new(
                Timestamp {
                    time: seconds,
                    increment: 1,
                }
                .as_u64(),
            ),
            me: std::sync::OnceLock::new(),
            scripts: std::sync::OnceLock::new(),
            config,
            clock,
            store,
        }
    }

    /// The identity of the replica set that this server presents.
    ///
    /// # Errors
    /// Engine failures.
    pub fn replica_set_id(&self) -> Result<ObjectId> {
        self.state
            .replica_set_id
            .get(&self.store, self.clock.now_ms())
    }

    /// Shares the service. Commands that open cursors need a shared service.
    pub fn into_shared(self) -> Arc<Service> {
        let shared = Arc::new(self);
        // The cell is set only here.
        let _ = shared.me.set(Arc::downgrade(&shared));
        let me = Arc::downgrade(&shared);
        shared.store.on_new_generation(Box::new(move || {
            let Some(me) = me.upgrade() else {
                return Ok(());
            };
            me.access.forget_resolved();
            me.read_version()?;
            me.state.load(&me.store)
        }));
        if shared.config.scripting {
            let me = Arc::downgrade(&shared);
            let print = Box::new(move |by, line: &str| {
                if let Some(me) = me.upgrade() {
                    me.log_of(by, 'I', "QUERY", line);
                }
            });
            let engine = Arc::new(script::Engine::new(
                Release::of(shared.config.profile).version,
                print,
            ));
            let _ = shared.scripts.set(engine);
            shared.limit_scripts();
        }
        shared.bound_memory();
        shared
    }

    /// Applies the parameters that limit the memory of one operation.
    pub(super) fn bound_memory(&self) {
        let bytes = self
            .state
            .parameters
            .int("internalQueryMaxMemoryUsageBytesPerOperation");
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.config.memory.bound_operations(bytes);
    }

    /// The script engine; `None` when JavaScript is switched off.
    pub fn scripts(&self) -> Option<Arc<dyn Scripts>> {
        let engine = self.scripts.get()?;
        Some(Arc::clone(engine) as Arc<dyn Scripts>)
    }

    /// Applies the parameters of the script engine.
    pub fn limit_scripts(&self) {
        let Some(engine) = self.scripts.get() else {
            return;
        };
        let of = |name: &str| {
            let value = Parameters::find(name).map(|row| self.state.parameters.get(row, ""));
            let n = value.and_then(|v| to_i64(&v.get())).unwrap_or(0);
            u64::try_from(n).unwrap_or(0)
        };
        let bytes = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        engine.set_limits(script::Limits {
            heap_bytes: bytes(of("internalQueryJavaScriptHeapSizeLimitMB").saturating_mul(1 << 20)),
            call: Duration::from_millis(of("internalQueryJavaScriptFnTimeoutMillis")),
            emitted_bytes: bytes(of("internalQueryMaxJsEmitBytes")),
        });
    }

    /// The service as a shared pointer.
    ///
    /// # Errors
    /// 1 InternalError when the service was not created with [`Service::into_shared`].
    pub fn arc(&self) -> Result<Arc<Service>> {
        self.me
            .get()
            .and_then(std::sync::Weak::upgrade)
            .ok_or_else(|| MongoError::internal("the service is not shared"))
    }

    /// The number of a new operation, for `killOp`.
    pub fn next_operation(&self) -> i32 {
        (self.next_op.fetch_add(1, Ordering::Relaxed) & 0x7fff_ffff) as i32
    }

    /// Identity of the election that made this server primary.
    pub fn election_id(&self) -> ObjectId {
        let part = self.state.user_writes.pair.part();
        part.map_or(self.election_id, |part| part.election_id())
    }

    /// Counter of the topology version.
    pub fn topology_counter(&self) -> i64 {
        self.topology_counter.load(Ordering::Acquire)
    }

    /// Notes that what `hello` reports has changed. The caller then ends waits for
    /// [`request::WaitFor::Topology`].
    pub fn count_topology_change(&self) {
        self.topology_counter.fetch_add(1, Ordering::AcqRel);
    }

    /// The latest operation time: with a log, that of the last readable change.
    pub fn operation_time(&self) -> Timestamp {
        if let Some(log) = self.store.log() {
            return log.current();
        }
        Timestamp::from_u64(self.operation_time.load(Ordering::Acquire))
    }

    /// A new operation time, later than all before it.
    pub fn next_operation_time(&self) -> Timestamp {
        let now = Timestamp {
            time: u32::try_from(self.clock.now_ms() / 1000).unwrap_or(0),
            increment: 1,
        }
        .as_u64();
        let next = |last: u64| Some(now.max(last.saturating_add(1)));
        let last = self
            .operation_time
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, next)
            .unwrap_or_else(|t| t);
        Timestamp::from_u64(now.max(last.saturating_add(1)))
    }

    /// The latest time that this server knows, its own or that of a client.
    pub fn cluster_time(&self) -> Timestamp {
        let heard = Timestamp::from_u64(self.operation_time.load(Ordering::Acquire));
        heard.max(self.operation_time())
    }

    /// Follows the cluster time of a client, unless it is too far ahead.
    pub fn follow_cluster_time(&self, time: Timestamp) {
        let limit = self.clock.now_ms() / 1000 + CLOCK_AHEAD_S_MAX;
        if i64::from(time.time) <= limit {
            self.advance_cluster_time(time);
        }
    }

    /// Notes a cluster time that a client has seen.
    pub fn advance_cluster_time(&self, to: Timestamp) {
        self.operation_time.fetch_max(to.as_u64(), Ordering::AcqRel);
        if let Some(log) = self.store.log() {
            log.advance(to);
        }
    }

    /// True when there is a log that search indexes can follow.
    pub fn has_search(&self) -> bool {
        self.store.feed().is_some()
    }

    /// Milliseconds since the start.
    pub fn uptime_ms(&self) -> i64 {
        i64::try_from(self.clock.monotonic_us().saturating_sub(self.started_us) / 1000)
            .unwrap_or(i64::MAX)
    }

    /// Ends the operations, cursors and transaction of a session and removes the record of its
    /// writes, because its client has ended it.
    pub fn end_session(&self, id: &[u8; 16]) {
        let session = self.kill_session(id);
        if self.store.follows() {
            // The server that holds the data keeps the records.
            return;
        }
        // A running write holds the record; what the write records is removed by the next sweep.
        if let Some(mut writes) = session.as_ref().and_then(|s| s.writes.try_lock()) {
            let Err(e) = self.store.forget_session(&mut writes.record) else {
                return;
            };
            self.log(
                'W',
                "WRITE",
                &format!("record of a session could not be removed: {}", e.message()),
            );
        }
    }

    /// Ends the operations, cursors and transaction of a session. The record of its writes stays
    /// until the next sweep, because its client may continue and repeat a write that was done.
    pub fn kill_session(&self, id: &[u8; 16]) -> Option<Session> {
        let session = self.state.sessions.end(id);
        for conn in self.connections.list() {
            if let Some(op) = conn
                .op
                .lock()
                .as_ref()
                .filter(|op| op.lsid.as_ref() == Some(id))
            {
                op.operation.kill(interrupted_error());
            }
        }
        self.cursors.kill_session(id);
        if let Some(mut writes) = session.as_ref().and_then(|s| s.writes.try_lock()) {
            writes.abort_open(&self.state.transactions);
        }
        session
    }

    /// Ends all running operations and open transactions, because the server stops.
    pub fn interrupt_all(&self) {
        for conn in self.connections.list() {
            if let Some(op) = conn.op.lock().as_ref() {
                op.operation.kill(MongoError::new(
                    code::INTERRUPTED_AT_SHUTDOWN,
                    "interrupted at shutdown",
                ));
            }
        }
        for (_, session) in self.state.sessions.list() {
            // A locked session runs a statement, which was just interrupted.
            if let Some(mut writes) = session.writes.try_lock() {
                writes.abort_open(&self.state.transactions);
            }
        }
    }

    /// Runs `f` again when it fails because a collection is being replaced, once the new collection
    /// exists. `f` must not have changed anything in that case.
    ///
    /// # Errors
    /// Those of `f`.
    pub fn retry_replaced<T>(&self, mut f: impl FnMut() -> Result<T>) -> Result<T> {
        for _ in 0..REPLACED_RETRIES {
            self.store.wait_for_catalog();
            let result = f();
            if !is_collection_gone(&result) {
                return result;
            }
        }
        f()
    }
}

/// True when an operation failed because its collection no longer exists.
pub fn is_collection_gone<T>(result: &Result<T>) -> bool {
    result.as_ref().is_err_and(MongoError::is_collection_gone)
}
