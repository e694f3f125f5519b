//! What a workload file says: data, indexes, steps, and the operations that clients repeat.
//!
//! Must not know: which files there are, how settings are merged.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::choices::Ids;
use super::overrides::Overrides;
pub use crate::row::DocumentKind;

/// What a user asked for that does not exist or does not fit.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// No such workload.
    #[error("there is no workload '{given}'; there are: {known}")]
    UnknownWorkload {
        /// What was asked for.
        given: String,
        /// What there is.
        known: String,
    },
    /// No such preset.
    #[error("workload '{workload}' has no preset '{given}'; it has: {known}")]
    UnknownPreset {
        /// The workload.
        workload: String,
        /// What was asked for.
        given: String,
        /// What there is.
        known: String,
    },
    /// A setting out of its range.
    #[error("{name} is {given}; allowed is {allowed}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// What was given.
        given: String,
        /// What is allowed.
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
    pub name: String,
    /// Heading of the report.
    pub title: String,
    /// What it does, in a sentence or two.
    pub about: String,
    /// Where its definition comes from.
    pub source: String,
    /// What is stored.
    pub data: Data,
    /// What is done, in order.
    #[serde(rename = "step")]
    pub steps: Vec<Step>,
    /// Settings that no preset needs to repeat.
    pub(super) defaults: Overrides,
    /// Sizes.
    pub(super) preset: BTreeMap<String, Overrides>,
}

/// What a workload stores.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// Which row generator.
    pub documents: DocumentKind,
    /// Table name; with more than one table a number follows it.
    pub collection: String,
    /// Who makes the ids.
    #[serde(default)]
    pub ids: Ids,
    /// Bound of each table in bytes, for a workload that wants capped collections.
    #[serde(default)]
    pub capped_bytes: Option<u64>,
    /// Secondary indexes, in the order in which `indexes = N` takes them.
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
    /// Whether its rows all have other values, so that it can be made unique.
    #[serde(default)]
    pub distinct: bool,
    /// Whether the target is to refuse a second row with the same values.
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
    /// Work that goes on meanwhile.
    #[serde(default)]
    pub background: Vec<Role>,
    /// What ends it.
    #[serde(default)]
    pub stop: Stop,
    /// Whether it is what the workload is about; other steps prepare for it and have no warm-up.
    #[serde(default)]
    pub measured: bool,
    /// Share of the rows of the settings that an insert step stores.
    pub rows: Option<f64>,
    /// Done as often as the setting `rounds` says, each with a number after its name.
    #[serde(default)]
    pub each_round: bool,
}

/// The work of a group of clients.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Role {
    /// What they do.
    pub operation: Operation,
    /// How many, where it differs from the setting.
    pub clients: Option<u32>,
    /// Rows per call, where it differs from the setting.
    pub batch: Option<u32>,
    /// Operations per second of each client, on a schedule. For work beside the measured one this
    /// is also its target.
    pub rate: Option<f64>,
    /// Whether each write waits until it is on storage.
    #[serde(default)]
    pub sync: bool,
    /// Entries that a range read returns at most.
    pub limit: Option<u32>,
    /// How ids are drawn.
    #[serde(default)]
    pub draw: Draw,
    /// For [`Operation::Mix`]: parts and their weights.
    #[serde(default)]
    pub mix: Vec<(Operation, f64)>,
    /// Ranges in descending order.
    #[serde(default)]
    pub reverse: bool,
    /// Drawn from the first so many rows of each table only.
    pub within: Option<u64>,
    /// Point reads go on with so many neighbours in the order of insertion, each a call of its own.
    pub read_batch: Option<u32>,
    /// Each update is preceded by a read of its document: one operation of two calls.
    #[serde(default)]
    pub prefetch: bool,
    /// Each client's call number N, 2N and so on waits for storage.
    pub sync_every: Option<u32>,
}

/// How ids are drawn.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Draw {
    /// Each as often as the other.
    #[default]
    Uniform,
    /// Zipf with 0.99, the favourites scattered over all ids.
    Zipf,
    /// Zipf with 0.99, the newest the favourites.
    Latest,
}

/// The work that a client can do.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
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
    /// `$inc` always the same few documents.
    Hot,
    /// Read a document, then store it again with `k` one higher. Each client keeps to documents of
    /// its own.
    ReadModifyWrite,
    /// Add 1 to `k` without reading: an upsert with `$inc`, a merge operand.
    Commutative,
    /// Store a whole fresh document over whatever is there.
    Blind,
    /// The same with ids that may not exist yet, drawn with replacement from all.
    FillRandom,
    /// Delete the oldest documents, as many as are inserted meanwhile.
    DeleteOldest,
    /// Delete a document and insert it again.
    DeleteInsert,
    /// Find the one document that fits after looking at as many as the limit says.
    Scan,
    /// Several parts by weight.
    Mix,
    /// Make the secondary indexes.
    CreateIndexes,
    /// Wait until the target has no work left over.
    Settle,
    /// Make as many more tables as the settings say, one document and one index each.
    CreateTables,
    /// Find a document, then `$set` a field of it: one operation of two calls.
    ReadWriteField,
    /// Delete all documents.
    Empty,
    /// Stop the target and start it again by the user's command; measured until it answers.
    Restart,
}

impl Operation {
    /// What one operation is called in results.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Insert => "documents",
            Self::Point | Self::Points | Self::Range | Self::IndexRange | Self::Scan => "queries",
            Self::UpdateInc
            | Self::UpdateSet
            | Self::Hot
            | Self::ReadModifyWrite
            | Self::ReadWriteField
            | Self::Commutative => "updates",
            Self::Blind | Self::FillRandom => "writes",
            Self::DeleteOldest => "deletes",
            Self::DeleteInsert | Self::Mix | Self::Settle | Self::Empty | Self::Restart => {
                "operations"
            }
            Self::CreateIndexes => "indexed rows",
            Self::CreateTables => "tables",
        }
    }

    /// The same for one.
    pub fn unit_one(self) -> &'static str {
        match self {
            Self::Insert => "document",
            Self::CreateIndexes => "indexed row",
            Self::Point | Self::Points | Self::Range | Self::IndexRange | Self::Scan => "query",
            other => other.unit().trim_end_matches('s'),
        }
    }

    /// What it asks of a target.
    pub fn requires(self) -> &'static [Capability] {
        match self {
            Self::IndexRange | Self::CreateIndexes => &[Capability::Indexes],
            Self::Range => &[Capability::Ranges],
            Self::Commutative => &[Capability::Merge],
            Self::Scan => &[Capability::Filter],
            _ => &[],
        }
    }

    /// Whether it is done once and by one, and not by clients in a loop.
    pub fn is_action(self) -> bool {
        matches!(
            self,
            Self::CreateIndexes | Self::Settle | Self::CreateTables | Self::Empty | Self::Restart
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

/// What a part asks of a target beyond storing and finding by id.
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
}

impl Capability {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Indexes => "secondary indexes",
            Self::Ranges => "range reads",
            Self::Merge => "adding to a field without reading it",
            Self::Sync => "waiting for storage on single writes",
            Self::Capped => "capped collections",
            Self::Filter => "finding by a condition without an index",
        }
    }
}

impl Role {
    /// What it asks of a target.
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

/// What ends a step.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// The rows of the setting are stored (or, if `seconds` is set, that time is over).
    Rows,
    /// As many calls as the setting has rows, by all clients together.
    Calls,
    /// The time of the setting is over.
    Seconds,
    /// It is done: for actions.
    #[default]
    Done,
}

impl Workload {
    /// Whether time ends some of its steps.
    pub fn has_timed_steps(&self) -> bool {
        self.steps.iter().any(|step| step.stop == Stop::Seconds)
    }

    /// The steps with those of each round written out.
    pub fn steps(&self, rounds: u32) -> Vec<Step> {
        let mut out: Vec<Step> = Vec::new();
        let mut rest = self.steps.as_slice();
        while let Some(first) = rest.first() {
            let same = rest
                .iter()
                .take_while(|step| step.each_round == first.each_round)
                .count();
            let (group, tail) = rest.split_at(same);
            if first.each_round && rounds > 1 {
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
