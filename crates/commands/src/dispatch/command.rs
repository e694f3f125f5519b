//! What a command is to the dispatcher: a row of a table, which says as data everything that is done differently for it.

use super::args::{Arg, Kind};
use super::ctx::Ctx;
use super::request::Outcome;
use model::Result;

/// Properties of commands, to be joined with `|`.
pub mod flag {
    /// Only against the database `admin` (13 otherwise).
    pub const ADMIN: u32 = 1;
    /// Takes a write concern (72 otherwise).
    pub const WRITE_CONCERN: u32 = 1 << 1;
    /// Takes read concern levels other than local (72 otherwise).
    pub const READ_CONCERN: u32 = 1 << 2;
    /// Part of API version 1.
    pub const API_V1: u32 = 1 << 3;
    /// May run before authentication.
    pub const NO_AUTH: u32 = 1 << 4;
    /// Unknown fields are ignored: the command is parsed by hand in MongoDB too.
    pub const LENIENT: u32 = 1 << 5;
    /// May take long; worth listing in currentOp and the slow log.
    pub const LONG: u32 = 1 << 6;
    /// Writes.
    pub const WRITE: u32 = 1 << 7;
    /// Does not appear in currentOp and does not count as an operation.
    pub const QUIET: u32 = 1 << 8;
    /// Only reads, so that it may end when its client has gone.
    pub const ENDS_WITH_CLIENT: u32 = 1 << 9;
}

/// Which of the operation counters a command moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum OpClass {
    Insert,
    Query,
    Update,
    Delete,
    GetMore,
    Command,
}

/// One command.
pub struct Command {
    /// Name.
    pub name: &'static str,
    /// Other names.
    pub aliases: &'static [&'static str],
    /// One line for `listCommands`.
    pub help: &'static str,
    /// Accepted types of the command's own field.
    pub value: Kind,
    /// The table of arguments.
    pub args: &'static [Arg],
    /// See [`flag`].
    pub flags: u32,
    /// Operation counter.
    pub class: OpClass,
    /// Does it. Writes the fields of the reply except `ok`.
    pub run: fn(&mut Ctx<'_, '_>) -> Result<Outcome>,
}

impl Command {
    /// True when the flag is set.
    pub fn is(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }
}
