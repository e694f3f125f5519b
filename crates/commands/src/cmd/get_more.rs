//! `getMore` and `killCursors`.

use context::command::Command;
use context::connection::{DataWait, WaitRegistration};
use context::ctx::Ctx;
use model::{Array, MongoError, Namespace, Result, Tag, Value, bail, code};
use operation::Link;
use request::args::{Kind, arg, wrong_type};
use request::spec::{Durability, LatencyKind, OpClass, Privilege, flag};
use request::{Outcome, WaitFor};
use state::cursors::{BatchLimit, Cursor, CursorInfo, Progress, Tail, killed_error};
use state::service::Service;
use std::sync::Arc;

pub(crate) static COMMANDS: &[Command] = &[
    Command::new(
        "getMore",
        "next batch of a cursor",
        Privilege::Any,
        flag::API_V1
            | flag::ENDS_WITH_CLIENT
            | flag::IN_TRANSACTION
            | flag::WAITS_FOR_DATA
            | flag::OF_CURSOR,
        &[
            arg("collection", Kind::Str).required(),
            arg("batchSize", Kind::AtLeast(0, code::BAD_VALUE)),
            arg("term", Kind::OneOf(&[Tag::INT64])),
            arg("lastKnownCommittedOpTime", Kind::Object),
            arg("includeQueryStatsMetrics", Kind::Bool),
        ],
        get_more,
    )
    .value(Kind::OneOf(&[Tag::INT64]))
    .class(OpClass::GetMore)
    .kind(LatencyKind::Read)
    .durability(Durability::Reads),
    Command::new(
        "killCursors",
        "ends cursors",
        Privilege::Any,
        flag::API_V1 | flag::IN_TRANSACTION,
        &[arg("cursors", Kind::Array).required()],
        kill_cursors,
    )
    .value(Kind::Collection),
];

/// Milliseconds that a cursor waits for data when the client specifies no time.
const AWAIT_MS_DEFAULT: i64 = 1000;

/// Pause between two looks for what other servers have inserted, in microseconds.
const LOOK_US: u64 = 50_000;

/// Errors after which drivers resume a change stream at its last position.
const RESUMABLE: &[i32] = &[
    6, 7, 63, 89, 91, 133, 150, 189, 234, 262, 9001, 10_107, 11_600, 11_602, 13_388, 13_435, 13_436,
];

fn get_more(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let id = cx.value().as_i64_exact().unwrap_or(0);
    let ns = namespace(cx)?;
    let mut used = begin(cx, id, &ns)?;
    cx.reported.durable_reads(used.info.durable_reads);
    used.info
        .command
        .iter()
        .for_each(|c| cx.note_opening_comment(c));
    // From here on, every path must park, suspend or close the cursor.
    let limit = match cx.args.int("batchSize") {
        Some(0) | None => BatchLimit::of(None),
        n => BatchLimit::of(n),
    };
    let mut out = cx.reply.doc("cursor");
    let mut batch = out.array("nextBatch");
    let progress = loop {
        match used.cursor.next_batch(limit, &cx.operation, &mut batch) {
            Ok(Progress::Idle) if batch.is_empty() => {}
            Ok(p) => break p,
            Err(e) => {
                cx.service.cursors.close(id);
                return Err(resumable(e, &used.info));
            }
        }
        let now_us = cx.service.clock.monotonic_us();
        let (Some(tails), true) = (&used.info.tails, now_us < used.until_us) else {
            break Progress::Idle;
        };
        let until_us = used.until_us;
        match used.awaits.take() {
            None => {
                // Register before the second read, so that a later insert wakes this operation.
                let link = cx.operation.link().cloned();
                let waiting = wait(cx.service, cx.conn.info.id, link, tails);
                used.awaits = Some(DataWait {
                    cursor: None,
                    until_us,
                    _waiting: waiting,
                    cursors: Arc::clone(&cx.service.cursors),
                });
            }
            Some(mut awaits) => {
                cx.service.cursors.suspend(id, used.cursor);
                awaits.cursor = Some(id);
                cx.conn.awaits = Some(awaits);
                return Ok(Outcome::Wait {
                    until_us: look_us(cx.service, until_us),
                    on: WaitFor::Data { cursor: id },
                });
            }
        }
    };
    let count = batch.len();
    cx.operation.reads().set_returned(count);
    drop(batch);
    used.cursor.write_extra(&mut out);
    let open = progress != Progress::Done;
    if !open {
        cx.service.cursors.close(id);
    } else if !used.park(cx.service, id, count, cx.operation.remaining_us()) {
        // The cursor was killed after its last check: without an error, the client would take this
        // batch for the last one.
        drop(out);
        cx.operation.check()?;
        return Err(killed_error());
    }
    out.put("id", if open { id } else { 0 }).put("ns", &ns);
    drop(out);
    Ok(if cx.request.exhaust_allowed && open {
        Outcome::Exhaust
    } else {
        Outcome::Reply
    })
}

/// When a wait for data until this time looks again. Nobody wakes it for what another server
/// inserts.
fn look_us(service: &Service, until_us: u64) -> u64 {
    match service.store.is_beside_others() {
        true => until_us.min(service.clock.monotonic_us() + LOOK_US),
        false => until_us,
    }
}

/// The namespace that the client gives with the cursor.
fn namespace(cx: &Ctx<'_, '_>) -> Result<String> {
    let coll = cx.args.str("collection").unwrap_or("");
    if coll.is_empty() {
        bail!(
            code::INVALID_NAMESPACE,
            "Invalid namespace specified '{}.'",
            cx.db
        );
    }
    Ok(format!("{}.{coll}", cx.db))
}

/// Labels the error of a change stream if the client may resume the stream.
fn resumable(e: MongoError, info: &CursorInfo) -> MongoError {
    if !matches!(info.tails, Some(Tail::Log(_))) {
        return e;
    }
    match e.code() {
        code::CHANGE_STREAM_FATAL_ERROR | code::CHANGE_STREAM_HISTORY_LOST => {
            e.label("NonResumableChangeStreamError")
        }
        c if RESUMABLE.contains(&c) => e.label("ResumableChangeStreamError"),
        _ => e,
    }
}

/// Registers the operation to be woken by new data.
fn wait(
    service: &Service,
    connection: i64,
    link: Option<Arc<dyn Link>>,
    tails: &Tail,
) -> WaitRegistration {
    match tails {
        Tail::Capped(uuid) => WaitRegistration::Capped {
            _waiter: service.capped_waiters.wait(*uuid, connection, link),
        },
        Tail::Log(watch) => WaitRegistration::Log {
            _waker: watch.wake(Arc::new(move || {
                if let Some(link) = &link {
                    link.wake();
                }
            })),
        },
    }
}

/// A cursor that this command is using.
struct ActiveCursor {
    cursor: Box<dyn Cursor>,
    info: CursorInfo,
    /// The end of the wait for data, monotonic microseconds; 0 for no wait.
    until_us: u64,
    awaits: Option<DataWait>,
}

impl ActiveCursor {
    /// Parks the cursor after a batch of `count` documents; false when it was killed in the
    /// meantime.
    fn park(self, service: &Service, id: i64, count: usize, left_us: Option<u64>) -> bool {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let info = CursorInfo {
            last_use: service.clock.read(),
            batches: self.info.batches + 1,
            documents: self.info.documents.saturating_add(count),
            left_us,
            ..self.info
        };
        service.cursors.park(id, self.cursor, info)
    }
}

/// Fails when another server has dropped or renamed what the cursor reads.
fn check_there(cx: &Ctx<'_, '_>, info: &CursorInfo) -> Result<()> {
    let Some((uuid, (db, coll))) = info.reads.zip(info.ns.split_once('.')) else {
        return Ok(());
    };
    let now = cx.collection(&Namespace::new(db, coll)?)?;
    if now.is_none_or(|c| c.uuid() != uuid) {
        bail!(
            code::QUERY_PLAN_KILLED,
            "collection dropped or renamed: {}",
            info.ns
        );
    }
    Ok(())
}

/// Takes the cursor, or resumes it after a wait.
fn begin(cx: &mut Ctx<'_, '_>, id: i64, ns: &str) -> Result<ActiveCursor> {
    if let (Some(mut awaits), true) = (cx.conn.awaits.take(), cx.request.waited) {
        let (cursor, info) = cx.service.cursors.resume(id)?;
        awaits.cursor = None;
        return Ok(ActiveCursor {
            cursor,
            info,
            until_us: awaits.until_us,
            awaits: Some(awaits),
        });
    }
    if cx.service.access.is_enabled() {
        let owner = cx.service.cursors.owner(id);
        if owner.is_some_and(|(owner, _)| owner != cx.owner()) {
            bail!(
                code::UNAUTHORIZED,
                "cursor id {id} was not created by the authenticated user"
            );
        }
    }
    let lsid = cx.generic.lsid.map(|l| l.id);
    let number = cx.transaction.as_ref().and(cx.generic.txn_number);
    let (cursor, info) = cx
        .service
        .cursors
        .take(id, ns, lsid, number, &cx.operation)?;
    if let Err(e) = check_there(cx, &info) {
        cx.service.cursors.close(id);
        return Err(e);
    }
    if let Err(e) = cx.service.state.failpoints.check_get_more() {
        cx.service.cursors.close(id);
        return Err(resumable(e, &info));
    }
    let timed = cx
        .request
        .body
        .get("maxTimeMS")
        .is_some_and(|v| v.is_number());
    if timed && !info.await_data {
        cx.service.cursors.park(id, cursor, info);
        bail!(
            code::BAD_VALUE,
            "cannot set maxTimeMS on getMore command for a non-awaitData cursor"
        );
    }
    // For a wait for data, the time limit comes from the getMore instead.
    if let (Some(left), false) = (info.left_us, info.await_data) {
        cx.operation.allow_us(left);
        if let Err(e) = cx.service.state.failpoints.time_out() {
            cx.service.cursors.close(id);
            return Err(e);
        }
    }
    cx.uses_cursor(id);
    let wait_ms = if timed {
        cx.generic.max_time_ms
    } else {
        AWAIT_MS_DEFAULT
    };
    let until_us = match info.await_data {
        true => cx
            .service
            .clock
            .monotonic_us()
            .saturating_add(u64::try_from(wait_ms).unwrap_or(0).saturating_mul(1000)),
        false => 0,
    };
    Ok(ActiveCursor {
        cursor,
        info,
        until_us,
        awaits: None,
    })
}

/// Checks the right to kill the cursor of another user.
fn check_may_kill(cx: &Ctx<'_, '_>, id: i64) -> Result<()> {
    let Some((owner, ns)) = cx.service.cursors.owner(id) else {
        return Ok(());
    };
    let (db, coll) = ns.split_once('.').unwrap_or((&ns, ""));
    let rights = cx.rights();
    let any = &[auth::Action::KillAnyCursor];
    let may = owner == cx.owner()
        || rights.allows(auth::Target::Cluster, any)
        || rights.allows(auth::Target::Collection(db, coll), any);
    if may {
        Ok(())
    } else {
        Err(access::unauthorized_error(cx.db, cx.request.body))
    }
}

fn kill_cursors(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let mut ids = Vec::new();
    for (i, v) in cx
        .args
        .array("cursors")
        .unwrap_or(Array::EMPTY)
        .iter()
        .enumerate()
    {
        match v {
            Value::Int64(id) => ids.push(id),
            Value::Null | Value::Undefined => {}
            v => {
                return Err(wrong_type(
                    &format!("killCursors.cursors.{i}"),
                    &v,
                    &[Tag::INT64],
                ));
            }
        }
    }
    if cx.service.access.is_enabled() {
        ids.iter().try_for_each(|id| check_may_kill(cx, *id))?;
    }
    let (killed, missing): (Vec<i64>, Vec<i64>) =
        ids.into_iter().partition(|id| cx.service.cursors.kill(*id));
    for (name, ids) in [
        ("cursorsKilled", &killed[..]),
        ("cursorsNotFound", &missing[..]),
        ("cursorsAlive", &[]),
        ("cursorsUnknown", &[]),
    ] {
        let mut list = cx.reply.array(name);
        for id in ids {
            list.push(*id);
        }
    }
    Ok(Outcome::Reply)
}
