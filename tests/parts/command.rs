//! `toyPing`.

use crate::dispatch::command::Command;
use crate::dispatch::request::Outcome;
use crate::dispatch::spec::Privilege;

pub(crate) static COMMANDS: &[Command] = &[Command::new(
    "toyPing",
    "answers",
    Privilege::Any,
    0,
    &[],
    |_| Ok(Outcome::Reply),
)];
