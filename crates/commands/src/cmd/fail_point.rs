//! `configureFailPoint`, for tests of drivers. Only with `enableTestCommands`.

use context::command::Command;
use context::ctx::Ctx;
use model::{Doc, Result, bail, code};
use request::Outcome;
use request::args::{Kind, arg};
use request::spec::{Privilege, flag};

pub(crate) static COMMANDS: &[Command] = &[Command::new(
    "configureFailPoint",
    "makes commands fail on purpose",
    Privilege::Cluster(&[auth::Action::SetParameter]),
    flag::ADMIN | flag::LENIENT | flag::NEVER_FAILS,
    &[arg("mode", Kind::Any), arg("data", Kind::Any)],
    configure,
)];

fn configure(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    if !cx.service.state.parameters.bool("enableTestCommands") {
        bail!(
            code::COMMAND_NOT_FOUND,
            "no such command: 'configureFailPoint', it needs the server parameter \
                enableTestCommands"
        );
    }
    let Some(name) = cx.value().as_str() else {
        bail!(
            code::TYPE_MISMATCH,
            "configureFailPoint must name a fail point"
        );
    };
    let data = cx.args.value("data").as_doc().unwrap_or(Doc::EMPTY);
    let count = cx
        .service
        .state
        .failpoints
        .configure(name, cx.args.value("mode"), data)?;
    cx.reply
        .put("count", i32::try_from(count).unwrap_or(i32::MAX));
    Ok(Outcome::Reply)
}
