//! `currentOp` and `killOp`.

use super::command;
use crate::dispatch::args::{Kind, arg, wrong_type};
use crate::dispatch::ctx::Ctx;
use crate::state::cursors::CursorInfo;
use crate::dispatch::generic;
use crate::dispatch::command::{Command, flag};
use crate::dispatch::request::Outcome;
use crate::service::{ConnectionInfo, Service};
use model::{Binary, Doc, DocBuf, DocWriter, Result, Tag, Value, bail, code};

pub(crate) static COMMANDS: &[Command] = &[
    command(
        "currentOp",
        "operations running now",
        flag::ADMIN | flag::LENIENT,
        &[arg("$all", Kind::BoolLike), arg("$ownOps", Kind::BoolLike), arg("$truncateOps", Kind::BoolLike)],
        current_op,
    ),
    command("killOp", "ends an operation", flag::ADMIN | flag::LENIENT, &[arg("op", Kind::Any)], kill_op),
];

fn current_op(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let idle = cx.args.bool("$all", false);
    // Every field that is no argument is a condition on the operations.
    let filter = DocBuf::build(|w| {
        for (name, v) in cx.request.body.iter().skip(1) {
            if !cx.command.args.iter().any(|a| a.name == name) && !generic::is_generic(name) {
                w.put(name, v);
            }
        }
    });
    let filter = cx.service.matcher(filter.doc())?;
    let now_ms = cx.now_ms();
    let mut out = cx.reply.array("inprog");
    for op in &list(cx.service, idle, idle) {
        if filter.matches(op.doc(), now_ms)? {
            out.push(op);
        }
    }
    Ok(Outcome::Reply)
}

/// One document per running operation, and per idle connection and idle cursor when asked.
pub(crate) fn list(service: &Service, idle: bool, idle_cursors: bool) -> Vec<DocBuf> {
    let connections = service.connections();
    let mut all: Vec<DocBuf> =
        connections.iter().filter(|c| idle || c.op.lock().is_some()).map(|c| describe(service, c)).collect();
    if idle_cursors {
        all.extend(service.cursors.list().iter().filter(|(_, info)| !info.in_use).map(|(id, info)| {
            DocBuf::build(|w| {
                w.put("type", "idleCursor").put("host", &service.config.host).put("ns", &info.ns);
                if let Some(id) = &info.lsid {
                    w.doc("lsid").put("id", Binary { subtype: 4, bytes: id }).put("uid", Binary { subtype: 0, bytes: generic::NO_USER });
                }
                describe_cursor(*id, info, &mut w.doc("cursor"));
            })
        }));
    }
    all
}

fn describe_cursor(id: i64, info: &CursorInfo, w: &mut DocWriter<'_>) {
    w.put("cursorId", id);
    w.put("createdDate", Value::Date(info.opened_ms)).put("lastAccessDate", Value::Date(info.last_use_ms));
    w.put("nDocsReturned", info.documents).put("nBatchesReturned", info.batches);
    w.put("noCursorTimeout", info.no_timeout).put("tailable", info.tailable).put("awaitData", info.await_data);
    if let Some(command) = &info.command {
        w.put("originatingCommand", command);
    }
}

/// MongoDB's names of kinds of operations.
fn kind(command: &str) -> &'static str {
    match command {
        "find" => "query",
        "getMore" => "getmore",
        "insert" => "insert",
        "update" => "update",
        "delete" => "remove",
        _ => "command",
    }
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
            let app = client.doc().field("application").as_doc().and_then(|a| a.field("name").as_str());
            w.put("appName", app.map_or(Value::Missing, Value::String));
        }
        w.put("active", op.is_some());
        let Some(op) = &op else { return };
        let running_us = i64::try_from(now_us.saturating_sub(op.start_us)).unwrap_or(0);
        w.put("currentOpTime", model::show::Shown(&Value::Date(op.start_ms)).to_string().as_str());
        w.put("threaded", true);
        w.put("opid", op.opid);
        if let Some(id) = &op.lsid {
            let uid = Binary { subtype: 0, bytes: generic::NO_USER };
            w.doc("lsid").put("id", Binary { subtype: 4, bytes: id }).put("uid", uid);
        }
        w.put("secs_running", running_us / 1_000_000);
        w.put("microsecs_running", running_us);
        w.put("op", kind(op.command));
        let body = Doc::from_prefix(&op.body);
        let named = if op.command == "getMore" { body.field("collection") } else { body.first().map_or(Value::Missing, |(_, v)| v) };
        let coll = match named.as_str() {
            Some(coll) => coll,
            None if op.command == "aggregate" => "$cmd.aggregate",
            None => "$cmd",
        };
        w.put("ns", format!("{}.{coll}", op.db).as_str());
        if body.is_empty() {
            w.doc("command").put(op.command, coll).put("$truncated", true);
        } else {
            w.put("command", body);
        }
        if let Some(id) = op.cursor
            && let Some((id, info)) = service.cursors.list().iter().find(|(open, _)| *open == id)
        {
            describe_cursor(*id, info, &mut w.doc("cursor"));
        }
        w.put("numYields", 0i32);
        w.put("waitingForLock", false);
        if op.interrupt.is_killed() {
            w.put("killPending", true);
        }
    })
}

fn kill_op(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let op = match cx.args.value("op") {
        Value::Missing => bail!(code::NO_SUCH_KEY, "Did not provide \"op\" field"),
        v if !v.is_number() => {
            return Err(wrong_type("killOp.op", &v, &[Tag::INT64, Tag::INT32, Tag::DECIMAL128, Tag::DOUBLE]));
        }
        v => match v.as_i64_exact() {
            Some(n) => n,
            None => bail!(code::BAD_VALUE, "Expected field \"op\" to have a value exactly representable as a 64-bit integer, given {}", crate::dispatch::args::show(&v)),
        },
    };
    let Ok(op) = i32::try_from(op) else { bail!(26_823, "invalid op : {op}, an operation number has 32 bits") };
    for conn in cx.service.connections() {
        if let Some(running) = conn.op.lock().as_ref().filter(|r| r.opid == op) {
            running.interrupt.kill(crate::dispatch::interrupt::interrupted());
        }
    }
    cx.reply.put("info", "attempting to kill op");
    Ok(Outcome::Reply)
}
