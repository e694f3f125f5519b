//! `setUserWriteBlockMode`: blocks the writes of users until it is called again.

use context::command::Command;
use context::ctx::Ctx;
use model::{Result, bail, code};
use request::Outcome;
use request::args::{Kind, arg};
use request::spec::{Privilege, flag};
use state::user_writes::reason;

pub(crate) static COMMANDS: &[Command] = &[Command::new(
    "setUserWriteBlockMode",
    "blocks what users write, or lets it pass again",
    Privilege::Cluster(&[auth::Action::SetUserWriteBlockMode]),
    flag::ADMIN | flag::WRITE_CONCERN,
    &[
        arg("global", Kind::Bool).required(),
        arg("reason", Kind::Str),
    ],
    run,
)];

fn run(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let reason = reason(cx.args.str("reason").unwrap_or("Unspecified"))?;
    if cx.service.config.replica_set.is_none() {
        bail!(
            code::ILLEGAL_OPERATION,
            "setUserWriteBlockMode cannot be run on standalones"
        );
    }
    let state = &cx.service.state.user_writes;
    state.set(&cx.service.store, cx.args.bool("global", false), reason)?;
    Ok(Outcome::Reply)
}
