//! The interface between workloads and what they measure: a server behind a driver, or an engine in
//! this process.
//!
//! Promises: a workload asks only for what stands here; a target says beforehand what it lacks.
//! Calls are encoded before the clock starts; an error is never reported as success. Must not know:
//! drivers, engines, workloads.

use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use crate::nearest::{Recall, Similarity};
use crate::program::{ProgramCall, Ran};
use crate::records::{Found, RecordsError};
use crate::result::{Sizes, TargetFacts};
pub use crate::row::Table;
use crate::row::{Key, Row, Value};
use crate::template::{StatementCall, Tree};
use crate::watch::Event;
use crate::workload::{Capability, Index};

/// What the names of tables begin with that a probe makes beside those of the workload. They are
/// the lab's in any database, and `prepare` deletes those that an earlier run left.
pub const EXTRA_TABLE: &str = "quarry_lab_extra";

/// The kind of a failure by which a target asks to come back later. Such calls are no errors: they
/// are counted apart, and their client waits before its next one.
pub const OVERLOADED: &str = "refused: overloaded";

/// One call of a client.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// Store rows that are not there, in one transaction or command.
    Insert {
        /// Number of the table.
        table: usize,
        /// The rows.
        rows: Vec<Row>,
    },
    /// Find one row, all fields.
    Get {
        /// Number of the table.
        table: usize,
        /// Its id.
        id: Key,
    },
    /// Find one row and look whether its fields hold one of several values each; no call of a
    /// workload's.
    Verify {
        /// Number of the table.
        table: usize,
        /// Its id.
        id: Key,
        /// Names, and what [`crate::row::contents::hash_of`] says of the values.
        fields: Vec<(&'static str, Vec<u64>)>,
    },
    /// Find several rows in one call, all fields.
    GetMany {
        /// Number of the table.
        table: usize,
        /// Their ids.
        ids: Vec<Key>,
    },
    /// Read rows in the order of their ids, all fields.
    Range {
        /// Number of the table.
        table: usize,
        /// The first id.
        from: Key,
        /// At most so many.
        limit: u32,
        /// Downwards.
        reverse: bool,
    },
    /// Read entries of a secondary index, its fields only, from a tuple on.
    IndexRange {
        /// Number of the table.
        table: usize,
        /// Number of the index.
        index: usize,
        /// Values of its leading fields.
        from: Vec<Value>,
        /// At most so many.
        limit: u32,
    },
    /// Change one row that is there.
    Update {
        /// Number of the table.
        table: usize,
        /// Its id.
        id: Key,
        /// What becomes of it.
        change: Change,
    },
    /// Read a row, then store it whole with `k` one higher: two requests of the client.
    ReadModifyWrite {
        /// Number of the table.
        table: usize,
        /// Its id.
        id: Key,
    },
    /// Add 1 to `k` without needing the row.
    Add {
        /// Number of the table.
        table: usize,
        /// Its id.
        id: Key,
    },
    /// Store a whole row, whether it is there or not.
    Put {
        /// Number of the table.
        table: usize,
        /// The row, with its id.
        row: Row,
    },
    /// Delete rows by id.
    Delete {
        /// Number of the table.
        table: usize,
        /// Their ids.
        ids: Vec<Key>,
    },
    /// A statement of a workload file.
    Statement(Box<StatementCall>),
    /// A transaction of a program.
    Program(Box<ProgramCall>),
    /// Find the rows whose field `n` equals the value among ids in a range of numbers, without an
    /// index on `n`.
    Scan {
        /// Number of the table.
        table: usize,
        /// First id looked at.
        from: i64,
        /// Last id looked at.
        to: i64,
        /// The value.
        n: i64,
    },
}

/// What becomes of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// `k` grows by 1.
    Inc,
    /// A field gets a value.
    Set(&'static str, Value),
}

impl Call {
    /// Operations that it stands for.
    pub fn ops(&self) -> u64 {
        match self {
            Self::Insert { rows, .. } => rows.len() as u64,
            Self::Delete { ids, .. } => ids.len() as u64,
            _ => 1,
        }
    }
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    /// It was done.
    Done {
        /// Operations acknowledged. For deletes the rows that were there.
        ops: u64,
        /// Rows or entries returned by a read, rows matched by a write.
        rows: u64,
    },
    /// The target answered with an error; some operations of the call may have been acknowledged
    /// before it.
    Failed {
        /// Acknowledged nevertheless.
        done: u64,
        /// Short and bounded in variety: it becomes a key of the result.
        kind: String,
        /// In full.
        message: String,
    },
    /// No reply: whether so many operations were done is unknown.
    Lost {
        /// Operations under way.
        unknown: u64,
        /// Why.
        message: String,
    },
}

impl CallOutcome {
    /// A failure of which nothing was done.
    pub fn failed(kind: &str, message: String) -> Self {
        Self::Failed {
            done: 0,
            kind: kind.to_owned(),
            message,
        }
    }

    /// So many operations, so many rows.
    pub fn done(ops: u64, rows: u64) -> Self {
        Self::Done { ops, rows }
    }
}

impl From<Found<Ran>> for CallOutcome {
    fn from(ran: Found<Ran>) -> Self {
        match ran {
            Ok(Ran { ops, rows }) => Self::done(ops, rows),
            Err(RecordsError::Failed { kind, message }) => Self::failed(&kind, message),
            Err(RecordsError::Again(message)) => Self::failed("conflict", message),
            Err(RecordsError::Lost(message)) => Self::Lost {
                unknown: 1,
                message,
            },
        }
    }
}

/// Why something outside the measured calls did not work.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TargetError {
    /// The address is not one.
    #[error("--target '{given}' is not a usable address: {reason}")]
    Address {
        /// As given, password removed.
        given: String,
        /// Why not.
        reason: String,
    },
    /// Nothing answers there.
    #[error("cannot reach {address}: {reason}")]
    Unreachable {
        /// As given, password removed.
        address: String,
        /// Why not.
        reason: String,
    },
    /// It refused something the run needs.
    #[error("the target refused {what}: {reason}")]
    Refused {
        /// What was asked.
        what: String,
        /// What it said.
        reason: String,
    },
    /// A directory that the lab may not use.
    #[error("the directory {path} cannot be used: {reason}")]
    Directory {
        /// Which.
        path: String,
        /// Why not.
        reason: String,
    },
    /// Data that the lab did not make are there.
    #[error("{what} already holds {documents} documents; use --drop to delete them, or {instead}")]
    InTheWay {
        /// Database and collection, or directory.
        what: String,
        /// How many.
        documents: u64,
        /// What else could be done.
        instead: String,
    },
}

/// Whether a target became idle after it was asked to settle.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settled {
    /// Whether it is idle.
    pub is_idle: bool,
    /// What it waited for, or why that is not known.
    pub remark: String,
}

impl Settled {
    /// Of an engine that has nothing to do in the background once it has synced.
    pub fn after_sync<E: std::fmt::Display>(synced: Result<(), E>) -> Self {
        Self {
            is_idle: synced.is_ok(),
            remark: synced.map_or_else(
                |error| error.to_string(),
                |()| "synced; no work in the background".to_owned(),
            ),
        }
    }
}

impl Settled {
    /// Of an engine that compacts: how long it took until it was idle, none if the time ended
    /// first.
    pub fn after_compaction<E: std::fmt::Display>(waited: Result<Option<Duration>, E>) -> Self {
        let (is_idle, remark) = match waited {
            Ok(Some(took)) => (
                true,
                format!("flushed and compacted after {:.1} s", took.as_secs_f64()),
            ),
            Ok(None) => (false, "still compacting".to_owned()),
            Err(error) => (false, error.to_string()),
        };
        Self { is_idle, remark }
    }
}

/// What is known of a target and where it can be observed.
#[derive(Clone, Debug, Default)]
pub struct TargetInfo {
    /// For the result.
    pub facts: TargetFacts,
    /// The process.
    pub pid: Option<u32>,
    /// The directory.
    pub data: Option<PathBuf>,
}

/// The reader's next event; none if nothing has changed for a while.
pub type NextEvent<'a> = Pin<Box<dyn Future<Output = Result<Option<Event>, String>> + Send + 'a>>;

/// Reads changes in their order.
pub trait ChangeReader: Send {
    /// Waits for the next one.
    fn next(&mut self) -> NextEvent<'_>;
}

/// Something that can be measured. Opened once per run, shared by all clients.
pub trait Target: Send + Sync + 'static {
    /// The connection of one client.
    type Session: Session;

    /// What it is and where it can be observed.
    fn inspect(&self) -> impl Future<Output = TargetInfo> + Send;

    /// What it cannot do.
    fn unsupported(&self) -> &'static [Capability];

    /// Whether it takes documents of any shape and statements on them.
    fn takes_documents(&self) -> bool {
        false
    }

    /// Whether it runs programs: transactions of several statements on tables of their own.
    fn takes_programs(&self) -> bool {
        false
    }

    /// To how many servers calls went, where there can be more than one.
    fn servers_reached(&self) -> usize {
        1
    }

    /// Does a command of a workload file.
    ///
    /// # Errors
    /// It refuses, or takes no commands.
    fn run_command(&self, _: Tree) -> impl Future<Output = Result<(), TargetError>> + Send {
        async {
            Err(TargetError::Refused {
                what: "a command".to_owned(),
                reason: "it takes none".to_owned(),
            })
        }
    }

    /// The results of a pipeline on a collection, none for the workload's, as text.
    ///
    /// # Errors
    /// It refuses, or knows no pipelines.
    fn evaluate(
        &self,
        _: Option<String>,
        _: Vec<Tree>,
    ) -> impl Future<Output = Result<String, String>> + Send {
        async { Err("it knows no pipelines".to_owned()) }
    }

    /// The same on the server that the user's program copies to.
    ///
    /// # Errors
    /// As [`Target::evaluate`]; or there is no such server.
    fn evaluate_copy(&self, _: Vec<Tree>) -> impl Future<Output = Result<String, String>> + Send {
        async { Err("it knows no copies".to_owned()) }
    }

    /// Waits until the search indexes of the workload's collection have all documents.
    ///
    /// # Errors
    /// It refuses, has none, or they are not ready in this time.
    fn await_search(&self, _: Duration) -> impl Future<Output = Result<(), TargetError>> + Send {
        async {
            Err(TargetError::Refused {
                what: "to wait for search indexes".to_owned(),
                reason: "it has none".to_owned(),
            })
        }
    }

    /// What searches that begin with `$vectorSearch` find of the exact neighbours.
    ///
    /// # Errors
    /// It refuses, or searches no vectors.
    fn recall(
        &self,
        _: Similarity,
        _: Vec<Vec<Tree>>,
    ) -> impl Future<Output = Result<Recall, String>> + Send {
        async { Err("it searches no vectors".to_owned()) }
    }

    /// So many readers of what changes in the workload's collection from now on.
    ///
    /// # Errors
    /// It refuses, or tells nobody of changes.
    fn readers(
        &self,
        _: u32,
    ) -> impl Future<Output = Result<Vec<Box<dyn ChangeReader>>, TargetError>> + Send {
        async {
            Err(TargetError::Refused {
                what: "readers of changes".to_owned(),
                reason: "it tells nobody of changes".to_owned(),
            })
        }
    }

    /// The lowest date in a field, in milliseconds, and how many documents the workload's
    /// collection holds as its catalog says.
    ///
    /// # Errors
    /// It refuses, or knows no dates.
    fn oldest(&self, _: String) -> impl Future<Output = Result<(Option<i64>, u64), String>> + Send {
        async { Err("it knows no dates".to_owned()) }
    }

    /// Makes the tables, empty, without secondary indexes.
    ///
    /// # Errors
    /// Data of others is in the way, or the target refuses.
    fn prepare(&self) -> impl Future<Output = Result<(), TargetError>> + Send;

    /// Whether it is a process of its own, which can be restarted.
    fn can_restart(&self) -> bool {
        false
    }

    /// Whether it answers a new connection now.
    fn answers(&self) -> impl Future<Output = bool> + Send {
        async { true }
    }

    /// Connects again after a restart.
    ///
    /// # Errors
    /// It does not answer.
    fn reconnect(&self) -> impl Future<Output = Result<(), TargetError>> + Send {
        async { Ok(()) }
    }

    /// Restores the secondary indexes of an interrupted run.
    fn attach(&self, indexes: &[Index]);

    /// Makes secondary indexes on every table.
    ///
    /// # Errors
    /// The target refuses.
    fn create_indexes(
        &self,
        indexes: &[Index],
    ) -> impl Future<Output = Result<(), TargetError>> + Send;

    /// Makes table number `number` outside those of the workload, with one row and one index.
    ///
    /// # Errors
    /// The target refuses.
    fn create_extra_table(
        &self,
        number: u32,
    ) -> impl Future<Output = Result<(), TargetError>> + Send;

    /// A connection for a client; `sync`: each write waits for storage.
    ///
    /// # Errors
    /// It cannot be had.
    fn session(
        &self,
        sync: bool,
    ) -> impl Future<Output = Result<Self::Session, TargetError>> + Send;

    /// Rows of all tables, counted by looking at them.
    ///
    /// # Errors
    /// The target does not say.
    fn count(&self) -> impl Future<Output = Result<u64, String>> + Send;

    /// The sum of field `k` over all tables.
    ///
    /// # Errors
    /// The target does not say.
    fn sum_of_k(&self) -> impl Future<Output = Result<i64, String>> + Send;

    /// Deletes the rows of a table whose numeric id is above `number`: what an interrupted step
    /// left.
    ///
    /// # Errors
    /// The target refuses.
    fn delete_above(
        &self,
        table: usize,
        number: i64,
    ) -> impl Future<Output = Result<(), TargetError>> + Send;

    /// What the tables take.
    fn sizes(&self) -> impl Future<Output = Sizes> + Send;

    /// Waits until no work is left over: nothing to flush, nothing to compact.
    fn settle(&self, timeout: Duration) -> impl Future<Output = Settled> + Send;

    /// Bytes that wait for a flush or compaction, if the target says so; `statistics` is what it
    /// said just now.
    fn debt_bytes(&self, statistics: &serde_json::Value) -> Option<u64> {
        crate::debt::of_statistics(statistics)
    }

    /// Statistics of the engine, raw.
    fn statistics(&self) -> impl Future<Output = serde_json::Value> + Send;

    /// Deletes the tables.
    ///
    /// # Errors
    /// The target refuses.
    fn drop_tables(&self) -> impl Future<Output = Result<(), TargetError>> + Send;
}

/// The connection of one client.
pub trait Session: Send + 'static {
    /// A call encoded for this target.
    type Encoded: Send;

    /// Whether calls block their thread: then each client gets a thread of its own.
    const BLOCKING: bool;

    /// Whether what answers is in the lab's own process: when that stands still as a whole, it is
    /// the target that stood still.
    const INSIDE: bool = false;

    /// Encodes a call; not part of its latency.
    fn encode(&mut self, call: Call) -> Self::Encoded;

    /// Makes it.
    fn run(&mut self, encoded: Self::Encoded) -> impl Future<Output = CallOutcome> + Send;
}
