//! `currentOp` and `killOp`.

use crate::dispatch::args::{Kind, arg, wrong_type};
use crate::dispatch::command::Command;
use crate::dispatch::ctx::Ctx;
use crate::dispatch::generic;
use crate::dispatch::request::Outcome;
use crate::dispatch::spec::{Privilege, flag};
use crate::state::operations::list;
use model::{DocBuf, Result, Tag, Value, bail, code};

pub(crate) static COMMANDS: &[Command] = &[
    Command::new(
        "currentOp",
        "operations running now",
        Privilege::Monitor,
        flag::ADMIN | flag::LENIENT,
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
        Privilege::Administer,
        flag::ADMIN | flag::LENIENT,
        &[arg("op", Kind::Any)],
        kill_op,
    ),
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
    let filter = cx.service.query_matcher(filter.doc())?;
    let now_ms = cx.now_ms();
    let mut out = cx.reply.array("inprog");
    for op in &list(cx.service, idle, idle) {
        if filter.matches(op.doc(), now_ms)? {
            out.push(op);
        }
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
                crate::dispatch::args::show(&v)
            ),
        },
    };
    let Ok(op) = i32::try_from(op) else {
        bail!(26_823, "invalid op : {op}, an operation number has 32 bits")
    };
    for conn in cx.service.connections.list() {
        if let Some(running) = conn.op.lock().as_ref().filter(|r| r.opid == op) {
            running
                .interrupt
                .kill(crate::dispatch::interrupt::interrupted());
        }
    }
    cx.reply.put("info", "attempting to kill op");
    Ok(Outcome::Reply)
}
