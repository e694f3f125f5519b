//! The contents of a workload file: data, indexes, steps, and the operations that clients repeat.
//!
//! Must not know: which files there are, how settings are merged.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::beside::Agreement;
use super::choices::{ExpiryRule, Ids, Stop};
use super::overrides::Overrides;
use crate::draw::KeyDistribution;
use crate::nearest::Similarity;
use crate::pacing::Arrivals;
use crate::program::Program;
pub use crate::row::DocumentKind;
use crate::template::{Statement, StatementFile, Tree, constant};

/// A request of the user that does not exist or does not fit.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// No such workload.
    #[error("there is no workload '{given}'; there are: {known}")]
    UnknownWorkload {
        /// The name that the user gave.
        given: String,
        /// The names that exist.
        known: String,
    },
    /// No such preset.
    #[error("workload '{workload}' has no preset '{given}'; it has: {known}")]
    UnknownPreset {
        /// The workload.
        workload: String,
        /// The name that the user gave.
        given: String,
        /// The names that exist.
        known: String,
    },
    /// A setting out of its range.
    #[error("{name} is {given}; allowed is {allowed}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// The value that the user gave.
        given: String,
        /// The allowed values.
        allowed: String,
    },
    /// A workload file that cannot be read.
    #[error("workload file: {0}")]
    File(String),
}

/// A workload file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Name on the command line.
    #[serde(default)]
    pub name: String,
    /// Heading of the report.
    #[serde(default)]
    pub title: String,
    /// A description in a sentence or two.
    #[serde(default)]
    pub about: String,
    /// The source of its definition.
    #[serde(default)]
    pub source: String,
    /// The data that the workload stores.
    pub data: Data,
    /// The steps, in order.
    #[serde(rename = "step")]
    pub steps: Vec<Step>,
    /// The statements that steps refer to.
    #[serde(default, rename = "statement")]
    pub(super) statement_files: Vec<StatementFile>,
    /// The same statements, compiled.
    #[serde(skip)]
    pub statements: Arc<Vec<Statement>>,
    /// Queries whose results must be the same before the first measured step and at the end.
    #[serde(default, rename = "invariant")]
    pub invariants: Vec<Invariant>,
    /// Settings shared by all presets.
    #[serde(default)]
    pub(super) defaults: Overrides,
    /// The presets, which differ in size.
    #[serde(default)]
    pub(super) preset: BTreeMap<String, Overrides>,
}

/// The data of a workload.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// The row generator.
    #[serde(default)]
    pub documents: DocumentKind,
    /// Instead of `documents`: a document template with generators.
    #[serde(default)]
    pub(super) document: Option<toml::Table>,
    /// Table name; with more than one table a number follows it.
    pub collection: String,
    /// Who makes the ids.
    #[serde(default)]
    pub ids: Ids,
    /// The least number of addresses of the target, for a workload on several servers.
    #[serde(default)]
    pub servers: Option<u32>,
    /// Size limit of each table in bytes, for a workload that wants capped collections.
    #[serde(default)]
    pub capped_bytes: Option<u64>,
    /// Secondary indexes; `indexes = N` creates the first N.
    #[serde(default, rename = "index")]
    pub indexes: Vec<Index>,
}

/// A secondary index, ascending.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Index {
    /// Its name.
    pub name: String,
    /// Its fields.
    pub keys: Vec<String>,
    /// Whether all rows have different values, so that the index can be unique.
    #[serde(default)]
    pub distinct: bool,
    /// Whether the index is unique.
    #[serde(default)]
    pub unique: bool,
}

/// One step of a workload.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Name in results.
    pub name: String,
    /// The work that is measured.
    pub work: Role,
    /// Work that runs in the background.
    #[serde(default)]
    pub background: Vec<Role>,
    /// The condition that ends the step.
    #[serde(default)]
    pub stop: Stop,
    /// Whether the workload is about this step; other steps prepare for it and have no warm-up.
    #[serde(default)]
    pub measured: bool,
    /// Share of the rows of the settings that an insert step stores.
    pub rows: Option<f64>,
    /// Whether the step is repeated as often as the setting `rounds` says, each time with a number
    /// after its name.
    #[serde(default)]
    pub each_round: bool,
    /// The step's seconds, if they differ from the setting.
    #[serde(default)]
    pub seconds: Option<u64>,
    /// The command of [`Operation::Command`].
    #[serde(default)]
    pub(super) command: Option<toml::Table>,
    /// Commands that run in the middle of the step.
    #[serde(default)]
    pub during: Vec<StepCommand>,
    /// Whether the step is repeated with 1, 2, 4 and so on clients until more clients add little.
    #[serde(default)]
    pub saturate: bool,
    /// The number of readers of the changes that the step's statements make.
    #[serde(default)]
    pub readers: Option<u32>,
    /// The expiry of the documents that the step's statements insert.
    #[serde(default)]
    pub expiry: Option<ExpiryRule>,
    /// After the step: measure the recall of its `$vectorSearch` against the exact neighbours by
    /// this measure.
    #[serde(default)]
    pub recall: Option<Similarity>,
    /// Pairs of queries that must return the same results after the step.
    #[serde(default)]
    pub agree: Vec<Agreement>,
    /// Whether the user's program runs during the step.
    #[serde(default)]
    pub program: bool,
}

/// A command in the middle of a step, such as one that makes an index.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepCommand {
    /// The time since the step began.
    pub after_seconds: f64,
    /// The command.
    pub(super) command: toml::Table,
}

/// A query whose result the work must not change.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invariant {
    /// A description.
    pub name: String,
    /// The collection, if it is not the workload's.
    #[serde(default)]
    pub collection: Option<String>,
    /// The pipeline whose results are compared.
    pub(super) pipeline: Vec<toml::Table>,
}

/// The work of a group of clients.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Role {
    /// The operation that the clients repeat.
    #[serde(default)]
    pub operation: Operation,
    /// Instead of `mix`: statements or operations and their weights.
    #[serde(default)]
    pub statements: Vec<(String, f64)>,
    /// The statements of the workload.
    #[serde(skip)]
    pub compiled: Arc<Vec<Statement>>,
    /// How calls of an open loop arrive.
    #[serde(default)]
    pub arrivals: Option<Arrivals>,
    /// The number of clients, if it differs from the setting.
    pub clients: Option<u32>,
    /// Rows per call, if it differs from the setting.
    pub batch: Option<u32>,
    /// Operations per second of each client, on a schedule. For background work this is also the
    /// rate that it must reach.
    pub rate: Option<f64>,
    /// Whether each write waits for storage.
    #[serde(default)]
    pub sync: bool,
    /// Entries that a range read returns at most.
    pub limit: Option<u32>,
    /// How ids are drawn.
    #[serde(default)]
    pub draw: KeyDistribution,
    /// For [`Operation::Mix`]: operations and their weights.
    #[serde(default)]
    pub mix: Vec<(Operation, f64)>,
    /// Whether ranges are in descending order.
    #[serde(default)]
    pub reverse: bool,
    /// If set, rows are drawn only from this number of first rows of each table.
    pub within: Option<u64>,
    /// Point reads come in batches of this many neighbours in the order of insertion, each read by
    /// its own call.
    pub read_batch: Option<u32>,
    /// Whether each update is preceded by a read of its document; the two calls are one operation.
    #[serde(default)]
    pub prefetch: bool,
    /// Each client's calls number N, 2N and so on wait for storage.
    pub sync_every: Option<u32>,
    /// The number of clients as a multiple of the clients that saturate the target, which the step
    /// before has found.
    pub times_saturation: Option<u32>,
    /// For background work: runs only between these two fractions of the step's time.
    pub between: Option<[f64; 2]>,
}

/// The work that a client can do.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Insert batches.
    Insert,
    /// Find one document by `_id`, all fields returned.
    Point,
    /// Find several documents by a list of `_id`.
    Points,
    /// Read documents in the order of `_id`, from a drawn one on.
    Range,
    /// Read entries of a secondary index, from drawn values on, index fields only.
    IndexRange,
    /// `$inc` one document by `_id`.
    UpdateInc,
    /// `$set` a field without an index to a fresh value.
    UpdateSet,
    /// `$inc` one of the same few documents each time.
    Hot,
    /// Read a document, then store it again with `k` one higher. Each client uses only its own
    /// documents.
    ReadModifyWrite,
    /// Add 1 to `k` without reading: an upsert with `$inc`, a merge operand.
    Commutative,
    /// Store a whole new document in place of whatever exists.
    Blind,
    /// Store whole new documents under ids that may not exist yet, drawn from all ids with
    /// replacement.
    FillRandom,
    /// Delete the oldest documents at the rate at which others are inserted.
    DeleteOldest,
    /// Delete a document and insert it again.
    DeleteInsert,
    /// Find the one matching document in a range of as many documents as the limit says, without an
    /// index.
    Scan,
    /// One of several operations, drawn by weight.
    #[default]
    Mix,
    /// A statement of the workload's file, by its number.
    #[serde(skip)]
    Statement(u16),
    /// A procedure of the workload's program, by its number.
    #[serde(skip)]
    Procedure(u16),
    /// Store the initial data of the workload's program.
    Load,
    /// Run a command of the workload's file once.
    Command,
    /// Make the secondary indexes.
    CreateIndexes,
    /// Wait until the target has no background work left.
    Settle,
    /// Make the number of extra tables of the settings, each with one document and one index.
    CreateTables,
    /// Find a document, then `$set` a field of it: one operation of two calls.
    ReadWriteField,
    /// Delete all documents.
    Empty,
    /// Wait until the search indexes of the collection have all documents.
    AwaitSearch,
    /// Stop the target and start it again by the user's command; the time is measured until the
    /// target answers.
    Restart,
}

impl Operation {
    /// The name of the operations in results, plural.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Insert | Self::Load => "documents",
            Self::Point | Self::Points | Self::Range | Self::IndexRange | Self::Scan => "queries",
            Self::UpdateInc
            | Self::UpdateSet
            | Self::Hot
            | Self::ReadModifyWrite
            | Self::ReadWriteField
            | Self::Commutative => "updates",
            Self::Blind | Self::FillRandom => "writes",
            Self::DeleteOldest => "deletes",
            Self::DeleteInsert
            | Self::Mix
            | Self::Statement(_)
            | Self::Procedure(_)
            | Self::Command
            | Self::Settle
            | Self::Empty
            | Self::Restart => "operations",
            Self::CreateIndexes | Self::AwaitSearch => "indexed rows",
            Self::CreateTables => "tables",
        }
    }

    /// The name of one operation in results.
    pub fn unit_one(self) -> &'static str {
        match self {
            Self::Insert | Self::Load => "document",
            Self::CreateIndexes | Self::AwaitSearch => "indexed row",
            Self::Point | Self::Points | Self::Range | Self::IndexRange | Self::Scan => "query",
            other => other.unit().trim_end_matches('s'),
        }
    }

    /// The capabilities that a target needs for it.
    pub fn requires(self) -> &'static [Capability] {
        match self {
            Self::IndexRange | Self::CreateIndexes => &[Capability::Indexes],
            Self::Range => &[Capability::Ranges],
            Self::Commutative => &[Capability::Merge],
            Self::Scan => &[Capability::Filter],
            Self::Statement(_) | Self::Command | Self::AwaitSearch => &[Capability::Documents],
            Self::Load | Self::Procedure(_) => &[Capability::Programs],
            _ => &[],
        }
    }

    /// Whether the operation runs once for the whole step, and not by clients in a loop.
    pub fn is_action(self) -> bool {
        matches!(
            self,
            Self::CreateIndexes
                | Self::Settle
                | Self::CreateTables
                | Self::Empty
                | Self::Restart
                | Self::Command
                | Self::AwaitSearch
        )
    }

    /// Whether each operation adds 1 to `k`.
    pub fn adds_to_k(self) -> bool {
        matches!(
            self,
            Self::UpdateInc | Self::Hot | Self::ReadModifyWrite | Self::Commutative
        )
    }
}

/// A capability that an operation needs beyond storing and finding by id.
#[derive(Clone, Copy, Debug, Serialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "kebab-case")]
pub enum Capability {
    /// Secondary indexes.
    Indexes,
    /// Reading in the order of keys.
    Ranges,
    /// Adding to a field without reading it.
    Merge,
    /// Waiting for storage on a single write.
    Sync,
    /// Tables bounded in size.
    Capped,
    /// Finding by a condition without an index.
    Filter,
    /// Documents of any shape, and statements on them.
    Documents,
    /// Transactions of several statements on the program's own tables.
    Programs,
}

impl Capability {
    /// A description.
    pub fn name(self) -> &'static str {
        match self {
            Self::Indexes => "secondary indexes",
            Self::Ranges => "range reads",
            Self::Merge => "adding to a field without reading it",
            Self::Sync => "waiting for storage on single writes",
            Self::Capped => "capped collections",
            Self::Filter => "finding by a condition without an index",
            Self::Documents => "documents and statements of a workload file",
            Self::Programs => "transactions of several statements",
        }
    }
}

impl Role {
    /// The capabilities that a target needs for it.
    pub fn requires(&self) -> Vec<Capability> {
        let mixed = self
            .mix
            .iter()
            .flat_map(|(operation, _)| operation.requires());
        let mut out: Vec<Capability> = self
            .operation
            .requires()
            .iter()
            .chain(mixed)
            .copied()
            .collect();
        if self.sync || self.sync_every.is_some() {
            out.push(Capability::Sync);
        }
        out
    }
}

/// The largest number of clients that is tried to saturate a target.
pub const SATURATE_MAX: u32 = 256;

/// Commands that do not change the number of documents.
const KEEPS_COUNT: [&str; 8] = [
    "createIndexes",
    "createSearchIndexes",
    "dropIndexes",
    "collMod",
    "compact",
    "validate",
    "analyze",
    "setParameter",
];

impl Step {
    /// Copies of the step with more and more clients.
    fn saturating(&self) -> impl Iterator<Item = Self> {
        let times = (0..).map(|power| 1_u32 << power);
        let times = times.take_while(|times| *times <= SATURATE_MAX);
        times.map(|times| Self {
            name: format!("{}-{times:03}", self.name),
            work: Role {
                clients: Some(times),
                ..self.work.clone()
            },
            ..self.clone()
        })
    }

    /// The command of an action.
    pub fn command(&self) -> Tree {
        self.command.as_ref().map_or(Tree::Null, constant)
    }
}

impl StepCommand {
    /// The command.
    pub fn command(&self) -> Tree {
        constant(&self.command)
    }
}

impl Invariant {
    /// The stages of its pipeline.
    pub fn pipeline(&self) -> Vec<Tree> {
        self.pipeline.iter().map(constant).collect()
    }
}

impl Workload {
    /// The name of an operation in results.
    pub fn operation_name(&self, operation: Operation) -> String {
        if let Operation::Statement(number) = operation {
            let found = self.statements.get(usize::from(number));
            return found.map(|one| one.name.clone()).unwrap_or_default();
        }
        if let Operation::Procedure(number) = operation {
            let names = self.procedures();
            let found = names.get(usize::from(number)).copied();
            return found.unwrap_or_default().to_owned();
        }
        let value = serde_json::to_value(operation).unwrap_or_default();
        value.as_str().unwrap_or_default().to_owned()
    }

    /// The procedures of its program.
    pub(super) fn procedures(&self) -> &'static [&'static str] {
        let program = self.data.documents.program();
        program.map_or(&[], Program::procedures)
    }

    /// Whether the number of documents is still known after a step.
    pub fn counts(&self, step: &Step) -> bool {
        let roles = step.background.iter().chain([&step.work]);
        let mut numbers = roles.flat_map(|role| &role.mix);
        let is_command = step.work.operation == Operation::Command || !step.during.is_empty();
        let changes = |command: Tree| match command {
            Tree::Object(fields) => fields
                .first()
                .is_none_or(|(name, _)| !KEEPS_COUNT.contains(&name.as_str())),
            _ => true,
        };
        let commands = step.during.iter().map(StepCommand::command);
        let action = (step.work.operation == Operation::Command).then(|| step.command());
        if is_command && commands.chain(action).any(changes) {
            return false;
        }
        numbers.all(|(operation, _)| match operation {
            Operation::Statement(number) => self
                .statements
                .get(usize::from(*number))
                .is_some_and(Statement::counts),
            _ => true,
        })
    }

    /// Whether some steps end by time.
    pub fn has_timed_steps(&self) -> bool {
        self.steps.iter().any(|step| step.stop == Stop::Seconds)
    }

    /// All steps, with the repeated steps of each round.
    pub fn steps(&self, rounds: u32) -> Vec<Step> {
        let mut out: Vec<Step> = Vec::new();
        let mut rest = self.steps.as_slice();
        while let Some(first) = rest.first() {
            let same = rest
                .iter()
                .take_while(|step| {
                    step.each_round == first.each_round && step.saturate == first.saturate
                })
                .count();
            let (group, tail) = rest.split_at(same);
            if first.saturate {
                out.extend(group.iter().flat_map(Step::saturating));
            } else if first.each_round && rounds > 1 {
                let width = rounds.to_string().len();
                for round in 1..=rounds {
                    out.extend(group.iter().cloned().map(|mut step| {
                        step.name = format!("{}.{round:0width$}", step.name);
                        step
                    }));
                }
            } else {
                out.extend(group.iter().cloned());
            }
            rest = tail;
        }
        out
    }
}
