//! The part of a result that only the replay of a recording has: latency by kind of operation, and
//! whether the answers equal the recorded ones.
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
    /// For `real`: the factor by which the replay is faster than the recording.
    pub speed: f64,
    /// `connection`: operations keep their order within each recorded connection; `recorded`: in
    /// addition, an operation waits for all operations that were answered before it in the
    /// recording.
    pub order: String,
    /// The recording that was replayed.
    pub recording: RecordingFacts,
    /// Results by kind of operation. Latency from the intended start is in `by_part`.
    pub kinds: BTreeMap<String, KindResult>,
    /// Operations whose replies were compared with the recorded ones.
    pub compared: u64,
    /// The kinds of differences, and how often each occurred.
    pub differences: BTreeMap<String, u64>,
    /// The first differences.
    pub first_differences: Vec<AnswerDifference>,
    /// Operations that were replayed but not compared, by reason.
    pub not_compared: BTreeMap<String, u64>,
    /// Operations that were not replayed, by reason.
    pub not_replayed: BTreeMap<String, u64>,
    /// Extra fetches that were not recorded and that the target needed because its batches were
    /// smaller.
    pub more_fetches: u64,
    /// 99th percentile of the delay of the lab's own timer. It is not part of the latency.
    pub timer_late_us_p99: Option<f64>,
}

/// A recording.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordingFacts {
    /// Name of its file.
    pub file: String,
    /// Fingerprint of the recording.
    pub fingerprint: String,
    /// RFC 3339 with offset.
    pub started_at: String,
    /// The server that was recorded.
    pub upstream: String,
    /// Whether texts and binary values are hashes.
    pub anonymised: bool,
    /// Operations in it.
    pub ops: u64,
    /// From the first operation to the last.
    pub seconds: f64,
    /// Why the recording ended early, if it did.
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

/// An answer that differs from the recorded one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerDifference {
    /// Number of the operation in the recording, from 0: `--skip N --max-ops 1` replays it alone.
    pub op: u64,
    /// Kind of operation.
    pub kind: String,
    /// Database and collection.
    pub namespace: String,
    /// The kind of difference.
    pub what: String,
    /// The recorded value.
    pub recorded: String,
    /// The replayed value.
    pub replayed: String,
}

impl ReplayResult {
    /// The total number of differences.
    pub fn differences(&self) -> u64 {
        self.differences.values().sum()
    }
}
