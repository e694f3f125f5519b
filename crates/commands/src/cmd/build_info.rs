//! `buildInfo`: the release that clients may assume, and the real version.

use crate::context::command::Command;
use crate::context::ctx::Ctx;
use crate::release;
use crate::request::Outcome;
use crate::request::spec::{Privilege, flag};
use model::Result;

pub(crate) static COMMANDS: &[Command] = &[Command::new(
    "buildInfo",
    "version and build of the server",
    Privilege::Any,
    flag::NO_AUTH,
    &[],
    run,
)
.aliases(&["buildinfo"])];

fn run(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    release::describe_build(&cx.service.config, &mut cx.reply);
    Ok(Outcome::Reply)
}
