//! Running operations, idle connections, sessions and cursors as documents, for `currentOp` and
//! `$currentOp`.

use super::connections::ConnectionInfo;
use super::cursors::CursorInfo;
use super::service::Service;
use super::sessions::Session;
use access::user::NO_USER;
use model::{Binary, Doc, DocBuf, DocWriter, Value};
use operation::Progress;
use request::spec::OpClass;

/// What is listed in addition to running operations.
#[derive(Clone, Copy, Debug, Default)]
pub struct IdleSelection {
    /// Idle connections and background workers; workers belong to no user.
    pub connections: bool,
    /// Cursors between two commands.
    pub cursors: bool,
    /// Sessions with an open transaction, between two statements.
    pub sessions: bool,
}

/// One document per running operation, and one per idle object of the requested kinds. `of`
/// restricts the list to one user and leaves out workers.
pub fn list(service: &Service, idle: IdleSelection, of: Option<&[u8; 32]>) -> Vec<DocBuf> {
    let is_of = |owner: &[u8; 32]| of.is_none_or(|o| o == owner);
    let connections = service.connections.list();
    let mut all: Vec<DocBuf> = connections
        .iter()
        .filter(|c| idle.connections || c.op.lock().is_some())
        .filter(|c| is_of(&c.user.lock().as_ref().map_or(*NO_USER, |u| u.digest)))
        .map(|c| describe(service, c))
        .collect();
    if idle.connections && of.is_none() {
        let (host, clock) = (&service.config.host, service.clock.as_ref());
        let workers = service.state.workers.list();
        all.extend(workers.iter().map(|worker| worker.describe(host, clock)));
    }
    if idle.sessions {
        let sessions = service.state.sessions.list();
        let seen = sessions.iter().filter(|(_, s)| is_of(&s.owner));
        all.extend(seen.filter_map(|(id, s)| idle_session(service, id, s)));
    }
    if idle.cursors {
        let cursors = service.cursors.list();
        let seen = cursors
            .iter()
            .filter(|(_, info)| !info.in_use && is_of(&info.owner));
        all.extend(seen.map(|(id, info)| idle_cursor(service, *id, info)));
    }
    all
}

/// A session that has an open transaction and runs no command.
fn idle_session(service: &Service, id: &[u8; 16], session: &Session) -> Option<DocBuf> {
    // The writes are locked while a command of the session runs.
    let open = session.writes.try_lock()?.open_transaction()?;
    let began_ms = service.clock.now_ms() - open.open_us / 1000;
    Some(DocBuf::build(|w| {
        w.put("type", "idleSession")
            .put("host", &service.config.host)
            .put("desc", "inactive transaction");
        describe_session(id, &session.owner, &mut w.doc("lsid"));
        {
            let mut transaction = w.doc("transaction");
            transaction
                .doc("parameters")
                .put("txnNumber", open.number)
                .put("autocommit", false);
            let began = model::extjson::log_time(began_ms);
            let expires = model::extjson::log_time(open.expires.wall_ms);
            transaction
                .put("startWallClockTime", began.as_str())
                .put("timeOpenMicros", open.open_us)
                .put("expiryTime", expires.as_str());
        }
        w.put("waitingForLock", false).put("active", false);
    }))
}

fn idle_cursor(service: &Service, id: i64, info: &CursorInfo) -> DocBuf {
    DocBuf::build(|w| {
        w.put("type", "idleCursor")
            .put("host", &service.config.host)
            .put("ns", &info.ns);
        if let Some(session) = &info.lsid {
            describe_session(session, &info.owner, &mut w.doc("lsid"));
        }
        describe_cursor(id, info, &mut w.doc("cursor"));
    })
}

fn describe_cursor(id: i64, info: &CursorInfo, w: &mut DocWriter<'_>) {
    w.put("cursorId", id);
    w.put("createdDate", Value::Date(info.opened.wall_ms))
        .put("lastAccessDate", Value::Date(info.last_use.wall_ms));
    w.put("nDocsReturned", info.documents)
        .put("nBatchesReturned", info.batches);
    w.put("noCursorTimeout", info.no_timeout)
        .put("tailable", info.tailable)
        .put("awaitData", info.await_data);
    if let Some(command) = &info.command {
        w.put("originatingCommand", command);
    }
}

/// Writes the fields that show a session.
pub fn describe_session(id: &[u8; 16], owner: &[u8; 32], w: &mut DocWriter<'_>) {
    let binary = |subtype, bytes| Binary { subtype, bytes };
    w.put("id", binary(4, &id[..]))
        .put("uid", binary(0, &owner[..]));
}

/// MongoDB's names of kinds of operations.
pub fn kind(class: OpClass) -> &'static str {
    match class {
        OpClass::Query => "query",
        OpClass::GetMore => "getmore",
        OpClass::Insert => "insert",
        OpClass::Update => "update",
        OpClass::Delete => "remove",
        OpClass::Command => "command",
    }
}

fn describe_progress(progress: &Progress, w: &mut DocWriter<'_>) {
    let Progress {
        message,
        done,
        total,
    } = *progress;
    let percent = done.saturating_mul(100) / total.max(1);
    let text = format!("{message} {message}: {done}/{total} {percent}%");
    w.put("msg", text.as_str());
    w.doc("progress")
        .put("done", i64::try_from(done).unwrap_or(i64::MAX))
        .put("total", i64::try_from(total).unwrap_or(i64::MAX));
}

fn describe(service: &Service, conn: &ConnectionInfo) -> DocBuf {
    let op = conn.op.lock().clone();
    let client = conn.client.lock().clone();
    let now_us = service.clock.monotonic_us();
    DocBuf::build(|w| {
        w.put("type", "op");
        w.put("host", &service.config.host);
        w.put("desc", format!("conn{}", conn.id).as_str());
        w.put("connectionId", conn.id);
        w.put("client", &conn.peer);
        if let Some(client) = &client {
            w.put("clientMetadata", client);
            let app = client
                .doc()
                .field("application")
                .as_doc()
                .and_then(|a| a.field("name").as_str());
            w.put("appName", app.map_or(Value::Missing, Value::String));
        }
        let user = conn.user.lock().clone();
        if let Some(user) = &user {
            user.name.write(&mut w.array("effectiveUsers").doc());
        }
        w.put("active", op.is_some());
        let Some(op) = &op else { return };
        let running_us = i64::try_from(now_us.saturating_sub(op.start_us)).unwrap_or(0);
        w.put(
            "currentOpTime",
            model::extjson::log_time(op.start_ms).as_str(),
        );
        w.put("threaded", true);
        w.put("opid", op.opid);
        if let Some(id) = &op.lsid {
            let user = user.as_ref().filter(|_| service.access.is_enabled());
            let digest = user.map_or(*NO_USER, |u| u.digest);
            describe_session(id, &digest, &mut w.doc("lsid"));
        }
        w.put("secs_running", running_us / 1_000_000);
        w.put("microsecs_running", running_us);
        w.put("op", kind(op.command.class));
        let body = Doc::from_prefix(&op.body);
        // A getMore has the name of its collection in the field `collection`.
        let own = body.first().map_or(Value::Missing, |(_, v)| v);
        let named = if op.command.class == OpClass::GetMore {
            body.field("collection")
        } else {
            own
        };
        let coll = named.as_str().unwrap_or(op.command.no_collection);
        w.put("ns", format!("{}.{coll}", op.db).as_str());
        if body.is_empty() {
            w.doc("command")
                .put(op.command.name, coll)
                .put("$truncated", true);
        } else {
            w.put("command", body);
        }
        if let Some(id) = op.cursor
            && let Some((id, info)) = service.cursors.list().iter().find(|(open, _)| *open == id)
        {
            describe_cursor(*id, info, &mut w.doc("cursor"));
        }
        if let Some(progress) = op.operation.progress() {
            describe_progress(&progress, w);
        }
        w.put("numYields", 0i32);
        w.put("waitingForLock", op.waits_for_lock);
        if op.operation.is_killed() {
            w.put("killPending", true);
        }
    })
}
