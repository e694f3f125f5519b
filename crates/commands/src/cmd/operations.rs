//! `currentOp` and `killOp`.

use context::command::Command;
use context::ctx::Ctx;
use model::{DocBuf, Result, Tag, Value, bail, code};
use request::Outcome;
use request::args::{Kind, arg, wrong_type};
use request::asked::RightsRequest;
use request::generic;
use request::spec::{Privilege, flag};
use state::operations::{IdleSelection, list};
use std::sync::atomic::Ordering;

pub(crate) static COMMANDS: &[Command] = &[
    Command::new(
        "currentOp",
        "operations running now",
        Privilege::Asked(needs_of_current_op),
        flag::ADMIN | flag::LENIENT | flag::MAY_NAME_SCRIPT,
        &[
            arg("$all", Kind::BoolLike),
            arg("$ownOps", Kind::BoolLike),
            arg("$truncateOps", Kind::BoolLike),
        ],
        current_op,
    ),
    Command::new(
        "killOp",
        "ends an operation",
        Privilege::Any,
        flag::ADMIN | flag::LENIENT,
        &[arg("op", Kind::Any)],
        kill_op,
    ),
];

/// Every user may list its own operations.
fn needs_of_current_op(asked: &RightsRequest<'_, '_>) -> Result<()> {
    let own = asked.args.bool("$ownOps", false);
    asked.require(own || asked.may(auth::Target::Cluster, &[auth::Action::Inprog]))
}

fn current_op(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let all = cx.args.bool("$all", false);
    let idle = IdleSelection {
        connections: all,
        cursors: all,
        sessions: true,
    };
    // Every field that is not an argument is a condition on the operations.
    let filter = DocBuf::build(|w| {
        for (name, v) in cx.request.body.iter().skip(1) {
            if !cx.command.args.iter().any(|a| a.name == name) && !generic::is_generic(name) {
                w.put(name, v);
            }
        }
    });
    let filter = cx.service.query_matcher(filter.doc())?;
    let now_ms = cx.now_ms();
    let owner = cx.owner();
    let mut out = cx.reply.array("inprog");
    let own = cx.service.access.is_enabled() && cx.args.bool("$ownOps", false);
    for op in &list(cx.service, idle, own.then_some(&owner)) {
        if filter.matches(op.doc(), now_ms)? {
            out.push(op);
        }
    }
    drop(out);
    // Present only while writes are locked.
    if cx.service.state.fsync_locks.load(Ordering::Acquire) > 0 {
        cx.reply.put("fsyncLock", true);
    }
    Ok(Outcome::Reply)
}

fn kill_op(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let op = match cx.args.value("op") {
        Value::Missing => bail!(code::NO_SUCH_KEY, "Did not provide \"op\" field"),
        v if !v.is_number() => {
            return Err(wrong_type(
                "killOp.op",
                &v,
                &[Tag::INT64, Tag::INT32, Tag::DECIMAL128, Tag::DOUBLE],
            ));
        }
        v => match v.as_i64_exact() {
            Some(n) => n,
            None => bail!(
                code::BAD_VALUE,
                "Expected field \"op\" to have a value exactly representable as a 64-bit integer, \
                    given {}",
                request::args::show(&v)
            ),
        },
    };
    let Ok(op) = i32::try_from(op) else {
        bail!(26_823, "invalid op : {op}, an operation number has 32 bits")
    };
    let any = cx
        .rights()
        .allows(auth::Target::Cluster, &[auth::Action::Killop]);
    let mut found = false;
    for conn in cx.service.connections.list() {
        let running = conn.op.lock().clone();
        if let Some(running) = running.filter(|r| r.opid == op) {
            let owner = conn.user.lock().as_ref().map(|u| u.digest);
            if !any && owner != Some(cx.owner()) {
                continue;
            }
            found = true;
            running.operation.kill(operation::interrupted_error());
        }
    }
    // The reply does not reveal whether another user has such an operation.
    if !any && !found {
        return Err(access::unauthorized_error(cx.db, cx.request.body));
    }
    cx.reply.put("info", "attempting to kill op");
    Ok(Outcome::Reply)
}
