//! `ping`.

use crate::context::command::Command;
use crate::request::Outcome;
use crate::request::spec::{Privilege, flag};

pub(crate) static COMMANDS: &[Command] = &[Command::new(
    "ping",
    "answers, to show that the server is there",
    Privilege::Any,
    flag::API_V1 | flag::NO_AUTH,
    &[],
    |_| Ok(Outcome::Reply),
)];
