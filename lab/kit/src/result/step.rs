//! The result of one step.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::generator::GeneratorResult;
use super::latency::LatencySummary;
use super::overload::Overload;
use super::replay::ReplayResult;
use super::resources::{CostSummary, DeviceSummary, HostSummary, Sizes, ThreadGroup};
use super::watch::{AgreementResult, Expiry, FanOut, ProgramRuns};
use crate::nearest::Recall;
use crate::series::Point;
use crate::workload::Operation;

/// One step.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StepResult {
    /// Its name.
    pub name: String,
    /// The operation that its clients repeat.
    #[serde(rename = "part")]
    pub operation: Operation,
    /// Whether the workload is about this step.
    pub measured: bool,
    /// The unit of operations.
    pub unit: String,
    /// `closed`: a client sends its next call when the reply has come. `open`: calls follow a
    /// schedule, and latency counts from the time at which a call was due.
    pub pacing: String,
    /// Clients that took part.
    pub clients: u32,
    /// Operations per call.
    pub batch: u32,
    /// Seconds measured, warm-up left out.
    pub seconds: f64,
    /// Operations acknowledged in that time.
    pub ops: u64,
    /// Calls in that time that have a latency: answered, given up or, in an open loop, due and
    /// never sent.
    pub calls: u64,
    /// Operations acknowledged in the warm-up.
    pub warmup_ops: u64,
    /// Failed calls by error, warm-up included.
    pub errors: BTreeMap<String, u64>,
    /// Throughput and how even it was.
    pub rate: RateSummary,
    /// The times in which little or nothing was completed.
    pub stalls: Stalls,
    /// How long calls took.
    pub latency: LatencySummary,
    /// Resources that the server used per operation.
    pub server: Option<CostSummary>,
    /// Resources that the lab used per operation.
    pub client: CostSummary,
    /// Requests of the device per operation.
    pub device: Option<DeviceSummary>,
    /// The machine.
    pub host: HostSummary,
    /// How evenly clients finished.
    pub finish: FinishSummary,
    /// The sizes of the data after the step.
    pub sizes: Sizes,
    /// The step over time. The number of points is bounded however long the step was, because
    /// neighbours are merged.
    pub series: Vec<Point>,
    /// Further facts.
    #[serde(default)]
    pub more: StepExtras,
}

/// Fields added to a step since the first version; each may be absent.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StepExtras {
    /// Background roles: clients that worked while the step was measured.
    #[serde(rename = "beside")]
    pub background: Vec<RoleResult>,
    /// Open loop only: latency from sending, while `latency` counts from the time at which a call
    /// was due.
    pub service: Option<LatencySummary>,
    /// Open loop only: by how much the lab itself sent calls too late. `latency` does not include
    /// it.
    pub lateness: Option<LatencySummary>,
    /// Open loop only: calls that were due and never sent. Those that waited for earlier calls are
    /// in `latency` with the time until the end.
    pub unsent_calls: u64,
    /// Open loop only: the unsent calls that waited only for the lab itself. No latency includes
    /// them.
    pub unsent_by_lab: u64,
    /// Mixes only: latency of each operation.
    #[serde(rename = "by_part")]
    pub by_operation: BTreeMap<String, LatencySummary>,
    /// How the calls of each operation ended, the warm-up included.
    pub outcomes: BTreeMap<String, CallCounts>,
    /// Seconds in which the lab itself was paused. In a closed loop they are excluded from
    /// `seconds`, from the latencies and from the target's stalls.
    pub lab_stood_still_seconds: f64,
    /// Calls that were under way during such a pause: the time that the target took is unknown.
    pub disturbed_calls: u64,
    /// Documents or entries that reads returned.
    pub rows_returned: u64,
    /// Documents or entries that reads returned per second.
    pub rows_per_second: f64,
    /// Bytes of documents written in the measured time, without the target's overhead.
    pub user_bytes: u64,
    /// Bytes that the server sent towards storage, divided by `user_bytes`.
    pub write_amplification: Option<f64>,
    /// Bytes that the device wrote, divided by `user_bytes`.
    pub device_write_amplification: Option<f64>,
    /// Resources that the threads of the server (or of the lab, for an engine inside it) used,
    /// grouped by name.
    pub threads: Vec<ThreadGroup>,
    /// Pages of 4 KiB that threads serving clients fetched from storage, per operation; other reads
    /// are the engine's background work.
    pub foreground_reads_per_op: Option<f64>,
    /// KB that all other threads fetched from storage, per operation.
    pub background_read_kb_per_op: Option<f64>,
    /// Bytes that wait for a flush or compaction at the end, if the engine reports them.
    pub debt_bytes: Option<u64>,
    /// Seconds until the target was idle in the settle step that followed; `None` if no settle step
    /// followed or it gave up.
    pub quiesce_seconds: Option<f64>,
    /// `write_amplification` including the writes of the following settle step. These are divided
    /// among the steps before it in proportion to their user bytes.
    pub settled_write_amplification: Option<f64>,
    /// `device_write_amplification` including the settle step in the same way.
    pub settled_device_write_amplification: Option<f64>,
    /// CPU that the lab needs to draw, encode and record a call, per operation; measured without a
    /// target before the step.
    pub lab_cpu_us_per_op: Option<f64>,
    /// The seed of each client's stream.
    pub seeds: Vec<u64>,
    /// Whether the reads of a step with background writers count: whether each writer reached 95 %
    /// of its rate.
    pub sla_met: Option<bool>,
    /// The target's raw statistics at the end.
    pub statistics: serde_json::Value,
    /// Calls that the target refused and asked the client to repeat later. They count neither as
    /// errors nor in the latency.
    pub refused_calls: u64,
    /// Operations that clients gave up after as many refusals as drivers accept.
    pub given_up: u64,
    /// The figures of an overload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overload: Option<Overload>,
    /// The events that readers of changes received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fan_out: Option<FanOut>,
    /// Documents that expired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expiry: Option<Expiry>,
    /// The recall of searches for vectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recall: Option<Recall>,
    /// Pairs of queries that had to return the same results.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub agreed: Vec<AgreementResult>,
    /// Runs of the user's program during the step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<ProgramRuns>,
    /// The machines that generated the load, if the lab did not generate it itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub generators: Vec<GeneratorResult>,
    /// A remark on a step that is an action.
    pub remark: String,
    /// Replays only: the results of the replay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay: Option<ReplayResult>,
    /// Seconds from the end of the old process until the new one answered; restarts only.
    pub start_seconds: Option<f64>,
}

/// How the calls of an operation ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallCounts {
    /// Calls that succeeded.
    pub answered: u64,
    /// Calls that ended with an error or without an answer.
    pub failed: u64,
}

impl CallCounts {
    /// Adds the counts of another.
    pub fn add(&mut self, other: &Self) {
        self.answered = self.answered.saturating_add(other.answered);
        self.failed = self.failed.saturating_add(other.failed);
    }
}

/// Background work of a step.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RoleResult {
    /// Its operation, as the workload names it.
    #[serde(rename = "part")]
    pub operation: String,
    /// The unit of operations.
    pub unit: String,
    /// Clients.
    pub clients: u32,
    /// Operations per call.
    pub batch: u32,
    /// Operations acknowledged after the warm-up.
    pub ops: u64,
    /// Failed calls by error.
    pub errors: BTreeMap<String, u64>,
    /// Throughput and how even it was.
    pub rate: RateSummary,
    /// The rate of the schedule, in operations per second.
    pub target_rate: Option<f64>,
    /// Share of the seconds in which at least 95 % of `target_rate` was reached, in percent.
    pub seconds_at_target_percent: Option<f64>,
    /// Whether at least 95 % of `target_rate` was reached on average.
    pub sla_met: Option<bool>,
    /// How long calls took.
    pub latency: LatencySummary,
    /// The work over time, in a bounded number of points.
    pub series: Vec<Point>,
    /// Calls that the target refused and asked the client to repeat later.
    #[serde(default)]
    pub refused_calls: u64,
    /// Operations that clients gave up after as many refusals as drivers accept.
    #[serde(default)]
    pub given_up: u64,
    /// How the calls of each operation ended.
    #[serde(default)]
    pub outcomes: BTreeMap<String, CallCounts>,
}

/// Operations per second.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RateSummary {
    /// All operations divided by all seconds.
    pub average: f64,
    /// Sum of the clients' rates, each over the client's own time, as older tools print it.
    pub sum_of_clients: f64,
    /// Number of intervals of the metrics below; a short last interval is left out.
    pub intervals: u64,
    /// Variance of the rate per interval.
    pub variance: f64,
    /// Standard deviation of the rate per interval.
    pub stddev: f64,
    /// Standard deviation divided by the mean.
    pub coefficient_of_variation: Option<f64>,
    /// Slowest interval.
    pub min: f64,
    /// Rate reached or exceeded in 99 % of the intervals (what the modern insert benchmark calls
    /// p99).
    pub met_in_99_percent: f64,
    /// Rate reached or exceeded in 95 % of the intervals.
    pub met_in_95_percent: f64,
    /// Median interval.
    pub median: f64,
    /// Fastest interval.
    pub max: f64,
    /// Change of the rate each time the number of operations doubles, in percent.
    pub slope_percent_per_doubling: Option<f64>,
    /// Distance between the upper and lower quartile of the intervals, divided by their median.
    #[serde(default)]
    pub quartiles_by_median: Option<f64>,
}

/// Times in which little or nothing was completed: intervals far below the median, and gaps
/// between completed calls.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Stalls {
    /// An interval below this share of the median is a stall.
    pub threshold_percent_of_median: f64,
    /// Seconds without any operation.
    pub seconds_without_ops: f64,
    /// Seconds below 10 % of the median.
    pub seconds_below_10_percent: f64,
    /// Seconds below 50 % of the median.
    pub seconds_below_50_percent: f64,
    /// Separate stalls.
    pub count: u64,
    /// The longest stall.
    pub longest_seconds: f64,
    /// The longest gap between two completed calls that is a stall.
    #[serde(default)]
    pub longest_gap_seconds: f64,
    /// The longest stalls, at most 100, in order of time.
    pub stretches: Vec<Period>,
}

/// A period of time within a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Period {
    /// Since the step began.
    pub start_s: f64,
    /// Length.
    pub seconds: f64,
}

/// When each client finished.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FinishSummary {
    /// Time from the first client's end to the last client's end.
    pub skew_seconds: f64,
    /// Sum of the clients' rates divided by the average rate; 1 if all finished together.
    pub skew_factor: Option<f64>,
    /// The longest time that a due call waited for earlier calls (open loop only).
    pub behind_schedule_seconds_max: f64,
}
