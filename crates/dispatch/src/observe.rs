//! The end of an operation: counts its latency, and writes it to the log and to `system.profile` if
//! it was slow or its database is profiled.
//!
//! Promises: an operation that is neither slow nor profiled costs a read of the clock and a few
//! additions, but no lock and no allocation. When the reply waits for the journal, the operation is
//! written after that wait, and its time includes the wait. A profile that cannot be written fails
//! no operation.
//! Must not know: which commands exist, except MongoDB's names for their kinds.

use access::uuid::new_uuid;
use context::connection::Connection;
use context::held::{Sequences, UnsentReply};
use context::operation_stats::{Effects, OperationStats};
use context::read::locks;
use context::read::stats::to_signed;
use logs::{Entry, component, id, redact_document};
use model::{Doc, DocBuf, MongoError, Namespace, Result, Tag, Value, doc};
use operation::Operation;
use operation::ReadTotals;
use request::spec::{CommandCounters, OpClass};
use request::{Request, Sequence};
use state::connections::CurrentOp;
use state::counters::Documents;
use state::operations::kind;
use state::service::Service;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// Largest command document that is shown whole.
const COMMAND_BYTES_MAX: usize = 16 * 1024;
/// Size of a profile collection, the same as MongoDB's.
const PROFILE_BYTES: i32 = 1024 * 1024;

/// An operation that has ended.
pub(super) struct FinishedOperation<'e> {
    pub(super) request: &'e Request<'e>,
    pub(super) row: &'e CommandCounters,
    pub(super) op: CurrentOp,
    pub(super) error: Option<&'e MongoError>,
    /// The reply; empty after an error.
    pub(super) reply: &'e [u8],
}

impl FinishedOperation<'_> {
    /// Counts the operation, and records it if required: now, or if its reply waits for the journal
    /// (`awaited`) when the reply is sent.
    pub(super) fn record(self, service: &Service, conn: &mut Connection, awaited: bool) {
        let now_us = service.clock.monotonic_us();
        let all_us = now_us.saturating_sub(self.op.start_us);
        // The time that a getMore waited for data does not count.
        let took_us = all_us.saturating_sub(std::mem::take(&mut conn.idle_us));
        self.row.latency.record(took_us);
        let reads = conn.operation.reads();
        let scanned = reads.has_scanned_collection();
        let used = self
            .collection_bytes()
            .and_then(|coll| conn.last_used.of(&service.counters, &self.op.db, coll));
        if let Some(used) = used {
            let class = self.row.command.class;
            used.add(class, self.row.command.kind, took_us);
            if scanned {
                used.add_scan(self.request.body.field("tailable").truthy());
            }
        }
        if conn.locked_us > 0 {
            let waited_us = to_signed(conn.locked_us);
            service.counters.lock_waits.fetch_add(1, Relaxed);
            service
                .counters
                .lock_waited_us
                .fetch_add(waited_us, Relaxed);
        }
        self.count_documents(&service.counters.documents, scanned, conn.read_totals());
        let is_shown = !conn.is_secret;
        if awaited && is_shown {
            let seen = self.collect_stats(conn, took_us);
            conn.held = Some(Box::new(self.into_unsent_reply(seen, now_us)));
        } else {
            if is_shown && service.state.profile.concerns(took_us) {
                let seen = self.collect_stats(conn, took_us);
                self.report(&seen).record(service, conn);
            }
            *conn.info.spare.lock() = (self.op.db, self.op.body);
        }
        conn.queued_us = None;
    }

    fn collect_stats(&self, conn: &Connection, took_us: u64) -> OperationStats {
        OperationStats {
            examined: conn.read_totals(),
            plan: conn.operation.reads().take_paths(),
            effects: Effects::of(self.row.command, Doc::from_prefix(self.reply)),
            reply_len: self.reply.len(),
            queued_us: conn.queued_us,
            locked_us: conn.locked_us,
            spent: conn.spent,
            took_us,
            journal_us: None,
        }
    }

    /// Keeps the ended operation until its reply is sent.
    fn into_unsent_reply(self, seen: OperationStats, ended_us: u64) -> UnsentReply {
        let FinishedOperation {
            request,
            row,
            op,
            error,
            ..
        } = self;
        let body = op
            .body
            .is_empty()
            .then(|| shorten_command(row, request.body));
        let sequences = match row.command.class {
            // Inserted documents are not shown.
            OpClass::Insert => Sequences::default(),
            _ => Sequences::of(request),
        };
        UnsentReply {
            body,
            sequences,
            is_legacy: request.legacy_db.is_some(),
            error: error.cloned(),
            seen,
            ended_us,
            op,
        }
    }

    fn report<'t>(&'t self, seen: &'t OperationStats) -> Report<'t> {
        Report {
            row: self.row,
            op: &self.op,
            body: self.request.body,
            sequences: self.request.sequences,
            is_legacy: self.request.legacy_db.is_some(),
            error: self.error,
            seen,
        }
    }

    fn count_documents(&self, counts: &Documents, scanned: bool, looked: ReadTotals) {
        let add = |counter: &AtomicI64, n: i64| {
            if n != 0 {
                counter.fetch_add(n, Relaxed);
            }
        };
        add(&counts.keys_examined, to_signed(looked.keys));
        add(&counts.examined, to_signed(looked.docs));
        add(&counts.collection_scans, i64::from(scanned));
        let reply = Doc::from_prefix(self.reply);
        let number = |name: &str| reply.field(name).as_i64_exact().unwrap_or(0);
        match self.row.command.class {
            _ if self.reply.is_empty() => {}
            OpClass::Insert => add(&counts.inserted, number("n")),
            OpClass::Update => add(&counts.updated, number("nModified")),
            OpClass::Delete => add(&counts.deleted, number("n")),
            OpClass::Query | OpClass::GetMore | OpClass::Command => {
                add(&counts.returned, to_signed(looked.returned));
            }
        }
    }

    /// The collection that the operation works on.
    fn collection_bytes(&self) -> Option<&[u8]> {
        collection(self.row, self.request.body)
    }
}

/// The collection that an operation works on, if it works on one. It is not validated as UTF-8,
/// because every operation reads it.
fn collection<'b>(row: &CommandCounters, body: Doc<'b>) -> Option<&'b [u8]> {
    let mut fields = body.elements();
    let named = match row.command.class {
        OpClass::GetMore => fields.find(|e| e.name == b"collection")?,
        _ if row.names_collection() => fields.next()?,
        _ => return None,
    };
    // The payload has a length of four bytes before the text and a null byte after it.
    let text = named.payload.get(4..named.payload.len().checked_sub(1)?)?;
    (named.tag == Tag::STRING && !text.is_empty()).then_some(text)
}

/// Ends an operation whose reply waited for the journal, once the reply may be sent or the client
/// has disconnected: writes it to the log and to the profile if required.
pub(super) fn release_reply<'r>(
    service: &Service,
    conn: &mut Connection,
    row_of: impl FnOnce(&str) -> Option<&'r CommandCounters>,
) {
    let Some(held) = conn.held.take() else {
        return;
    };
    let UnsentReply {
        op,
        body,
        sequences,
        is_legacy,
        error,
        mut seen,
        ended_us,
    } = *held;
    let now_us = service.clock.monotonic_us();
    seen.journal_us = Some(now_us.saturating_sub(ended_us));
    if service.state.profile.concerns(seen.all_us())
        && let Some(row) = row_of(op.command.name)
    {
        let told = Report {
            row,
            op: &op,
            body: body
                .as_ref()
                .map_or_else(|| Doc::from_prefix(&op.body), DocBuf::doc),
            sequences: &sequences.sequences(),
            is_legacy,
            error: error.as_ref(),
            seen: &seen,
        };
        told.record(service, conn);
    }
    *conn.info.spare.lock() = (op.db, op.body);
}

/// The facts about an operation that the log and the profile show.
pub(super) struct Report<'t> {
    pub(super) row: &'t CommandCounters,
    pub(super) op: &'t CurrentOp,
    pub(super) body: Doc<'t>,
    pub(super) sequences: &'t [Sequence<'t>],
    pub(super) is_legacy: bool,
    pub(super) error: Option<&'t MongoError>,
    pub(super) seen: &'t OperationStats,
}

impl Report<'_> {
    /// Writes the operation to the log and to the profile if required.
    #[cold]
    pub(super) fn record(&self, service: &Service, conn: &Connection) {
        let (profile, slow) = service.state.profile.of(&self.op.db);
        let took_ms = i64::try_from(self.seen.all_us() / 1000).unwrap_or(i64::MAX);
        let is_slow = took_ms > i64::from(slow.ms);
        let facts = || self.facts(service, conn, took_ms);
        let (logs, records) = match &profile.filter {
            Some(filter) => {
                let matcher = service.query_matcher(filter.doc());
                let matches =
                    matcher.and_then(|m| m.matches(facts().doc(), service.clock.now_ms()));
                let matches = matches.unwrap_or(false);
                (matches, matches && profile.level > 0)
            }
            None => {
                let sampled = slow.sample_rate >= 1.0 || rand::random::<f64>() < slow.sample_rate;
                let slow = is_slow && sampled;
                (slow, profile.level == 2 || profile.level == 1 && slow)
            }
        };
        if logs {
            self.log(service, conn, facts());
        }
        if records
            && service
                .state
                .fsync_locks
                .load(std::sync::atomic::Ordering::Acquire)
                == 0
        {
            let written = write_profile(service, &self.op.db, &facts());
            if let Err(e) = written {
                service.log_of(
                    conn.operation.connection(),
                    'W',
                    component::COMMAND,
                    &format!("profile: {}", e.message()),
                );
            }
        }
    }

    fn log(&self, service: &Service, conn: &Connection, facts: DocBuf) {
        let facts = facts.doc();
        let component = match self.row.command.class {
            OpClass::Query | OpClass::GetMore | OpClass::Command => component::COMMAND,
            _ => "WRITE",
        };
        let redacts = service.config.log.redacts();
        let entry = Entry::info(id::SLOW_QUERY, component, &conn.info.name(), "Slow query");
        service.write_log(&entry.attr(|w| {
            w.put("type", "command").put("isFromUserConnection", true);
            for (name, v) in facts.iter() {
                match (name, v) {
                    ("command", Value::Document(d)) if redacts => {
                        w.put("command", &redact_document(d));
                    }
                    ("errMsg", _) if redacts => {
                        w.put("errMsg", logs::REDACTED);
                    }
                    // The line itself has these fields, or they have another name there.
                    ("op" | "ts" | "allUsers" | "user", _) => {}
                    ("responseLength", v) => {
                        w.put("reslen", v);
                    }
                    ("client", v) => {
                        w.put("remote", v);
                    }
                    ("millis", v) => {
                        w.put("durationMillis", v);
                    }
                    (name, v) => {
                        w.put(name, v);
                    }
                }
            }
        }));
    }

    /// The facts about the operation under the names of `system.profile`.
    fn facts(&self, service: &Service, conn: &Connection, took_ms: i64) -> DocBuf {
        let (op, seen, examined) = (self.op, self.seen, self.seen.examined);
        let coll = collection(self.row, self.body);
        let coll = coll.and_then(|name| std::str::from_utf8(name).ok());
        let coll = coll.unwrap_or(self.row.command.no_collection);
        let count = |n: u64| Value::Int64(i64::try_from(n).unwrap_or(i64::MAX));
        DocBuf::build(|w| {
            w.put("op", kind(self.row.command.class))
                .put("ns", format!("{}.{coll}", op.db).as_str());
            w.put("command", &self.command());
            if let Some(id) = op.cursor {
                w.put("cursorid", id);
            }
            let plan = seen.plan.summary();
            if self.row.is_of_kind() || plan.is_some() {
                w.put("keysExamined", count(examined.keys))
                    .put("docsExamined", count(examined.docs));
            }
            seen.effects.write(to_signed(examined.returned), w);
            if let Some(e) = self.error {
                w.put("ok", 0.0)
                    .put("errMsg", e.message())
                    .put("errName", e.code_name().as_str())
                    .put("errCode", e.code());
            }
            locks::write_of_one(self.row, seen.locked_us, &mut w.doc("locks"));
            if let Some(spent) = seen.spent {
                seen.write_storage(&mut w.doc("storage"));
                w.put("cpuNanos", to_signed(spent.cpu_ns));
            }
            w.put(
                "responseLength",
                i32::try_from(seen.reply_len).unwrap_or(i32::MAX),
            )
            .put(
                "protocol",
                if self.is_legacy { "op_query" } else { "op_msg" },
            )
            .put("millis", took_ms);
            if let Some(us) = seen.journal_us {
                w.put("waitForWriteConcernDurationMillis", to_signed(us / 1000));
            }
            if let Some(us) = seen.queued_us {
                let us = to_signed(us);
                let mut queues = w.doc("queues");
                queues
                    .doc("execution")
                    .put("admissions", 1i64)
                    .put("totalTimeQueuedMicros", us);
            }
            if let Some(plan) = plan {
                w.put("planSummary", plan.as_str());
            }
            w.put("ts", Value::Date(service.clock.now_ms()))
                .put("client", client_host(&conn.info.peer));
            if let Some(name) = conn.info.application() {
                w.put("appName", name.as_str());
            }
            let user = conn.identity.user().cloned();
            let mut all = w.array("allUsers");
            if let Some(user) = &user {
                user.name.write(&mut all.doc());
            }
            drop(all);
            let name = user.map_or_else(String::new, |u| format!("{}@{}", u.name.name, u.name.db));
            w.put("user", name.as_str());
        })
    }

    /// The command as received, without the documents of an insert.
    fn command(&self) -> DocBuf {
        let body = self.body;
        if body.len_bytes() > COMMAND_BYTES_MAX {
            return shorten_command(self.row, body);
        }
        let is_insert = self.row.command.class == OpClass::Insert;
        let mut left = COMMAND_BYTES_MAX;
        DocBuf::build(|w| {
            for (name, v) in body
                .iter()
                .filter(|(name, _)| !is_insert || *name != "documents")
            {
                w.put(name, v);
            }
            if let Some(comment) = &self.op.comment {
                w.put("comment", comment.get());
            }
            for sequence in self.sequences.iter().filter(|_| !is_insert) {
                let mut items = w.array(sequence.name);
                for d in sequence.iter() {
                    left = left.saturating_sub(d.len_bytes());
                    if left > 0 {
                        items.push(d);
                    }
                }
            }
        })
    }
}

/// The address without its port, as in MongoDB's profile.
fn client_host(peer: &str) -> &str {
    peer.rsplit_once(':').map_or(peer, |(host, _)| host)
}

/// The command document; for a long one, only its name and the value of that field.
fn shorten_command(row: &CommandCounters, body: Doc<'_>) -> DocBuf {
    if body.len_bytes() <= COMMAND_BYTES_MAX {
        return body.to_buf();
    }
    let name = row.command.name;
    doc! { name: body.first().map_or(Value::Missing, |(_, v)| match v {
        Value::String(s) => Value::String(s),
        _ => Value::Int32(1),
    }), "$truncated": true }
}

/// The profile collection of a database, created when it does not exist.
///
/// # Errors
/// Engine failures.
pub fn profile_collection(
    service: &Service,
    operation: &Operation,
    db: &str,
) -> Result<Arc<store::Collection>> {
    let ns = Namespace::new(db, "system.profile")?;
    if let Some(there) = service.store.collection(&ns)? {
        return Ok(there);
    }
    let options = doc! { "capped": true, "size": PROFILE_BYTES };
    match service
        .store
        .writer(operation)
        .create_collection(&ns, options, new_uuid())
    {
        Ok(made) => {
            service.log_created(operation.connection(), &made);
            Ok(made)
        }
        // Another connection has created it.
        Err(e) => service.store.collection(&ns)?.ok_or(e),
    }
}

fn write_profile(service: &Service, db: &str, facts: &DocBuf) -> Result<()> {
    let operation = service.own_operation();
    let c = profile_collection(service, &operation, db)?;
    let writer = c.writer(&operation);
    // As in MongoDB, these documents have no `_id`.
    writer.insert(&[facts.doc()], true)?;
    state::capped::end_insert(service, writer)
}
