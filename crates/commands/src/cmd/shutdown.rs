//! `shutdown`: ends the process in the same way as a signal: running requests get time to finish,
//! data is flushed. The client's connection is closed without a reply.

use context::command::Command;
use context::ctx::Ctx;
use model::{Result, bail, code};
use request::Outcome;
use request::args::{Kind, arg};
use request::spec::{Privilege, flag};

pub(crate) static COMMANDS: &[Command] = &[Command::new(
    "shutdown",
    "ends the server",
    Privilege::Cluster(&[auth::Action::Shutdown]),
    flag::ADMIN | flag::NEVER_FAILS,
    &[
        arg("force", Kind::BoolLike),
        arg("timeoutSecs", Kind::AtLeast(0, code::BAD_VALUE)),
    ],
    run,
)];

fn run(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let here = cx.conn.identity.is_local();
    if !cx.service.access.is_enabled() && !here {
        bail!(
            code::UNAUTHORIZED,
            "shutdown must run from localhost when running db without auth"
        );
    }
    let Some(shut_down) = cx.service.state.shut_down.get() else {
        bail!(
            code::ILLEGAL_OPERATION,
            "this server ends with the process it is part of"
        );
    };
    let by = cx.operation.connection();
    cx.service.log_of(
        by,
        'I',
        "COMMAND",
        "Shutting down: a client has asked for it",
    );
    cx.service.audit_ending(by);
    shut_down();
    Ok(Outcome::Close)
}
