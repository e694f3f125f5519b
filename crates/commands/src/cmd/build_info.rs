//! `buildInfo`: which release clients may take us for, and what we really are.

use crate::dispatch::command::Command;
use crate::dispatch::ctx::Ctx;
use crate::dispatch::request::Outcome;
use crate::dispatch::spec::{Privilege, flag};
use crate::release;
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
