//! What the replay of a recording adds to a result: latency by kind of operation, and whether the
//! answers were those recorded.
//!
//! Must not know: how a recording is made or replayed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::latency::LatencySummary;

/// Workload name of every replay's result.
pub const WORKLOAD: &str = "replay";

/// Kinds of operation that write.
pub const WRITES: [&str; 5] = [
    "insert",
    "update",
    "remove",
    "command.findAndModify",
    "command.bulkWrite",
];

/// A replay.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ReplayResult {
    /// `real`: at the recorded times; `stress`: as fast as the workers can.
    pub style: String,
    /// Times faster than recorded, for `real`.
    pub speed: f64,
    /// `connection`: in order within each recorded connection; `recorded`: besides, nothing before
    /// what was answered before it.
    pub order: String,
    /// What was replayed.
    pub recording: RecordingFacts,
    /// By kind of operation. Latency from the intended start is in `by_part`.
    pub kinds: BTreeMap<String, KindResult>,
    /// Operations whose replies were compared with those recorded.
    pub compared: u64,
    /// What differed, and how often.
    pub differences: BTreeMap<String, u64>,
    /// The first of them.
    pub first_differences: Vec<AnswerDifference>,
    /// Operations that were replayed but not compared, by reason.
    pub not_compared: BTreeMap<String, u64>,
    /// Operations that were not replayed, by reason.
    pub not_replayed: BTreeMap<String, u64>,
    /// Fetches that the target needed beyond those recorded, because its batches were smaller.
    pub more_fetches: u64,
    /// By how much the lab's own timer woke operations late, 99 of 100 within. Not part of their
    /// latency.
    pub timer_late_us_p99: Option<f64>,
}

/// A recording.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordingFacts {
    /// Name of its file.
    pub file: String,
    /// Tells recordings apart.
    pub fingerprint: String,
    /// RFC 3339 with offset.
    pub started_at: String,
    /// What was recorded.
    pub upstream: String,
    /// Whether texts and binary values are hashes.
    pub anonymised: bool,
    /// Operations in it.
    pub ops: u64,
    /// From its first operation to its last.
    pub seconds: f64,
    /// Why it ended early, if it did.
    pub cut: Option<String>,
}

/// One kind of operation.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct KindResult {
    /// Operations answered.
    pub ops: u64,
    /// Errors that were not recorded, and calls without an answer.
    pub errors: u64,
    /// Documents returned.
    pub returned: u64,
    /// Latency from sending.
    pub service: LatencySummary,
    /// Latency of the same operations as the recorder saw them.
    pub recorded: LatencySummary,
}

/// An answer that was not the recorded one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerDifference {
    /// Number of the operation in the recording, from 0: `--skip N --max-ops 1` replays it alone.
    pub op: u64,
    /// Kind of operation.
    pub kind: String,
    /// Database and collection.
    pub namespace: String,
    /// What differed.
    pub what: String,
    /// As recorded.
    pub recorded: String,
    /// As replayed.
    pub replayed: String,
}

impl ReplayResult {
    /// Differences in all.
    pub fn differences(&self) -> u64 {
        self.differences.values().sum()
    }
}
