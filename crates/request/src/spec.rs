//! The declarative description of a command: names, arguments, flags, privilege, durability. Must
//! not know: what commands do.

use super::args::{Arg, Kind};
use crate::asked::RightsRequest;
use auth::Action;
use metrics::OpLatency;
use model::{Doc, Result, Value};
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicI64, Ordering};

/// Properties of commands, combined with `|`.
pub mod flag {
    /// Runs only on the database `admin` (13 otherwise).
    pub const ADMIN: u32 = 1;
    /// Accepts a write concern (72 otherwise).
    pub const WRITE_CONCERN: u32 = 1 << 1;
    /// Accepts read concern levels other than local (72 otherwise).
    pub const READ_CONCERN: u32 = 1 << 2;
    /// Part of API version 1.
    pub const API_V1: u32 = 1 << 3;
    /// May run before authentication.
    pub const NO_AUTH: u32 = 1 << 4;
    /// Unknown fields are ignored: the command is parsed by hand in MongoDB too.
    pub const LENIENT: u32 = 1 << 5;
    /// May take long; shown in currentOp and in the slow log.
    pub const LONG: u32 = 1 << 6;
    /// Writes.
    pub const WRITE: u32 = 1 << 7;
    /// Is not shown in currentOp and does not count as an operation.
    pub const QUIET: u32 = 1 << 8;
    /// Only reads, so that it may end when its client disconnects.
    pub const ENDS_WITH_CLIENT: u32 = 1 << 9;
    /// A write that may carry its own transaction number and be sent twice (50768 otherwise).
    pub const RETRYABLE: u32 = 1 << 10;
    /// Allowed inside a transaction of several operations (263 otherwise).
    pub const IN_TRANSACTION: u32 = 1 << 11;
    /// Ends the transaction of its session.
    pub const ENDS_TRANSACTION: u32 = 1 << 20;
    /// Ends sessions. A server whose data another server holds also ends its own cursors of them.
    pub const ENDS_SESSIONS: u32 = 1 << 16;
    /// Changes nothing when it fails before it writes: it is run again when its collection is
    /// replaced while it runs.
    pub const RUNS_AGAIN: u32 = 1 << 12;
    /// Keeps its progress from one run to the next (see `Progress`), so that it waits without a
    /// thread and is run again.
    pub const RESUMABLE: u32 = 1 << 27;
    /// Continues a cursor, whose database and read concern were checked when it was opened; drivers
    /// send the read concern of the session again.
    pub const OF_CURSOR: u32 = 1 << 26;
    /// The command checks the level of its read concern itself, after its other arguments.
    pub const CHECKS_READ_LEVEL: u32 = 1 << 13;
    /// `maxTimeMS` limits the wait for data instead of the whole operation.
    pub const WAITS_FOR_DATA: u32 = 1 << 14;
    /// Not affected by fail points, because it switches them.
    pub const NEVER_FAILS: u32 = 1 << 15;
    /// May contain a script in its arguments, which then runs on a thread of its own.
    pub const MAY_NAME_SCRIPT: u32 = 1 << 28;
    /// Contains secrets: its document is not shown anywhere.
    pub const SECRET: u32 = 1 << 24;
}

/// The operation counter that a command increments.
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

/// Kinds of commands in `opLatencies` and `latencyStats`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum LatencyKind {
    Read,
    Write,
    Command,
}

/// What has to be durable before a command's reply or error may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Nothing, because the reply reports no data.
    Nothing,
    /// Everything that the command may have read, if its read concern promises durable data.
    Reads,
    /// If the acknowledgement is by the journal: the command's own writes, or everything if the
    /// reply reports the writes of others (see [`crate::context::reported::ReplyState`]).
    OwnWrites,
    /// Everything, if the acknowledgement is by the journal.
    Everything,
}

/// The privilege that a user needs to run a command: actions on a resource.
#[derive(Clone, Copy)]
pub enum Privilege {
    /// Only to be logged in, and with [`flag::NO_AUTH`] not even that: for the user's own sessions
    /// and cursors, and for commands that reveal no data.
    Any,
    /// These actions on the collection that the command's first field names (see
    /// [`super::args::collection_name`]).
    Collection(&'static [Action]),
    /// These actions on the database that the command is sent to.
    Database(&'static [Action]),
    /// These actions on the server.
    Cluster(&'static [Action]),
    /// Depends on the arguments; the function reads them as the command itself does.
    Asked(fn(&RightsRequest<'_, '_>) -> Result<()>),
}

/// The specification of one command.
pub struct Spec {
    /// Name.
    pub name: &'static str,
    /// Other names.
    pub aliases: &'static [&'static str],
    /// One line for `listCommands`.
    pub help: &'static str,
    /// The privilege that it needs.
    pub privilege: Privilege,
    /// Accepted types of the command's first field.
    pub value: Kind,
    /// The table of arguments.
    pub args: &'static [Arg],
    /// See [`flag`].
    pub flags: u32,
    /// The operation counter that it increments.
    pub class: OpClass,
    /// Whether it reads, writes or does neither, in MongoDB's latency counters.
    pub kind: LatencyKind,
    /// What its reply waits for.
    pub durability: Durability,
    /// The name that stands for a collection in namespaces when the command has none.
    pub no_collection: &'static str,
}

impl std::fmt::Debug for Spec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Spec {
    /// True when the flag is set.
    pub fn is(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }
}

/// All commands of a server by name and alias, with their execution counts.
pub struct CommandTable {
    rows: Vec<CommandCounters>,
    by_name: FxHashMap<&'static str, usize>,
    not_built: &'static [&'static str],
}

/// A command and its execution counts.
pub struct CommandCounters {
    /// The command.
    pub command: &'static Spec,
    total: AtomicI64,
    failed: AtomicI64,
    /// Durations of its executions.
    pub latency: OpLatency,
}

impl CommandCounters {
    /// Executions.
    pub fn total(&self) -> i64 {
        self.total.load(Ordering::Relaxed)
    }
    /// Whether the command's first field is the name of a collection that it works on.
    pub fn names_collection(&self) -> bool {
        self.is_of_kind() || matches!(self.command.value, Kind::Collection)
    }
    /// True for a command that reads or writes documents.
    pub fn is_of_kind(&self) -> bool {
        self.command.kind != LatencyKind::Command
    }
    /// Executions that ended with an error.
    pub fn failure_count(&self) -> i64 {
        self.failed.load(Ordering::Relaxed)
    }
    /// Counts a run of the command.
    pub fn count_begin(&self) {
        self.total.fetch_add(1, Ordering::Relaxed);
    }
    /// Counts a run that failed.
    pub fn count_failure(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }
}

impl CommandTable {
    /// A table of these commands. `not_built` are names that are known and answered with 238.
    pub fn new(
        commands: impl Iterator<Item = &'static Spec>,
        not_built: &'static [&'static str],
    ) -> CommandTable {
        let rows: Vec<CommandCounters> = commands
            .map(|command| CommandCounters {
                command,
                total: AtomicI64::new(0),
                failed: AtomicI64::new(0),
                latency: OpLatency::default(),
            })
            .collect();
        let mut by_name = FxHashMap::default();
        for (at, row) in rows.iter().enumerate() {
            for name in std::iter::once(row.command.name).chain(row.command.aliases.iter().copied())
            {
                by_name.insert(name, at);
            }
        }
        CommandTable {
            rows,
            by_name,
            not_built,
        }
    }

    /// The command with this name or alias.
    pub fn find(&self, name: &str) -> Option<&CommandCounters> {
        self.rows.get(self.position(name)?)
    }

    /// The position of the command in the order of [`CommandTable::all`].
    pub fn position(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// The command at this position.
    pub fn at(&self, position: usize) -> Option<&CommandCounters> {
        self.rows.get(position)
    }

    /// All commands in the order in which they were given.
    pub fn all(&self) -> impl Iterator<Item = &CommandCounters> {
        self.rows.iter()
    }

    /// Whether a command, or a command inside it, contains secrets.
    pub fn is_secret(&self, command: &Spec, body: Doc<'_>) -> bool {
        let inner = || match body.first() {
            Some((_, Value::Document(inner))) => self.find(inner.first()?.0),
            _ => None,
        };
        let secret = |row: &CommandCounters| row.command.is(flag::SECRET);
        command.is(flag::SECRET) || inner().is_some_and(secret)
    }

    /// True for the name of a command that is known and not implemented.
    pub fn is_known(&self, name: &str) -> bool {
        self.not_built.contains(&name)
    }
}
