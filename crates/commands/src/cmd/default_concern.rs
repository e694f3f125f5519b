//! `getDefaultRWConcern` and `setDefaultRWConcern`: the concerns of commands that specify none.

use context::command::Command;
use context::ctx::Ctx;
use model::{Doc, MongoError, Result, Value, bail, code};
use request::Outcome;
use request::args::{Arg, Kind, arg, check_doc, to_i32};
use request::concern::{Acknowledge, write_concern};
use request::spec::{Privilege, flag};

pub(crate) static COMMANDS: &[Command] = &[
    Command::new(
        "getDefaultRWConcern",
        "default read and write concern",
        Privilege::Cluster(&[auth::Action::GetDefaultRwConcern]),
        flag::ADMIN,
        &[arg("inMemory", Kind::Bool)],
        get_default_concern,
    ),
    Command::new(
        "setDefaultRWConcern",
        "sets the default read and write concern",
        Privilege::Cluster(&[auth::Action::SetDefaultRwConcern]),
        flag::ADMIN | flag::WRITE_CONCERN,
        &[
            arg("defaultReadConcern", Kind::Object),
            arg("defaultWriteConcern", Kind::Object),
        ],
        set_default_concern,
    ),
];

fn needs_set(cx: &Ctx<'_, '_>) -> Result<()> {
    if cx.service.config.replica_set.is_none() {
        bail!(
            51_300,
            "'{}' is not supported on standalone nodes",
            cx.command.name
        );
    }
    Ok(())
}

fn get_default_concern(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    needs_set(cx)?;
    show(cx);
    if cx.args.bool("inMemory", false) {
        cx.reply.put("inMemory", true);
    }
    Ok(Outcome::Reply)
}

fn show(cx: &mut Ctx<'_, '_>) {
    let set = cx.service.state.default_concerns.current();
    let (read, write) = set
        .as_ref()
        .map_or((None, None), |c| (c.read_concern(), c.write_concern()));
    match read {
        Some(d) => {
            cx.reply.put("defaultReadConcern", d);
        }
        None => {
            cx.reply.doc("defaultReadConcern").put("level", "local");
        }
    }
    match write {
        // Shown completely, even if some fields were not given.
        Some(d) => {
            let mut shown = cx.reply.doc("defaultWriteConcern");
            shown.put("w", d.field("w")).put("j", d.field("j"));
            shown.put("wtimeout", to_i32(&d.field("wtimeout")).unwrap_or(0));
        }
        None => {
            cx.reply
                .doc("defaultWriteConcern")
                .put("w", "majority")
                .put("wtimeout", 0i32);
        }
    }
    let source = |set: bool| if set { "global" } else { "implicit" };
    cx.reply
        .put("defaultReadConcernSource", source(read.is_some()))
        .put("defaultWriteConcernSource", source(write.is_some()));
    if let Some(c) = &set {
        let (time, wall) = c.update_times();
        cx.reply
            .put("updateOpTime", time)
            .put("updateWallClockTime", wall);
    }
    let now = cx.now_ms();
    cx.reply.put("localUpdateWallClockTime", Value::Date(now));
}

fn set_default_concern(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    needs_set(cx)?;
    let (read, write) = (
        cx.args.doc("defaultReadConcern"),
        cx.args.doc("defaultWriteConcern"),
    );
    if read.is_none() && write.is_none() {
        bail!(
            code::BAD_VALUE,
            "At least one of the \"defaultReadConcern\" or \"defaultWriteConcern\" fields must be \
                present"
        );
    }
    if let Some(read) = read {
        check_read(read)?;
    }
    let current = cx.service.state.default_concerns.current();
    let is_set = current.is_some_and(|c| c.write_concern().is_some());
    let write = match write {
        Some(write) if write.is_empty() && is_set => bail!(
            code::ILLEGAL_OPERATION,
            "The global default write concern cannot be unset once it is set."
        ),
        Some(write) => Some(write).filter(|w| !w.is_empty()),
        None => None,
    };
    if let Some(write) = write {
        check_write(write)?;
    }
    let (updated, wall_ms) = (cx.service.operation_time(), cx.now_ms());
    cx.service
        .state
        .default_concerns
        .set(&cx.service.store, read, write, updated, wall_ms)?;
    // The defaults are already written. A write concern of the client that cannot be satisfied is
    // an error of the whole command.
    if let Some(Acknowledge::Mode(mode)) = cx.generic.write_concern.as_ref().map(|c| &c.w) {
        return Err(unknown_mode(mode));
    }
    show(cx);
    Ok(Outcome::Reply)
}

fn unknown_mode(mode: &str) -> MongoError {
    MongoError::new(
        code::UNKNOWN_REPL_WRITE_CONCERN,
        format!("No write concern mode named '{mode}' found in replica set configuration"),
    )
}

fn check_read(read: Doc<'_>) -> Result<()> {
    static READ: &[Arg] = &[arg("level", Kind::Str)];
    let level = check_doc("defaultReadConcern", READ, read)?;
    match level.str("level") {
        // An empty read concern removes the default.
        None if read.is_empty() => Ok(()),
        Some("local" | "available" | "majority") => Ok(()),
        other => bail!(
            code::BAD_VALUE,
            "level: '{}' is not suitable for the default read concern",
            other.unwrap_or("")
        ),
    }
}

fn check_write(write: Doc<'_>) -> Result<()> {
    let w = match write_concern(write, false)?.w {
        Acknowledge::Mode(mode) => return Err(unknown_mode(&mode)),
        w => w,
    };
    match (write.field("w"), w) {
        (Value::Missing, _) => bail!(
            code::BAD_VALUE,
            "the default write concern must say how many members acknowledge (w)"
        ),
        (Value::Null | Value::Undefined, _) => Err(unknown_mode("")),
        (_, Acknowledge::Members(0)) => bail!(
            code::BAD_VALUE,
            "w:0 is not suitable for the default write concern"
        ),
        _ => Ok(()),
    }
}
