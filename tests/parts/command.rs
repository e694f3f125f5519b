//! `toyPing`.

use context::command::Command;
use request::Outcome;
use request::spec::Privilege;

pub(crate) static COMMANDS: &[Command] = &[Command::new(
    "toyPing",
    "answers",
    Privilege::Any,
    0,
    &[],
    |_| Ok(Outcome::Reply),
)];
