//! `commitTransaction`, `abortTransaction`.

use context::command::Command;
use context::ctx::Ctx;
use model::{MongoError, Result};
use request::Outcome;
use request::args::{Kind, arg};
use request::spec::{Durability, Privilege, flag};

const FLAGS: u32 = flag::ADMIN
    | flag::API_V1
    | flag::WRITE_CONCERN
    | flag::WRITE
    | flag::IN_TRANSACTION
    | flag::ENDS_TRANSACTION;

pub(crate) static COMMANDS: &[Command] = &[
    Command::new(
        "commitTransaction",
        "commits the transaction of a session",
        Privilege::Any,
        FLAGS,
        &[arg("recoveryToken", Kind::Object)],
        commit,
    )
    .durability(Durability::OwnWrites),
    Command::new(
        "abortTransaction",
        "aborts the transaction of a session",
        Privilege::Any,
        FLAGS,
        &[arg("recoveryToken", Kind::Object)],
        abort,
    )
    .durability(Durability::OwnWrites),
];

fn no_session() -> MongoError {
    MongoError::internal("a command of a transaction without its session")
}

fn commit(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let number = cx.generic.txn_number.unwrap_or_default();
    let session = cx.session.as_mut().ok_or_else(no_session)?;
    if session.has_written() {
        cx.operation.check_write()?;
    }
    let durable_reads = session.durable_reads();
    let made = session.created_collections();
    let pos = session.commit(
        &cx.service.store.writer(&cx.operation),
        number,
        &cx.service.state.transactions,
    )?;
    for c in &made {
        cx.service.log_created(cx.operation.connection(), c);
        cx.service.ttl.track(c);
    }
    cx.reported.own_write(pos);
    if durable_reads {
        cx.reported.add_other_data();
    }
    Ok(Outcome::Reply)
}

fn abort(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let number = cx.generic.txn_number.unwrap_or_default();
    let session = cx.session.as_mut().ok_or_else(no_session)?;
    session.abort(&cx.service.store, number, &cx.service.state.transactions)?;
    cx.reported.own_write(session.record.pos());
    Ok(Outcome::Reply)
}
