//! `ping`: is anybody there.

use super::command;
use crate::dispatch::command::{Command, flag};
use crate::dispatch::request::Outcome;

pub(crate) static COMMANDS: &[Command] =
    &[command("ping", "answers, to show that the server is there", flag::API_V1 | flag::NO_AUTH, &[], |_| Ok(Outcome::Reply))];
