//! The interface between workloads and what they measure: a server behind a driver, or an engine in
//! this process.
//!
//! Promises: a workload calls only the methods of this interface; a target names beforehand the
//! capabilities that it lacks. Calls are encoded before the clock starts; an error is never
//! reported as success. Must not know: drivers, engines, workloads.

use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use crate::nearest::{Recall, Similarity};
use crate::program::{CallWork, ProgramCall};
use crate::records::{Outcome, RecordsError};
use crate::result::{Sizes, TargetFacts};
pub use crate::row::Table;
use crate::row::{Key, Row, Value};
use crate::template::{StatementCall, Tree};
use crate::watch::Event;
use crate::workload::{Capability, Index};

/// Prefix of the names of the tables that a probe makes in addition to those of the workload. In
/// any database these names belong to the lab, and `prepare` deletes the tables that an earlier run
/// left.
pub const EXTRA_TABLE: &str = "quarry_lab_extra";

/// The kind of a failure by which a target asks the client to come back later. Such calls do not
/// count as errors: they are counted separately, and the client waits before its next call.
pub const OVERLOADED: &str = "refused: overloaded";

/// One call of a client.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// Store rows that do not exist yet, in one transaction or command.
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
    /// Find one row and check that each of the fields holds one of its expected values. Workloads
    /// do not make this call.
    Verify {
        /// Number of the table.
        table: usize,
        /// Its id.
        id: Key,
        /// Names of fields, and the hashes ([`crate::row::contents::hash_of`]) of the values that
        /// each may hold.
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
        /// The largest number of rows.
        limit: u32,
        /// Whether in descending order.
        reverse: bool,
    },
    /// Read entries of a secondary index, its fields only, starting at a tuple.
    IndexRange {
        /// Number of the table.
        table: usize,
        /// Number of the index.
        index: usize,
        /// Values of its leading fields.
        from: Vec<Value>,
        /// The largest number of entries.
        limit: u32,
    },
    /// Change one row that exists.
    Update {
        /// Number of the table.
        table: usize,
        /// Its id.
        id: Key,
        /// The change.
        change: Change,
    },
    /// Read a row, then store the whole row with `k` one higher: two requests of the client.
    ReadModifyWrite {
        /// Number of the table.
        table: usize,
        /// Its id.
        id: Key,
    },
    /// Add 1 to `k` without reading the row.
    Add {
        /// Number of the table.
        table: usize,
        /// Its id.
        id: Key,
    },
    /// Store a whole row, whether it exists or not.
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
    /// Find the rows whose field `n` equals a value, among ids in a range of numbers, without an
    /// index on `n`.
    Scan {
        /// Number of the table.
        table: usize,
        /// First id of the range.
        from: i64,
        /// Last id of the range.
        to: i64,
        /// The value.
        n: i64,
    },
}

/// A change of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// `k` grows by 1.
    Inc,
    /// A field gets a value.
    Set(&'static str, Value),
}

impl Call {
    /// Operations that the call counts as.
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
    /// The target did the call.
    Done {
        /// Operations acknowledged. For deletes, the rows that existed.
        ops: u64,
        /// Rows or entries returned by a read, rows matched by a write.
        rows: u64,
    },
    /// The target answered with an error; it may have acknowledged some operations of the call
    /// before.
    Failed {
        /// Operations acknowledged before the error.
        done: u64,
        /// Short and bounded in variety: it becomes a key of the result.
        kind: String,
        /// The full message.
        message: String,
    },
    /// There was no reply, so it is unknown whether the operations were done.
    Lost {
        /// Operations of the call.
        unknown: u64,
        /// Why.
        message: String,
    },
}

impl CallOutcome {
    /// A failure before any operation was done.
    pub fn failure(kind: &str, message: String) -> Self {
        Self::Failed {
            done: 0,
            kind: kind.to_owned(),
            message,
        }
    }

    /// A call that was done, with its operations and rows.
    pub fn success(ops: u64, rows: u64) -> Self {
        Self::Done { ops, rows }
    }
}

impl From<Outcome<CallWork>> for CallOutcome {
    fn from(ran: Outcome<CallWork>) -> Self {
        match ran {
            Ok(CallWork { ops, rows }) => Self::success(ops, rows),
            Err(RecordsError::Failed { kind, message }) => Self::failure(&kind, message),
            Err(RecordsError::Again(message)) => Self::failure("conflict", message),
            Err(RecordsError::Lost(message)) => Self::Lost {
                unknown: 1,
                message,
            },
        }
    }
}

/// An error outside the measured calls.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TargetError {
    /// The address cannot be used.
    #[error("--target '{given}' is not a usable address: {reason}")]
    Address {
        /// As given, password removed.
        given: String,
        /// Why not.
        reason: String,
    },
    /// No server answers at the address.
    #[error("cannot reach {address}: {reason}")]
    Unreachable {
        /// As given, password removed.
        address: String,
        /// Why not.
        reason: String,
    },
    /// The target refused something that the run needs.
    #[error("the target refused {what}: {reason}")]
    Refused {
        /// The request.
        what: String,
        /// The target's reason.
        reason: String,
    },
    /// The lab may not use this directory.
    #[error("the directory {path} cannot be used: {reason}")]
    Directory {
        /// The directory.
        path: String,
        /// Why not.
        reason: String,
    },
    /// The target already holds data that the lab did not make.
    #[error("{what} already holds {documents} documents; use --drop to delete them, or {instead}")]
    InTheWay {
        /// Database and collection, or directory.
        what: String,
        /// How many.
        documents: u64,
        /// What the user can do instead.
        instead: String,
    },
}

/// Whether a target became idle after it was asked to settle.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SettleResult {
    /// Whether the target is idle.
    pub is_idle: bool,
    /// What the target waited for, or why that is not known.
    pub remark: String,
}

impl SettleResult {
    /// The outcome of an engine that has no background work once it has synced.
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

impl SettleResult {
    /// The outcome of an engine that compacts: `waited` is how long the engine took to become idle,
    /// or `None` if the time ran out first.
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

/// Facts about a target, and where it can be observed.
#[derive(Clone, Debug, Default)]
pub struct TargetInfo {
    /// For the result.
    pub facts: TargetFacts,
    /// The process id of the target.
    pub pid: Option<u32>,
    /// The data directory of the target.
    pub data: Option<PathBuf>,
}

/// The reader's next event, or `None` if nothing has changed for a while.
pub type EventFuture<'a> = Pin<Box<dyn Future<Output = Result<Option<Event>, String>> + Send + 'a>>;

/// Reads changes in the order in which they happened.
pub trait ChangeReader: Send {
    /// Waits for the next change.
    fn next(&mut self) -> EventFuture<'_>;
}

/// A target of measurements. Opened once per run, shared by all clients.
pub trait Target: Send + Sync + 'static {
    /// The connection of one client.
    type Session: Session;

    /// Describes the target and says where it can be observed.
    fn inspect(&self) -> impl Future<Output = TargetInfo> + Send;

    /// The capabilities that the target lacks.
    fn unsupported(&self) -> &'static [Capability];

    /// Whether the target takes documents of any shape and statements on them.
    fn takes_documents(&self) -> bool {
        false
    }

    /// Whether the target runs programs: transactions of several statements on tables of their own.
    fn takes_programs(&self) -> bool {
        false
    }

    /// The number of servers that calls reached, where there can be more than one.
    fn servers_reached(&self) -> usize {
        1
    }

    /// Runs a command of a workload file.
    ///
    /// # Errors
    /// The target refuses the command, or takes no commands.
    fn run_command(&self, _: Tree) -> impl Future<Output = Result<(), TargetError>> + Send {
        async {
            Err(TargetError::Refused {
                what: "a command".to_owned(),
                reason: "it takes none".to_owned(),
            })
        }
    }

    /// The results of a pipeline, as text. `None` for the collection means the workload's own.
    ///
    /// # Errors
    /// The target refuses the pipeline, or knows no pipelines.
    fn evaluate(
        &self,
        _: Option<String>,
        _: Vec<Tree>,
    ) -> impl Future<Output = Result<String, String>> + Send {
        async { Err("it has no pipelines".to_owned()) }
    }

    /// The results of the pipeline on the server that the user's program copies to.
    ///
    /// # Errors
    /// As [`Target::evaluate`]; or there is no such server.
    fn evaluate_copy(&self, _: Vec<Tree>) -> impl Future<Output = Result<String, String>> + Send {
        async { Err("it has no copies".to_owned()) }
    }

    /// Waits until the search indexes of the workload's collection contain all documents.
    ///
    /// # Errors
    /// The target refuses, has no search indexes, or they are not ready within the given time.
    fn await_search(&self, _: Duration) -> impl Future<Output = Result<(), TargetError>> + Send {
        async {
            Err(TargetError::Refused {
                what: "to wait for search indexes".to_owned(),
                reason: "it has none".to_owned(),
            })
        }
    }

    /// The share of the exact neighbours that pipelines beginning with `$vectorSearch` find.
    ///
    /// # Errors
    /// The target refuses the search, or has no vector search.
    fn recall(
        &self,
        _: Similarity,
        _: Vec<Vec<Tree>>,
    ) -> impl Future<Output = Result<Recall, String>> + Send {
        async { Err("it has no vector search".to_owned()) }
    }

    /// Opens the given number of readers of the changes made to the workload's collection from now
    /// on.
    ///
    /// # Errors
    /// The target refuses, or reports no changes.
    fn readers(
        &self,
        _: u32,
    ) -> impl Future<Output = Result<Vec<Box<dyn ChangeReader>>, TargetError>> + Send {
        async {
            Err(TargetError::Refused {
                what: "readers of changes".to_owned(),
                reason: "it has no change streams".to_owned(),
            })
        }
    }

    /// The lowest date in a field, in milliseconds, and the number of documents of the workload's
    /// collection according to its catalog.
    ///
    /// # Errors
    /// The target refuses, or has no dates.
    fn oldest(&self, _: String) -> impl Future<Output = Result<(Option<i64>, u64), String>> + Send {
        async { Err("it has no dates".to_owned()) }
    }

    /// Makes the tables, empty, without secondary indexes.
    ///
    /// # Errors
    /// Tables that the lab did not make are in the way, or the target refuses.
    fn prepare(&self) -> impl Future<Output = Result<(), TargetError>> + Send;

    /// Whether the target is a separate process that can be restarted.
    fn can_restart(&self) -> bool {
        false
    }

    /// Whether the target answers a new connection now.
    fn answers(&self) -> impl Future<Output = bool> + Send {
        async { true }
    }

    /// Connects again after a restart.
    ///
    /// # Errors
    /// The target does not answer.
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

    /// Makes extra table number `number`, which is not one of the workload's, with one row and one
    /// index.
    ///
    /// # Errors
    /// The target refuses.
    fn create_extra_table(
        &self,
        number: u32,
    ) -> impl Future<Output = Result<(), TargetError>> + Send;

    /// Opens a connection for a client. With `sync` each write waits for storage.
    ///
    /// # Errors
    /// The connection cannot be opened.
    fn session(
        &self,
        sync: bool,
    ) -> impl Future<Output = Result<Self::Session, TargetError>> + Send;

    /// The number of rows of all tables, counted by reading them.
    ///
    /// # Errors
    /// The target cannot tell.
    fn count(&self) -> impl Future<Output = Result<u64, String>> + Send;

    /// The sum of field `k` over all tables.
    ///
    /// # Errors
    /// The target cannot tell.
    fn sum_of_k(&self) -> impl Future<Output = Result<i64, String>> + Send;

    /// Deletes the rows of a table whose numeric id is above `number`: an interrupted step left
    /// them.
    ///
    /// # Errors
    /// The target refuses.
    fn delete_above(
        &self,
        table: usize,
        number: i64,
    ) -> impl Future<Output = Result<(), TargetError>> + Send;

    /// The sizes of the tables.
    fn sizes(&self) -> impl Future<Output = Sizes> + Send;

    /// Waits until the target has nothing left to flush or to compact.
    fn settle(&self, timeout: Duration) -> impl Future<Output = SettleResult> + Send;

    /// Bytes that wait for a flush or compaction, if the target reports them; `statistics` are its
    /// current statistics.
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

    /// Whether calls block their thread: then each client gets its own thread.
    const BLOCKING: bool;

    /// Whether the target runs in the lab's own process. A pause of the whole process then counts
    /// as a pause of the target.
    const INSIDE: bool = false;

    /// Encodes a call; not part of its latency.
    fn encode(&mut self, call: Call) -> Self::Encoded;

    /// Makes the call.
    fn run(&mut self, encoded: Self::Encoded) -> impl Future<Output = CallOutcome> + Send;
}
