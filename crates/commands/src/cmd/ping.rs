//! `ping`: is anybody there.

use super::command;
use crate::dispatch::command::{Command, Privilege, flag};
use crate::dispatch::request::Outcome;

pub(crate) static COMMANDS: &[Command] = &[command(
    "ping",
    "answers, to show that the server is there",
    Privilege::Any,
    flag::API_V1 | flag::NO_AUTH,
    &[],
    |_| Ok(Outcome::Reply),
)];
