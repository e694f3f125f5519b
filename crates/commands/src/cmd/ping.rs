//! `ping`.

use context::command::Command;
use request::Outcome;
use request::spec::{Privilege, flag};

pub(crate) static COMMANDS: &[Command] = &[Command::new(
    "ping",
    "answers, to show that the server is there",
    Privilege::Any,
    flag::API_V1 | flag::NO_AUTH,
    &[],
    |_| Ok(Outcome::Reply),
)];
