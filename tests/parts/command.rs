//! `toyPing`.

use crate::context::command::Command;
use crate::request::Outcome;
use crate::request::spec::Privilege;

pub(crate) static COMMANDS: &[Command] = &[Command::new(
    "toyPing",
    "answers",
    Privilege::Any,
    0,
    &[],
    |_| Ok(Outcome::Reply),
)];
