//! `serverStatus`: counters and sizes, in sections that a client may switch off (`metrics: 0`) or
//! on (`mirroredReads: 1`). Monitoring tools decode the reply into fixed structures, so names and
//! number types have to be exact; `uptime` is a whole double.

use crate::cmd::followed;
use context::command::Command;
use context::ctx::Ctx;
use context::read::locks;
use context::read::stats::{to_signed, write_latency};
use metrics::LatencyCounts;
use model::{DocBuf, DocWriter, Result, Value, doc_fields};
use request::Outcome;
use request::spec::{CommandTable, LatencyKind, OpClass, Privilege, flag};
use state::admission::GateMetrics;
use state::machine::Process;
use state::release::Release;
use state::service::Service;
use std::sync::atomic::Ordering::Relaxed;

pub(crate) static COMMANDS: &[Command] = &[
    Command::new(
        "serverStatus",
        "counts and sizes of the server",
        Privilege::Cluster(&[auth::Action::ServerStatus]),
        flag::LENIENT,
        &[],
        run,
    ),
    Command::new(
        "getDiagnosticData",
        "what the server records about itself",
        Privilege::Cluster(&[auth::Action::ServerStatus, auth::Action::ReplSetGetStatus]),
        flag::ADMIN | flag::LENIENT,
        &[],
        diagnostic_data,
    ),
];

/// The data that sections are written from.
struct Facts<'f> {
    service: &'f Service,
    commands: &'f CommandTable,
    /// Write latencies with histograms.
    histograms: bool,
}

impl std::ops::Deref for Facts<'_> {
    type Target = Service;
    fn deref(&self) -> &Service {
        self.service
    }
}

/// A section: its name, whether it is shown by default, its writer.
type Section = (&'static str, bool, fn(&Facts<'_>, &mut DocWriter<'_>));

static SECTIONS: &[Section] = &[
    ("asserts", true, asserts),
    ("catalogStats", true, catalog),
    ("connections", true, connections),
    ("extra_info", true, extra_info),
    ("globalLock", true, global_lock),
    ("locks", true, |s, w| {
        locks::write_of_all(s.commands, &s.counters, w)
    }),
    ("logicalSessionRecordCache", true, session_cache),
    ("mirroredReads", false, mirrored_reads),
    ("network", true, network),
    ("opLatencies", true, op_latencies),
    ("opcounters", true, op_counters),
    ("opcountersRepl", true, op_counters_repl),
    ("queues", true, queues),
    ("repl", true, repl),
    ("storageEngine", true, storage_engine),
    ("transactions", true, transactions),
    ("wiredTiger", true, wired_tiger),
    ("mem", true, memory),
    ("metrics", true, metrics),
    ("quarry", true, engine_stats),
];

fn run(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let asked = cx.request.body;
    let facts = Facts {
        service: cx.service,
        commands: cx.commands,
        histograms: asked
            .field("opLatencies")
            .as_doc()
            .is_some_and(|d| d.field("histograms").truthy()),
    };
    head(&facts, &mut cx.reply);
    for (name, default, write) in SECTIONS {
        let shown = asked.get(name).map_or(*default, |v| is_on(&v));
        if shown && applies(cx.service, name) {
            write(&facts, &mut cx.reply.doc(name));
        }
    }
    Ok(Outcome::Reply)
}

/// Whether this server has the data of a section.
fn applies(service: &Service, section: &str) -> bool {
    match section {
        "repl" => service.config.replica_set.is_some(),
        "wiredTiger" => service.engine_name() == "wiredTiger",
        _ => true,
    }
}

fn default_sections(facts: &Facts<'_>, w: &mut DocWriter<'_>) {
    for (name, default, write) in SECTIONS {
        if *default && applies(facts.service, name) {
            write(facts, &mut w.doc(name));
        }
    }
}

/// A section is switched on by any value except false, zero and null.
fn is_on(v: &Value<'_>) -> bool {
    v.truthy()
}

/// The sections that are shown by default.
pub(crate) fn status(service: &Service, commands: &CommandTable) -> DocBuf {
    let facts = Facts {
        service,
        commands,
        histograms: false,
    };
    DocBuf::build(|w| {
        head(&facts, w);
        default_sections(&facts, w);
    })
}

fn diagnostic_data(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let now = Value::Date(cx.now_ms());
    let facts = Facts {
        service: cx.service,
        commands: cx.commands,
        histograms: false,
    };
    let mut data = cx.reply.doc("data");
    data.put("start", now);
    let mut status = data.doc("serverStatus");
    status.put("start", now);
    head(&facts, &mut status);
    default_sections(&facts, &mut status);
    status.put("end", now);
    drop(status);
    data.put("end", now);
    Ok(Outcome::Reply)
}

fn head(s: &Facts<'_>, w: &mut DocWriter<'_>) {
    let up_ms = s.uptime_ms();
    w.put("host", &s.config.host);
    w.put("version", Release::of(s.config.profile).version);
    w.put("process", "mongod");
    w.array("service").push("shard");
    w.put("pid", i64::from(std::process::id()));
    w.put("uptime", (up_ms / 1000) as f64);
    w.put("uptimeMillis", up_ms);
    w.put("uptimeEstimate", up_ms / 1000);
    w.put("localTime", Value::Date(s.clock.now_ms()));
}

fn asserts(s: &Facts<'_>, w: &mut DocWriter<'_>) {
    let user = s.counters.user_asserts.load(Relaxed) as i32;
    doc_fields!(w; "regular": 0i32, "warning": 0i32, "msg": 0i32, "user": user, "tripwire": 0i32,
        "rollovers": 0i32);
}

fn catalog(s: &Facts<'_>, w: &mut DocWriter<'_>) {
    let c = s.catalog_counts();
    doc_fields!(w;
        "collections": c.collections, "capped": c.capped, "clustered": c.clustered,
            "timeseries": c.timeseries,
        "views": c.views, "internalCollections": c.internal, "internalViews": 0i32,
            "systemProfile": c.profile
    );
}

fn connections(s: &Facts<'_>, w: &mut DocWriter<'_>) {
    let all = s.connections.list();
    let current = i32::try_from(all.len()).unwrap_or(i32::MAX);
    let active = all.iter().filter(|c| c.op.lock().is_some()).count() as i32;
    let max = i32::try_from(s.config.connections_max).unwrap_or(i32::MAX);
    doc_fields!(w;
        "current": current, "available": max.saturating_sub(current),
            "totalCreated": s.connections.created_count()
    );
    if let Some(network) = s.state.network.get() {
        w.put("rejected", to_signed(network().rejected_connections));
    }
    w.put("active", active);
}

fn extra_info(_: &Facts<'_>, w: &mut DocWriter<'_>) {
    let p = Process::sample();
    doc_fields!(w;
        "note": "fields vary by platform", "user_time_us": p.user_time_us,
            "system_time_us": p.system_time_us,
        "page_faults": p.page_faults, "threads": p.threads
    );
}

/// Running operations: reads, writes, others.
fn count_running(s: &Facts<'_>) -> (i32, i32, i32) {
    let mut found = (0, 0, 0);
    for conn in s.connections.list() {
        let class = conn.op.lock().as_ref().map(|op| op.command.class);
        match class {
            None => {}
            Some(OpClass::Query | OpClass::GetMore) => found.0 += 1,
            Some(OpClass::Insert | OpClass::Update | OpClass::Delete) => found.1 += 1,
            Some(OpClass::Command) => found.2 += 1,
        }
    }
    found
}

fn global_lock(s: &Facts<'_>, w: &mut DocWriter<'_>) {
    let total_us = s.uptime_ms().saturating_mul(1000);
    let (readers, writers, others) = count_running(s);
    let [reads, writes] = s.state.admission.metrics();
    let queued = s.state.queued_writers.load(Relaxed) + writes.queue_length;
    let waiting = reads.queue_length;
    doc_fields!(w;
        "totalTime": total_us,
        "currentQueue": { "total": queued + waiting, "readers": waiting, "writers": queued },
        "activeClients": { "total": readers + writers + others, "readers": readers,
            "writers": writers }
    );
}

fn session_cache(s: &Facts<'_>, w: &mut DocWriter<'_>) {
    w.put("activeSessionsCount", s.state.sessions.len() as i32);
}

fn mirrored_reads(_: &Facts<'_>, w: &mut DocWriter<'_>) {
    doc_fields!(w; "seen": 0i64, "sent": 0i64, "erroredDuringSend": 0i64, "resolved": 0i64,
        "resolvedBreakdown": {}, "succeeded": 0i64, "pending": 0i64, "scheduled": 0i64);
}

fn network(s: &Facts<'_>, w: &mut DocWriter<'_>) {
    let requests = s.counters.requests.load(Relaxed);
    // Without a network, as in tests, there are no counters.
    if let Some(network) = s.state.network.get() {
        let n = network();
        let (in_, out) = (to_signed(n.bytes_in), to_signed(n.bytes_out));
        doc_fields!(w; "bytesIn": in_, "bytesOut": out, "physicalBytesIn": in_,
            "physicalBytesOut": out);
    }
    w.put("numRequests", requests);
}

/// Latencies of all commands of each kind, in microseconds.
fn op_latencies(s: &Facts<'_>, w: &mut DocWriter<'_>) {
    for (name, kind) in [
        ("reads", LatencyKind::Read),
        ("writes", LatencyKind::Write),
        ("commands", LatencyKind::Command),
    ] {
        let mut all = LatencyCounts::default();
        let rows = s.commands.all().filter(|row| row.command.kind == kind);
        rows.for_each(|row| all.add(&row.latency.counts()));
        write_latency(&all, s.histograms, &mut w.doc(name));
    }
    let transactions = s.state.transactions.open_times().counts();
    write_latency(&transactions, s.histograms, &mut w.doc("transactions"));
}

fn op_counters(s: &Facts<'_>, w: &mut DocWriter<'_>) {
    use OpClass::{Command, Delete, GetMore, Insert, Query, Update};
    for (name, class) in [
        ("insert", Insert),
        ("query", Query),
        ("update", Update),
        ("delete", Delete),
        ("getmore", GetMore),
        ("command", Command),
    ] {
        w.put(name, s.counters.class(class));
    }
}

fn op_counters_repl(_: &Facts<'_>, w: &mut DocWriter<'_>) {
    for name in ["insert", "query", "update", "delete", "getmore", "command"] {
        w.put(name, 0i64);
    }
}

fn repl(s: &Facts<'_>, w: &mut DocWriter<'_>) {
    let host = s.config.host.as_str();
    w.array("hosts").push(host);
    w.put("setName", s.config.replica_set.as_deref().unwrap_or(""))
        .put("setVersion", 1i32);
    // Written under both names: drivers older than 2021 read the second one.
    w.put("isWritablePrimary", true)
        .put("ismaster", true)
        .put("secondary", false)
        .put("primary", host)
        .put("me", host);
    w.put("electionId", s.election_id());
    w.doc("topologyVersion")
        .put("processId", s.process_id)
        .put("counter", s.topology_counter());
    w.put("rbid", 1i32);
}

fn storage_engine(s: &Facts<'_>, w: &mut DocWriter<'_>) {
    let name = s.engine_name();
    doc_fields!(w;
        "name": name, "supportsCommittedReads": true, "supportsSnapshotReadConcern": true,
            "readOnly": false, "persistent": s.engine_persistent(),
        "backupCursorOpen": s.state.backups.is_open()
    );
}

fn transactions(s: &Facts<'_>, w: &mut DocWriter<'_>) {
    let counts = &s.state.transactions;
    for (name, count) in [
        ("currentOpen", counts.open()),
        ("totalAborted", counts.aborted_count()),
        ("totalCommitted", counts.committed_count()),
        ("totalStarted", counts.started_count()),
        ("totalPrepared", 0),
        ("totalPreparedThenCommitted", 0),
        ("totalPreparedThenAborted", 0),
        ("currentPrepared", 0),
    ] {
        w.put(name, count);
    }
}

fn available(gate: &GateMetrics) -> i64 {
    (gate.total - gate.out).max(0)
}

/// Running and waiting operations.
fn queues(s: &Facts<'_>, w: &mut DocWriter<'_>) {
    let mut execution = w.doc("execution");
    for (name, gate) in ["read", "write"]
        .into_iter()
        .zip(s.state.admission.metrics())
    {
        let mut one = execution.doc(name);
        doc_fields!(one;
            "out": gate.out, "available": available(&gate), "totalTickets": gate.total,
            "normalPriority": {
                "newAdmissions": gate.admissions, "queueLength": gate.queue_length,
                "addedToQueue": gate.queued, "removedFromQueue": gate.left_queue,
                "totalTimeQueuedMicros": gate.queued_us
            },
            "rejected": gate.rejected
        );
    }
}

/// The fields of WiredTiger's section that monitoring tools read, filled with the engine's own
/// numbers.
fn wired_tiger(s: &Facts<'_>, w: &mut DocWriter<'_>) {
    let e = s.engine_numbers();
    let [reads, writes] = s.state.admission.metrics();
    doc_fields!(w;
        "uri": "statistics:",
        "cache": {
            "bytes currently in the cache": e.cache_bytes,
            "tracked dirty bytes in the cache": e.dirty_bytes,
            "maximum bytes configured": e.cache_bytes_max,
            "bytes read into cache": e.read_bytes,
            "bytes written from cache": e.written_bytes
        },
        "concurrentTransactions": {
            "read": { "out": reads.out, "available": available(&reads),
                "totalTickets": reads.total },
            "write": { "out": writes.out, "available": available(&writes),
                "totalTickets": writes.total }
        }
    );
}

/// All metrics of the storage engine under the engine's names.
fn engine_stats(s: &Facts<'_>, w: &mut DocWriter<'_>) {
    w.put("version", env!("CARGO_PKG_VERSION"));
    operations_memory(s, &mut w.doc("operationsMemory"));
    unpublished_log(s, &mut w.doc("log"));
    log_consumers(s, w);
    log_references(s, &mut w.doc("logReferences"));
    search(s, &mut w.doc("search"));
    followed::add(s.service, w);
    if s.store.follows() {
        let reads = &s.state.reads_here;
        doc_fields!(w;
            "reads": {
                "executed": to_signed(reads.executed.load(Relaxed)),
                "handedOn": to_signed(reads.handed_on.load(Relaxed)),
            },
        );
    }
    let mut workers = w.doc("workers");
    for worker in s.state.workers.list() {
        let mut one = workers.doc(worker.name());
        for (name, n) in worker.numbers() {
            one.put(name, n);
        }
    }
    drop(workers);
    let mut e = w.doc("engine");
    s.store.engine().stats(&mut |name, value| {
        e.put(name, value);
    });
}

/// Search indexes by status, and the cost of searches; zeros on a server without search.
fn search(s: &Facts<'_>, w: &mut DocWriter<'_>) {
    let f = s.service.search.figures();
    let [pending, building, ready, stale, failed] = f.by_status.map(to_signed);
    doc_fields!(w;
        "indexes": { "pending": pending, "building": building, "ready": ready, "stale": stale,
            "failed": failed },
        "documents": to_signed(f.documents), "graphBytes": to_signed(f.graph_bytes),
        "searches": to_signed(f.searches), "searchesFailed": to_signed(f.failed),
        "searchMicros": to_signed(f.search_us)
    );
}

/// Documents that the log refers to instead of copying them (ADR 0051), since the start; zeros on a
/// server without a log.
fn log_references(s: &Facts<'_>, w: &mut DocWriter<'_>) {
    let counts = s.store.feed().map(|log| log.reference_counts());
    let counts = counts.unwrap_or_default();
    doc_fields!(w;
        "made": to_signed(counts.made), "saved": to_signed(counts.saved),
        "followed": to_signed(counts.followed)
    );
}

/// What this server has committed and readers of the log do not see yet; zeros without a log that
/// several servers write.
fn unpublished_log(s: &Facts<'_>, w: &mut DocWriter<'_>) {
    let log = s.store.feed().map(|log| log.unpublished());
    let log = log.unwrap_or_default();
    doc_fields!(w;
        "unpublishedCommits": to_signed(log.commits),
        "unpublishedSeconds": log.age_ms as f64 / 1000.0
    );
}

/// The consumers of the log and their lag; zeros on a server without a log.
fn log_consumers(s: &Facts<'_>, w: &mut DocWriter<'_>) {
    // A log that cannot be read shows no consumers here; its readers report the error.
    let all = s.store.log_consumers().unwrap_or_default();
    let seconds = |ms: u64| ms as f64 / 1000.0;
    let operations = all.iter().map(|c| c.lag_operations).max();
    let age = all.iter().map(|c| c.lag_ms).max();
    let held = s.store.feed().map_or(0, |log| log.held_bytes_max());
    let mut section = w.doc("logConsumers");
    doc_fields!(section;
        "count": to_signed(all.len() as u64),
        "stale": to_signed(all.iter().filter(|c| c.stale).count() as u64),
        "lagOperations": to_signed(operations.unwrap_or(0)),
        "lagSeconds": seconds(age.unwrap_or(0)),
        "heldBytesMax": to_signed(held)
    );
    let mut list = section.array("consumers");
    for c in &all {
        let state = if c.stale { "STALE" } else { "FOLLOWING" };
        let mut one = list.doc();
        doc_fields!(one; "name": c.name.as_str(), "state": state, "saved": c.saved,
            "lagOperations": to_signed(c.lag_operations), "lagSeconds": seconds(c.lag_ms));
    }
}

/// The memory of operations. The engine's caches have their own limits.
fn operations_memory(s: &Facts<'_>, w: &mut DocWriter<'_>) {
    let f = s.config.memory.stats();
    let n = |bytes: usize| i64::try_from(bytes).unwrap_or(i64::MAX);
    doc_fields!(w;
        "limitBytes": n(f.limit_bytes), "operationLimitBytes": n(f.share_bytes),
            "usedBytes": n(f.used_bytes),
        "usedBytesMax": n(f.used_bytes_max), "refused": f.refused as i64,
            "reclaimed": f.reclaimed as i64
    );
    let room = s.room.metrics();
    let mut large = w.doc("largeDocuments");
    doc_fields!(large;
        "limitBytes": n(room.bytes), "takenBytes": n(room.taken_bytes),
        "waiting": n(room.waiting), "waited": room.waited as i64,
        "refused": room.refused as i64
    );
}

fn memory(_: &Facts<'_>, w: &mut DocWriter<'_>) {
    let p = Process::sample();
    let mb = |b: i64| i32::try_from(b / (1024 * 1024)).unwrap_or(i32::MAX);
    doc_fields!(w; "bits": 64i32, "resident": mb(p.resident_bytes), "virtual": mb(p.virtual_bytes),
        "supported": true);
}

fn metrics(s: &Facts<'_>, w: &mut DocWriter<'_>) {
    let mut commands = w.doc("commands");
    commands.put("<UNKNOWN>", s.counters.unknown());
    let mut rows: Vec<_> = s.commands.all().collect();
    rows.sort_by_key(|row| row.command.name);
    for row in rows {
        commands
            .doc(row.command.name)
            .put("failed", row.failure_count())
            .put("total", row.total());
    }
    drop(commands);
    let open = s.cursors.counts();
    doc_fields!(w;
        "document": {
            "deleted": s.counters.documents.deleted.load(Relaxed),
            "inserted": s.counters.documents.inserted.load(Relaxed),
            "returned": s.counters.documents.returned.load(Relaxed),
            "updated": s.counters.documents.updated.load(Relaxed)
        },
        "queryExecutor": {
            "scanned": s.counters.documents.keys_examined.load(Relaxed),
            "scannedObjects": s.counters.documents.examined.load(Relaxed),
            "collectionScans": { "total": s.counters.documents.collection_scans.load(Relaxed) }
        },
        "cursor": {
            "timedOut": open.timed_out,
            "totalOpened": open.opened,
            "open": { "noTimeout": open.no_timeout, "pinned": open.in_use, "total": open.open }
        }
    );
    let mut ttl = w.doc("ttl");
    ttl.put("collSubpassesIncreasedPriority", 0i64)
        .put("deletedDocuments", s.ttl.deleted.load(Relaxed));
    ttl.put("invalidTTLIndexSkips", s.ttl.invalid_indexes.load(Relaxed));
    ttl.put("passes", s.ttl.passes.load(Relaxed))
        .put("subPasses", s.ttl.sub_passes.load(Relaxed));
}
