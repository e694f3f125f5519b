//! What is said of a command as data: names, arguments, flags, privilege, durability. Must not
//! know: what commands do.

use super::args::{Arg, Kind};
use crate::request::asked::RightsRequest;
use auth::Action;
use metrics::OpLatency;
use model::{Doc, Result, Value};
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicI64, Ordering};

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
    /// A write that may carry a transaction number of its own and be sent twice (50768 otherwise).
    pub const RETRYABLE: u32 = 1 << 10;
    /// Allowed inside a transaction of several operations (263 otherwise).
    pub const IN_TRANSACTION: u32 = 1 << 11;
    /// Ends the transaction of its session.
    pub const ENDS_TRANSACTION: u32 = 1 << 20;
    /// Ends sessions. A server that reads what another holds ends their cursors as well.
    pub const ENDS_SESSIONS: u32 = 1 << 16;
    /// Has done nothing when it fails before it writes: run again when its collection is replaced
    /// under it.
    pub const RUNS_AGAIN: u32 = 1 << 12;
    /// Keeps what it has done from one run to the next (see `Progress`), so that it waits without a
    /// thread and is run again.
    pub const RESUMABLE: u32 = 1 << 27;
    /// Goes on with a cursor, whose database and read concern were checked when it was opened;
    /// drivers send the read concern of the session again.
    pub const OF_CURSOR: u32 = 1 << 26;
    /// Checks the level of its read concern itself, after its other arguments.
    pub const CHECKS_READ_LEVEL: u32 = 1 << 13;
    /// `maxTimeMS` is no budget: it says how long to wait for data.
    pub const WAITS_FOR_DATA: u32 = 1 << 14;
    /// Fail points leave it alone: it switches them.
    pub const NEVER_FAILS: u32 = 1 << 15;
    /// May name a script in its arguments, which then runs on a thread of its own.
    pub const MAY_NAME_SCRIPT: u32 = 1 << 28;
    /// Carries secrets: its document is shown nowhere.
    pub const SECRET: u32 = 1 << 24;
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

/// Kinds of commands in `opLatencies` and `latencyStats`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kinds {
    Read,
    Write,
    Command,
}

/// What has to be durable before a command's reply, or its error, may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Nothing: it tells nothing of data.
    Nothing,
    /// With a read concern that promises durable data, everything it may have read.
    Reads,
    /// When the acknowledgement is by the journal, its own writes, and everything when it tells of
    /// others' (see [`crate::context::reported::Reported`]).
    OwnWrites,
    /// When the acknowledgement is by the journal, everything.
    Everything,
}

/// What a user needs to run a command: actions on a resource.
#[derive(Clone, Copy)]
pub enum Privilege {
    /// Nothing but to be logged in, and with [`flag::NO_AUTH`] not even that: for own sessions
    /// and cursors, and for what reveals no data.
    Any,
    /// These on the collection the command names in its own value (see
    /// [`super::args::collection_name`]).
    Collection(&'static [Action]),
    /// These on the database it is sent to.
    Database(&'static [Action]),
    /// These on the server.
    Cluster(&'static [Action]),
    /// What its arguments say, read by the functions that its run reads them with.
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
    /// Whom it is for.
    pub privilege: Privilege,
    /// Accepted types of the command's own field.
    pub value: Kind,
    /// The table of arguments.
    pub args: &'static [Arg],
    /// See [`flag`].
    pub flags: u32,
    /// Operation counter.
    pub class: OpClass,
    /// Whether it reads, writes or does neither, as MongoDB counts latencies.
    pub kind: Kinds,
    /// What its reply waits for.
    pub durability: Durability,
    /// Stands in namespaces for a collection where the command names none.
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

/// All commands of a server, by name and alias, and how often each was run.
pub struct CommandTable {
    rows: Vec<Counted>,
    by_name: FxHashMap<&'static str, usize>,
    not_built: &'static [&'static str],
}

/// A command and how often it was run.
pub struct Counted {
    /// The command.
    pub command: &'static Spec,
    total: AtomicI64,
    failed: AtomicI64,
    /// How long its runs took.
    pub latency: OpLatency,
}

impl Counted {
    /// Runs.
    pub fn total(&self) -> i64 {
        self.total.load(Ordering::Relaxed)
    }
    /// Whether its own value is the name of a collection it works on.
    pub(crate) fn names_collection(&self) -> bool {
        self.is_of_kind() || matches!(self.command.value, Kind::Collection)
    }
    /// True for a command that reads or writes documents.
    pub(crate) fn is_of_kind(&self) -> bool {
        self.command.kind != Kinds::Command
    }
    /// Runs that ended in an error.
    pub fn failed(&self) -> i64 {
        self.failed.load(Ordering::Relaxed)
    }
    pub(crate) fn began(&self) {
        self.total.fetch_add(1, Ordering::Relaxed);
    }
    pub(crate) fn ended_badly(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }
}

impl CommandTable {
    /// Of these commands; `not_built` are names that are known and answered with 238.
    pub fn new(
        commands: impl Iterator<Item = &'static Spec>,
        not_built: &'static [&'static str],
    ) -> CommandTable {
        let rows: Vec<Counted> = commands
            .map(|command| Counted {
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

    /// The command of this name or alias.
    pub fn find(&self, name: &str) -> Option<&Counted> {
        self.rows.get(self.position(name)?)
    }

    /// Its place in the order of [`CommandTable::all`].
    pub fn position(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// The command at this place.
    pub fn at(&self, position: usize) -> Option<&Counted> {
        self.rows.get(position)
    }

    /// All of them, in the order they were given in.
    pub fn all(&self) -> impl Iterator<Item = &Counted> {
        self.rows.iter()
    }

    /// Whether a command carries secrets, itself or in a command inside it.
    pub(crate) fn is_secret(&self, command: &Spec, body: Doc<'_>) -> bool {
        let inner = || match body.first() {
            Some((_, Value::Document(inner))) => self.find(inner.first()?.0),
            _ => None,
        };
        let secret = |row: &Counted| row.command.is(flag::SECRET);
        command.is(flag::SECRET) || inner().is_some_and(secret)
    }

    /// True for a name that is known and not built.
    pub fn is_known(&self, name: &str) -> bool {
        self.not_built.contains(&name)
    }
}
