//! The shared service and one connection's state. `Service::handle` is the only door into this room.

use crate::args::{Args, check_value, duplicate_field, unknown_field};
use crate::clock::Clock;
use crate::counters::Counters;
use crate::ctx::Ctx;
use crate::cursors::Cursors;
use crate::failpoints::Failure;
use crate::generic::{self, Generic};
use crate::interrupt::{Interrupt, Link, interrupted};
use crate::registry::{self, Command, OpClass, flag};
use crate::request::{Outcome, Request};
use crate::reply;
use crate::retry::{self, Retry};
use crate::state::State;
use crate::tails::{self, Tails};
use memory::{Budget, Operation};
use model::{Doc, DocBuf, DocWriter, MongoError, ObjectId, Result, Timestamp, Value, bail, code};
use parking_lot::Mutex;
use store::{SessionRecord, Store};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// What the server is told at its start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Name of the replica set to present; `None` is the standalone profile.
    pub replica_set: Option<String>,
    /// `host:port` clients reach us at.
    pub host: String,
    /// Command line, for `getCmdLineOpts`.
    pub argv: Vec<String>,
    /// Parsed options, for `getCmdLineOpts`.
    pub parsed: DocBuf,
    /// Compressors offered, best first: `zstd`, `zlib`, `snappy`.
    pub compressors: Vec<&'static str>,
    /// Most connections at a time.
    pub connections_max: u32,
    /// Lines shown by `getLog: "startupWarnings"`.
    pub startup_warnings: Vec<String>,
    /// The memory of all operations.
    pub memory: Arc<Budget>,
    /// Aggregations run as written when false. For tests that compare; no option sets it.
    pub optimize_pipelines: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            replica_set: Some("rs0".to_owned()),
            host: "localhost:27017".to_owned(),
            argv: vec!["quarry".to_owned()],
            parsed: DocBuf::new(),
            compressors: vec!["zstd", "zlib", "snappy"],
            connections_max: 65536,
            startup_warnings: Vec::new(),
            memory: Arc::new(Budget::unlimited()),
            optimize_pipelines: true,
        }
    }
}

/// What other connections may see of one.
#[derive(Debug, Default)]
pub struct ConnectionInfo {
    /// Number of the connection.
    pub id: i64,
    /// Address of the client.
    pub peer: String,
    /// The `client` document of its handshake.
    pub client: Mutex<Option<DocBuf>>,
    /// The operation running now.
    pub op: Mutex<Option<CurrentOp>>,
    /// Buffers of the operation before, for the next one.
    spare: Mutex<(String, Vec<u8>)>,
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
    pub command: &'static str,
    /// Its database.
    pub db: String,
    /// The command document; empty when too large to keep.
    pub body: Vec<u8>,
    /// Session.
    pub lsid: Option<[u8; 16]>,
    /// Ends it.
    pub interrupt: Arc<Interrupt>,
    /// Cursor it uses.
    pub cursor: Option<i64>,
}

/// State of one connection.
pub struct Connection {
    /// What others may see.
    pub info: Arc<ConnectionInfo>,
    /// `helloOk` was asked for.
    pub hello_ok: bool,
    /// Compressors both sides know, in the client's order.
    pub compressors: Vec<&'static str>,
    /// The failure a fail point holds back until its time has come.
    failing: Option<Failure>,
    registry: Arc<Mutex<BTreeMap<i64, Arc<ConnectionInfo>>>>,
    /// Of the operation before, for the next one.
    interrupt: Arc<Interrupt>,
    /// What its operation waits for.
    pub(crate) awaits: Option<Awaits>,
}

/// A wait for data in the middle of a getMore.
pub(crate) struct Awaits {
    /// The suspended cursor; it ends when this is dropped.
    pub(crate) cursor: Option<i64>,
    /// Monotonic microseconds.
    pub(crate) until_us: u64,
    pub(crate) _waiting: tails::Waiting,
    pub(crate) cursors: Arc<Cursors>,
}

impl Drop for Awaits {
    fn drop(&mut self) {
        if let Some(id) = self.cursor {
            self.cursors.close(id);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.registry.lock().remove(&self.info.id);
    }
}

/// The service all connections share.
pub struct Service {
    /// Configuration.
    pub config: Config,
    /// Data.
    pub store: Arc<Store>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Counts.
    pub counters: Counters,
    /// Open cursors.
    pub cursors: Arc<Cursors>,
    /// Who waits for data in capped collections.
    pub tails: Arc<Tails>,
    /// Parameters, sessions, profiling and the like.
    pub state: State,
    /// Start, milliseconds since the epoch.
    pub started_ms: i64,
    /// Start, monotonic microseconds.
    pub started_us: u64,
    /// Identity of this process in topology versions.
    pub process_id: ObjectId,
    /// Identity of the election that made us primary.
    pub election_id: ObjectId,
    topology_counter: AtomicI64,
    next_connection: AtomicI64,
    next_op: AtomicI64,
    connections: Arc<Mutex<BTreeMap<i64, Arc<ConnectionInfo>>>>,
    operation_time: AtomicU64,
    me: std::sync::OnceLock<std::sync::Weak<Service>>,
}

/// How often an operation is begun again when its collection is replaced under it.
const REPLACED_RETRIES: usize = 10;
/// A write held back by `fsync` looks again after this long.
const UNLOCK_POLL_US: u64 = 20_000;
/// Larger command documents are not kept for `currentOp`.
const OP_BODY_BYTES_MAX: usize = 1024;

impl Service {
    /// A service.
    pub fn new(config: Config, clock: Arc<dyn Clock>, store: Arc<Store>) -> Service {
        let started_ms = clock.now_ms();
        let seconds = u32::try_from(started_ms / 1000).unwrap_or(0);
        let mut process_id = [0u8; 12];
        process_id[..4].copy_from_slice(&seconds.to_be_bytes());
        process_id[4..].copy_from_slice(&rand::random::<[u8; 8]>());
        let mut election_id = [0u8; 12];
        election_id[0] = 0x7f;
        election_id[1..4].copy_from_slice(&[0xff; 3]);
        election_id[11] = 1;
        let service = Service {
            started_us: clock.monotonic_us(),
            started_ms,
            counters: Counters::new(registry::all().count()),
            cursors: Arc::default(),
            tails: Arc::default(),
            state: State::default(),
            process_id: ObjectId(process_id),
            election_id: ObjectId(election_id),
            topology_counter: AtomicI64::new(6),
            next_connection: AtomicI64::new(1),
            next_op: AtomicI64::new(1),
            connections: Arc::default(),
            operation_time: AtomicU64::new(Timestamp { time: seconds, increment: 1 }.as_u64()),
            me: std::sync::OnceLock::new(),
            config,
            clock,
            store,
        };
        service.log('I', "CONTROL", "Quarry starting");
        service
    }

    /// The service as cursors hold it. Commands that open cursors need the service to be shared.
    pub fn shared(self) -> Arc<Service> {
        let shared = Arc::new(self);
        // The first and only setting of this cell.
        let _ = shared.me.set(Arc::downgrade(&shared));
        if let Err(e) = crate::ddl::temporary::sweep(&shared) {
            shared.log('W', "STORAGE", &format!("temporary collections of an earlier run could not be dropped: {}", e.message()));
        }
        shared
    }

    /// This service, shared.
    ///
    /// # Errors
    /// 1 InternalError when it was never made with [`Service::shared`].
    pub fn arc(&self) -> Result<Arc<Service>> {
        self.me.get().and_then(std::sync::Weak::upgrade).ok_or_else(|| MongoError::internal("the service is not shared"))
    }

    /// A new connection from `peer` (`host:port`).
    pub fn connect(&self, peer: &str) -> Connection {
        self.connect_linked(peer, None)
    }

    /// A new connection whose waits end when `link` is woken, and whose reads end when it says that the client has gone.
    pub fn connect_linked(&self, peer: &str, link: Option<Arc<dyn Link>>) -> Connection {
        let id = self.next_connection.fetch_add(1, Ordering::Relaxed);
        let info = Arc::new(ConnectionInfo { id, peer: peer.to_owned(), ..ConnectionInfo::default() });
        self.connections.lock().insert(id, Arc::clone(&info));
        let interrupt = Arc::new(Interrupt::new(Arc::clone(&self.clock), link, Arc::new(Operation::new(Arc::clone(&self.config.memory)))));
        let registry = Arc::clone(&self.connections);
        Connection { info, hello_ok: false, compressors: Vec::new(), failing: None, registry, interrupt, awaits: None }
    }

    /// All connections.
    pub fn connections(&self) -> Vec<Arc<ConnectionInfo>> {
        self.connections.lock().values().cloned().collect()
    }

    /// Connections made since the start.
    pub fn connections_created(&self) -> i64 {
        self.next_connection.load(Ordering::Relaxed) - 1
    }

    /// Counter of the topology version.
    pub fn topology_counter(&self) -> i64 {
        self.topology_counter.load(Ordering::Acquire)
    }

    /// Says that what `hello` reports changed. The caller then ends waits for [`crate::WaitFor::Topology`].
    pub fn topology_changed(&self) {
        self.topology_counter.fetch_add(1, Ordering::AcqRel);
    }

    /// Newest operation time.
    pub fn operation_time(&self) -> Timestamp {
        Timestamp::from_u64(self.operation_time.load(Ordering::Acquire))
    }

    /// Moves the operation time forward.
    pub fn advance_operation_time(&self, to: Timestamp) {
        self.operation_time.fetch_max(to.as_u64(), Ordering::AcqRel);
    }

    /// Milliseconds since the start.
    pub fn uptime_ms(&self) -> i64 {
        i64::try_from(self.clock.monotonic_us().saturating_sub(self.started_us) / 1000).unwrap_or(i64::MAX)
    }

    /// Ends a session with its cursors and operations.
    pub fn end_session(&self, id: &[u8; 16]) {
        let session = self.state.sessions.end(id);
        for conn in self.connections() {
            if let Some(op) = conn.op.lock().as_ref().filter(|op| op.lsid.as_ref() == Some(id)) {
                op.interrupt.kill(interrupted());
            }
        }
        self.cursors.kill_session(id);
        // A write that runs just now holds the record; what it leaves goes with the next sweep.
        if let Some(mut record) = session.as_ref().and_then(|s| s.record.try_lock())
            && let Err(e) = self.store.forget_session(&mut record)
        {
            self.log('W', "WRITE", &format!("record of a session could not be removed: {}", e.message()));
        }
    }

    /// Ends all running operations: the server stops.
    pub fn interrupt_all(&self) {
        for conn in self.connections() {
            if let Some(op) = conn.op.lock().as_ref() {
                op.interrupt.kill(MongoError::new(code::INTERRUPTED_AT_SHUTDOWN, "interrupted at shutdown"));
            }
        }
    }

    /// Ends what idled too long. To be called every few seconds.
    pub fn expire(&self) {
        let now = self.clock.now_ms();
        self.cursors.expire(now, self.state.parameters.int("cursorTimeoutMillis"));
        for id in self.state.sessions.idle(now) {
            self.end_session(&id);
        }
        if self.state.sessions.sweep_is_due(self.started_ms, now)
            && let Err(e) = self.store.sweep_sessions(&|id| self.state.sessions.contains(id))
        {
            self.log('W', "WRITE", &format!("records of sessions could not be removed: {}", e.message()));
        }
    }

    /// Starts a new log: the lines kept for `getLog` are forgotten.
    pub fn rotate_log(&self) {
        self.state.log.clear();
        self.log('I', "CONTROL", "Log rotation initiated");
    }

    /// Keeps a line for `getLog`.
    pub fn log(&self, severity: char, component: &str, message: &str) {
        self.state.log.push(crate::log::line(self.clock.now_ms(), severity, component, "main", message));
    }

    /// Handles one request. A reply is one document appended to `reply`.
    pub fn handle(&self, conn: &mut Connection, request: &Request<'_>, reply: &mut Vec<u8>) -> Outcome {
        let memory = Arc::clone(conn.interrupt.memory());
        let (account, capacity) = (memory.begin(), reply.capacity());
        let outcome = self.answer(conn, request, reply);
        account.end(reply.capacity().saturating_sub(capacity));
        outcome
    }

    fn answer(&self, conn: &mut Connection, request: &Request<'_>, reply: &mut Vec<u8>) -> Outcome {
        let start = reply.len();
        let mut result = self.dispatch(conn, request, reply);
        // Nothing has been sent yet, so a read that met a collection in the act of being replaced starts over on the new one.
        if replaced(&result) && only_reads(request.body) {
            result = self.while_replaced(|| {
                reply.truncate(start);
                self.dispatch(conn, request, reply)
            });
        }
        let outcome = match result {
            Ok(outcome) => outcome,
            Err(e) => {
                reply.truncate(start);
                reply::error(self, &e, &mut DocWriter::new(reply));
                Outcome::Reply
            }
        };
        let silent = request.more_to_come && matches!(outcome, Outcome::Reply | Outcome::Durable(_));
        if silent || matches!(outcome, Outcome::Wait { .. }) {
            reply.truncate(start);
        }
        if silent { Outcome::NoReply } else { outcome }
    }

    /// Runs again what met a collection in the act of being replaced, once the new one is there. `f` must not have done
    /// anything when it fails so.
    ///
    /// # Errors
    /// Those of `f`.
    pub(crate) fn while_replaced<T>(&self, mut f: impl FnMut() -> Result<T>) -> Result<T> {
        for _ in 0..REPLACED_RETRIES {
            self.store.wait_for_catalog();
            let result = f();
            if !replaced(&result) {
                return result;
            }
        }
        f()
    }

    fn dispatch(&self, conn: &mut Connection, request: &Request<'_>, reply: &mut Vec<u8>) -> Result<Outcome> {
        if !request.validated {
            validate(request)?;
        }
        let Some((name, _)) = request.body.first() else {
            bail!(code::COMMAND_NOT_FOUND, "no such command: ''");
        };
        let Some((number, command)) = registry::find(name) else {
            self.counters.unknown_command();
            if registry::NOT_BUILT.contains(&name) {
                bail!(code::NOT_IMPLEMENTED, "command '{name}' is known but not built yet");
            }
            return Err(MongoError::new(code::COMMAND_NOT_FOUND, format!("no such command: '{name}'")));
        };
        match request.waited {
            true => self.counters.resume(),
            false => self.counters.begin(number, command.class),
        }
        // A wait for a fail point is none the command asked for.
        let request = &Request { waited: request.waited && conn.failing.is_none(), ..*request };
        let result = self.run(conn, request, command, reply);
        if matches!(result, Ok(Outcome::Wait { .. })) {
            // It goes on later and is shown until then.
            self.counters.end(number, false);
            return result;
        }
        conn.awaits = None;
        // The buffers go back, so that noting an operation costs two copies and no allocation.
        if let Some(op) = conn.info.op.lock().take() {
            *conn.info.spare.lock() = (op.db, op.body);
        }
        self.counters.end(number, result.is_err());
        result
    }

    fn run(&self, conn: &mut Connection, request: &Request<'_>, command: &'static Command, reply: &mut Vec<u8>) -> Result<Outcome> {
        let (invoked, _) = request.body.first().unwrap_or_default();
        let mut generic = Generic { db: database(request)?, ..Generic::default() };
        let db = generic.db;
        generic::api(&mut generic, command, request.body)?;
        if command.is(flag::ADMIN) && db != "admin" {
            bail!(code::UNAUTHORIZED, "{} may only be run against the admin database", command.name);
        }
        // Named first, so that they outlive everything the context borrows.
        let (session, mut record);
        let args = self.check(request, command, &mut generic)?;
        if let Some(lsid) = generic.lsid {
            self.state.sessions.touch(lsid.id, self.clock.now_ms())?;
        }
        let interrupt = self.begin_op(conn, request, command, &generic);
        if command.is(flag::WRITE) && self.state.fsync_locks.load(Ordering::Acquire) > 0 {
            let until_us = self.clock.monotonic_us().saturating_add(UNLOCK_POLL_US);
            return Ok(Outcome::Wait { until_us, on: crate::request::WaitFor::Unlock });
        }
        // A getMore that goes on after a wait was looked at when it came.
        let failure = if conn.awaits.is_some() { None } else { self.failure(conn, request, command, &generic)? };
        if let Some(f) = &failure {
            if f.block_ms > 0 {
                let until_us = self.clock.monotonic_us().saturating_add(f.block_ms as u64 * 1000);
                conn.failing = Some(Failure { block_ms: 0, ..f.clone() });
                return Ok(Outcome::Wait { until_us, on: crate::request::WaitFor::Time });
            }
            if f.close {
                return Ok(Outcome::Close);
            }
            if let Some(e) = f.error(&generic) {
                return Err(e);
            }
        }
        let numbered = generic.txn_number.is_some();
        session = self.record_of(command, &generic)?;
        record = session.as_ref().map(|s| s.lock());
        let retry = match (&mut record, generic.txn_number) {
            (Some(r), Some(number)) => Some(Retry::begin(&self.store, r, number)?),
            _ => None,
        };
        let start = reply.len();
        let mut ctx = Ctx {
            service: self,
            conn,
            interrupt,
            request,
            command,
            invoked,
            db,
            args,
            generic,
            retry,
            ok_int: false,
            reply: DocWriter::new(reply),
        };
        let mut outcome = (command.run)(&mut ctx)?;
        // Reading pipelines take a write concern, too, but write nothing; those that write say so themselves.
        if outcome == Outcome::Reply && command.is(flag::WRITE_CONCERN) && command.name != "aggregate" {
            outcome = crate::write::durability_of_all(&ctx)?;
        }
        if command.is(flag::WRITE)
            && let Some(e) = crate::write::concern_error(&ctx)
        {
            ctx.reply.put("writeConcernError", &e);
        }
        reply::finish(self, ctx.ok_int, &mut ctx.reply);
        drop(ctx);
        if let Some(f) = &failure {
            f.finish(numbered, reply, start);
        }
        Ok(outcome)
    }

    /// What a fail point asks for here: mostly nothing.
    fn failure(&self, conn: &mut Connection, request: &Request<'_>, command: &Command, generic: &Generic<'_>) -> Result<Option<Failure>> {
        if let Some(f) = conn.failing.take() {
            return Ok(Some(f));
        }
        if !self.state.failpoints.armed() {
            return Ok(None);
        }
        let collection = request.body.first().and_then(|(_, v)| v.as_str());
        self.state.failpoints.at(conn, command, generic, collection)
    }

    /// The record a retryable write shares with its retries.
    ///
    /// # Errors
    /// 20 on a standalone server, 238 inside a transaction, 72 for a number without a session, 50768 for a command that
    /// cannot be retried.
    fn record_of(&self, command: &Command, generic: &Generic<'_>) -> Result<Option<Arc<Mutex<SessionRecord>>>> {
        if generic.txn_number.is_none() && generic.autocommit.is_none() && !generic.start_transaction {
            return Ok(None);
        }
        if self.config.replica_set.is_none() {
            bail!(code::ILLEGAL_OPERATION, "Transaction numbers are only allowed on a replica set member or mongos");
        }
        let Some(lsid) = generic.lsid else {
            bail!(code::INVALID_OPTIONS, "Transaction number requires a session ID to also be specified");
        };
        if generic.autocommit.is_some() || generic.start_transaction {
            bail!(code::NOT_IMPLEMENTED, "transactions of several operations are not built yet");
        }
        if !retry::COMMANDS.contains(&command.name) {
            bail!(
                50_768,
                "txnNumber may only be provided for multi-document transactions and retryable write commands. autocommit:false was not provided, and {} is not a retryable write command",
                command.name
            );
        }
        Ok(self.state.sessions.record(&lsid.id))
    }

    /// Checks a command's arguments.
    pub(crate) fn check<'a>(&self, request: &Request<'a>, command: &'static Command, generic: &mut Generic<'a>) -> Result<Args<'a>> {
        let standalone = self.config.replica_set.is_none();
        let mut args = Args::new(request.sequences);
        let mut generic_seen: smallvec::SmallVec<[&str; 8]> = smallvec::SmallVec::new();
        for (i, (name, value)) in request.body.iter().enumerate() {
            if i == 0 {
                args.take_own(command, value)?;
                continue;
            }
            if command.args.iter().any(|a| a.name == name) {
                args.take(command.name, command.args, name, value)?;
            } else if generic::take(generic, command, name, value, standalone)? {
                if generic_seen.contains(&name) {
                    return Err(duplicate_field(&format!("{}.{name}", command.name)));
                }
                generic_seen.push(name);
            } else if name == command.name || command.aliases.contains(&name) {
                return Err(duplicate_field(&format!("{}.{name}", command.name)));
            } else if !command.is(flag::LENIENT) {
                return Err(unknown_field(&format!("{}.{name}", command.name)));
            }
        }
        args.finish(command.name, command.args)?;
        Ok(args)
    }

    /// Begins an operation, or goes on with the one that waited.
    fn begin_op(&self, conn: &mut Connection, request: &Request<'_>, command: &'static Command, generic: &Generic<'_>) -> Arc<Interrupt> {
        if request.waited
            && let Some(op) = conn.info.op.lock().as_ref()
        {
            return Arc::clone(&op.interrupt);
        }
        let interrupt = Interrupt::renew(&mut conn.interrupt);
        // There it says how long to wait for data; the budget is that of the command that opened the cursor.
        if generic.max_time_ms > 0 && command.class != OpClass::GetMore {
            interrupt.allow_us(u64::try_from(generic.max_time_ms).unwrap_or(0).saturating_mul(1000));
        }
        interrupt.ends_with_client(command.is(flag::ENDS_WITH_CLIENT));
        if !command.is(flag::QUIET) {
            self.note_op(conn, request.body, command, generic, &interrupt);
        }
        interrupt
    }

    fn note_op(&self, conn: &Connection, body: Doc<'_>, command: &'static Command, generic: &Generic<'_>, interrupt: &Arc<Interrupt>) {
        let (mut db, mut kept) = std::mem::take(&mut *conn.info.spare.lock());
        db.clear();
        db.push_str(generic.db);
        kept.clear();
        if body.len_bytes() <= OP_BODY_BYTES_MAX {
            kept.extend_from_slice(body.as_bytes());
        }
        let op = CurrentOp {
            opid: (self.next_op.fetch_add(1, Ordering::Relaxed) & 0x7fff_ffff) as i32,
            start_us: self.clock.monotonic_us(),
            start_ms: self.clock.now_ms(),
            command: command.name,
            db,
            body: kept,
            lsid: generic.lsid.map(|l| l.id),
            interrupt: Arc::clone(interrupt),
            cursor: None,
        };
        *conn.info.op.lock() = Some(op);
    }
}

impl<'a> Args<'a> {
    /// Checks the command's own value, which stands first under whatever name the command was called by.
    fn take_own(&mut self, command: &'static Command, value: Value<'a>) -> Result<()> {
        let row = crate::args::Arg { name: command.name, kind: command.value, required: true, strict_null: false };
        if !check_value(command.name, &row, &value)? {
            return Err(crate::args::missing_field(&format!("{}.{}", command.name, command.name)));
        }
        self.push_own(command.name, value);
        Ok(())
    }
}

/// True when an operation found its collection gone.
pub(crate) fn replaced<T>(result: &Result<T>) -> bool {
    result.as_ref().is_err_and(store::Collection::is_gone)
}

/// True for commands that may be run twice: queries, and pipelines that write nothing.
fn only_reads(body: Doc<'_>) -> bool {
    match body.first() {
        Some(("find" | "count" | "distinct", _)) => true,
        Some(("aggregate", _)) => {
            let stages = body.field("pipeline").as_array().unwrap_or(model::Array::EMPTY);
            !stages.iter().filter_map(|s| s.as_doc()?.first()).any(|(name, _)| matches!(name, "$out" | "$merge"))
        }
        _ => false,
    }
}

fn database<'a>(request: &Request<'a>) -> Result<&'a str> {
    let db = match request.body.field("$db") {
        Value::String(db) => db,
        Value::Missing => match request.legacy_db {
            Some(db) => db,
            None => bail!(40_571, "OP_MSG requests require a $db argument"),
        },
        v => return Err(crate::args::wrong_type("$db", &v, &[model::Tag::STRING])),
    };
    model::namespace::check_db(db)?;
    Ok(db)
}

/// Proves every document of a request to be valid BSON.
fn validate(request: &Request<'_>) -> Result<()> {
    model::validate(request.body.as_bytes())?;
    for s in request.sequences {
        let mut seen = 0;
        for doc in s.iter() {
            model::validate(doc.as_bytes())?;
            seen += doc.len_bytes();
        }
        if seen != s.documents.len() {
            bail!(code::INVALID_BSON, "the document sequence '{}' does not hold whole documents only", s.name);
        }
    }
    Ok(())
}
