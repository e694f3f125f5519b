//! `getMore` and `killCursors`.

use crate::args::{Kind, arg, wrong_type};
use crate::ctx::Ctx;
use crate::cursors::{BatchLimit, CursorInfo, Progress};
use crate::registry::{Command, OpClass, flag};
use crate::request::{Outcome, WaitFor};
use model::{Array, Result, Tag, Value, bail, code};

pub(crate) static COMMANDS: &[Command] = &[
    Command {
        value: Kind::OneOf(&[Tag::INT64]),
        class: OpClass::GetMore,
        ..super::command(
            "getMore",
            "next batch of a cursor",
            flag::API_V1,
            &[
                arg("collection", Kind::Str).required(),
                arg("batchSize", Kind::AtLeast(0, code::BAD_VALUE)),
                arg("term", Kind::OneOf(&[Tag::INT64])),
                arg("lastKnownCommittedOpTime", Kind::Object),
                arg("includeQueryStatsMetrics", Kind::Bool),
            ],
            get_more,
        )
    },
    Command {
        value: Kind::Collection,
        ..super::command("killCursors", "ends cursors", flag::API_V1, &[arg("cursors", Kind::Array).required()], kill_cursors)
    },
];

/// Milliseconds a cursor waits for data when the client names no time.
const AWAIT_MS_DEFAULT: i64 = 1000;

fn get_more(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let id = cx.value().as_i64_exact().unwrap_or(0);
    let coll = cx.args.str("collection").unwrap_or("");
    if coll.is_empty() {
        bail!(code::INVALID_NAMESPACE, "Invalid namespace specified '{}.'", cx.db);
    }
    let ns = format!("{}.{coll}", cx.db);
    let lsid = cx.generic.lsid.map(|l| l.id);
    let (mut cursor, info) = cx.service.cursors.take(id, &ns, lsid)?;
    // From here on the cursor must be parked or closed whatever happens.
    let timed = cx.request.body.get("maxTimeMS").is_some_and(|v| v.is_number());
    if timed && !info.await_data {
        cx.service.cursors.park(id, cursor, info);
        bail!(code::BAD_VALUE, "cannot set maxTimeMS on getMore command for a non-awaitData cursor");
    }
    let limit = match cx.args.int("batchSize") {
        Some(0) | None => BatchLimit::of(None),
        n => BatchLimit::of(n),
    };
    let mut out = cx.reply.doc("cursor");
    let mut batch = out.array("nextBatch");
    let progress = match cursor.next_batch(limit, &mut batch) {
        Ok(p) => p,
        Err(e) => {
            cx.service.cursors.close(id);
            return Err(e);
        }
    };
    let count = batch.len();
    drop(batch);
    let wait_ms = if timed { cx.generic.max_time_ms } else { AWAIT_MS_DEFAULT };
    if count == 0 && progress == Progress::Idle && info.await_data && !cx.request.waited && wait_ms > 0 {
        drop(out);
        cx.service.cursors.park(id, cursor, info);
        let wait_us = u64::try_from(wait_ms).unwrap_or(0).saturating_mul(1000);
        let until_us = cx.service.clock.monotonic_us().saturating_add(wait_us);
        return Ok(Outcome::Wait { until_us, on: WaitFor::Data { cursor: id } });
    }
    cursor.write_extra(&mut out);
    let ended = progress == Progress::Done || progress == Progress::Idle && !info.tailable;
    let open = if ended {
        cx.service.cursors.close(id);
        false
    } else {
        let info = CursorInfo {
            last_use_ms: cx.service.clock.now_ms(),
            batches: info.batches + 1,
            documents: info.documents.saturating_add(i64::try_from(count).unwrap_or(i64::MAX)),
            ..info
        };
        cx.service.cursors.park(id, cursor, info)
    };
    out.put("id", if open { id } else { 0 }).put("ns", &ns);
    drop(out);
    Ok(if cx.request.exhaust_allowed && open { Outcome::Exhaust } else { Outcome::Reply })
}

fn kill_cursors(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let mut ids = Vec::new();
    for (i, v) in cx.args.array("cursors").unwrap_or(Array::EMPTY).iter().enumerate() {
        match v {
            Value::Int64(id) => ids.push(id),
            Value::Null | Value::Undefined => {}
            v => return Err(wrong_type(&format!("killCursors.cursors.{i}"), &v, &[Tag::INT64])),
        }
    }
    let (killed, missing): (Vec<i64>, Vec<i64>) = ids.into_iter().partition(|id| cx.service.cursors.kill(*id));
    for (name, ids) in [("cursorsKilled", &killed[..]), ("cursorsNotFound", &missing[..]), ("cursorsAlive", &[]), ("cursorsUnknown", &[])] {
        let mut list = cx.reply.array(name);
        for id in ids {
            list.push(*id);
        }
    }
    Ok(Outcome::Reply)
}
