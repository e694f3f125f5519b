//! `buildInfo`: the release that clients may assume, and the real version.

use context::command::Command;
use context::ctx::Ctx;
use model::Result;
use request::Outcome;
use request::spec::{Privilege, flag};
use state::release;

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
