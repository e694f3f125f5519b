//! The result of one step.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::generator::GeneratorResult;
use super::latency::LatencySummary;
use super::overload::Overload;
use super::replay::ReplayResult;
use super::resources::{CostSummary, DeviceSummary, HostSummary, Sizes, ThreadGroup};
use super::watch::{Agreed, Expiry, FanOut, ProgramRuns};
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
    /// Whether it is what the workload is about.
    pub measured: bool,
    /// What one operation is.
    pub unit: String,
    /// `closed`: the next call starts when the reply has come. `open`: on a schedule, latency from
    /// the time at which a call was due.
    pub pacing: String,
    /// Clients that took part.
    pub clients: u32,
    /// Operations per call.
    pub batch: u32,
    /// Seconds measured, warm-up left out.
    pub seconds: f64,
    /// Operations acknowledged in that time.
    pub ops: u64,
    /// Calls in that time with a latency: answered, given up or, in an open loop, due and never
    /// sent.
    pub calls: u64,
    /// Operations acknowledged in the warm-up.
    pub warmup_ops: u64,
    /// Failed calls by error, warm-up included.
    pub errors: BTreeMap<String, u64>,
    /// Throughput and how even it was.
    pub rate: RateSummary,
    /// When little or nothing happened.
    pub stalls: Stalls,
    /// How long calls took.
    pub latency: LatencySummary,
    /// What the server used per operation.
    pub server: Option<CostSummary>,
    /// What the lab used per operation.
    pub client: CostSummary,
    /// What the device did per operation.
    pub device: Option<DeviceSummary>,
    /// The machine.
    pub host: HostSummary,
    /// How evenly clients finished.
    pub finish: FinishSummary,
    /// What is stored afterwards.
    pub sizes: Sizes,
    /// Bounded in number however long the step was: neighbours are merged.
    pub series: Vec<Point>,
    /// What is known beyond that.
    #[serde(default)]
    pub more: StepMore,
}

/// What was added to a step since the first version; all of it may be absent.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StepMore {
    /// Background roles: clients that worked while the step was measured.
    #[serde(rename = "beside")]
    pub background: Vec<RoleResult>,
    /// Open loop only: latency from sending, where `latency` counts from the time at which a call
    /// was due.
    pub service: Option<LatencySummary>,
    /// Open loop only: by how much the lab itself sent calls too late. It is not in `latency`.
    pub lateness: Option<LatencySummary>,
    /// Open loop only: calls that were due and never sent. Those that waited for calls before
    /// them are in `latency` with the time until the end.
    pub unsent_calls: u64,
    /// Open loop only: those of them that waited for no call but for the lab itself. They are in no
    /// latency.
    pub unsent_by_lab: u64,
    /// Mixes only: latency of each operation.
    #[serde(rename = "by_part")]
    pub by_operation: BTreeMap<String, LatencySummary>,
    /// How the calls of each operation ended, the warm-up included.
    pub outcomes: BTreeMap<String, CallCounts>,
    /// Seconds in which the lab itself stood still. In a closed loop they are not in `seconds`, in
    /// none of the latencies and no stall of the target.
    pub lab_stood_still_seconds: f64,
    /// Calls that were under way then: how long the target took is not known.
    pub disturbed_calls: u64,
    /// Documents or entries that reads returned, and per second.
    pub rows_returned: u64,
    /// The same per second.
    pub rows_per_second: f64,
    /// Bytes of documents that were written in the measured time, without any overhead of the
    /// target.
    pub user_bytes: u64,
    /// Bytes that the server sent towards storage, by those.
    pub write_amplification: Option<f64>,
    /// Bytes that the device wrote, by those.
    pub device_write_amplification: Option<f64>,
    /// Threads of the server (or of the lab, for an engine inside it) by their names: what each
    /// group used.
    pub threads: Vec<ThreadGroup>,
    /// Pages of 4 KiB fetched from storage by threads that serve clients, by operation; the rest is
    /// the engine's own work.
    pub foreground_reads_per_op: Option<f64>,
    /// KB fetched from storage by all other threads, by operation.
    pub background_read_kb_per_op: Option<f64>,
    /// Bytes that wait for a flush or compaction at the end, where the engine says so.
    pub debt_bytes: Option<u64>,
    /// How long the settle step that followed took to come to rest; none if none followed or it was
    /// given up.
    pub quiesce_seconds: Option<f64>,
    /// `write_amplification` with what the settle step that followed wrote, shared by user bytes
    /// among the steps before it.
    pub settled_write_amplification: Option<f64>,
    /// The same of the device.
    pub settled_device_write_amplification: Option<f64>,
    /// CPU of the lab for drawing a call, encoding and recording it, by operation, measured without
    /// a target before the step.
    pub lab_cpu_us_per_op: Option<f64>,
    /// The seed of each client's stream.
    pub seeds: Vec<u64>,
    /// Whether reads of a step with writers beside count: each writer reached 95 % of its rate.
    pub sla_met: Option<bool>,
    /// What the target said at the end.
    pub statistics: serde_json::Value,
    /// Calls that the target refused with a wish to come back later: neither errors nor in the
    /// latency.
    pub refused_calls: u64,
    /// Operations that were given up after as many refusals as drivers take.
    pub given_up: u64,
    /// What an overload did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overload: Option<Overload>,
    /// What readers of changes were given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fan_out: Option<FanOut>,
    /// What the target removed by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expiry: Option<Expiry>,
    /// What was found of the exact neighbours of vectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recall: Option<Recall>,
    /// Questions that were to have the same answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub agreed: Vec<Agreed>,
    /// Runs of the user's program beside the work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<ProgramRuns>,
    /// The machines that made the load, if it was not the lab's own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub generators: Vec<GeneratorResult>,
    /// In words, for steps that are done once.
    pub remark: String,
    /// Replays only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay: Option<ReplayResult>,
    /// Seconds from the end of the old process until the new one answered; restarts only.
    pub start_seconds: Option<f64>,
}

/// How the calls of an operation ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallCounts {
    /// With success.
    pub answered: u64,
    /// With an error, or without an answer.
    pub failed: u64,
}

impl CallCounts {
    /// Both together.
    pub fn add(&mut self, other: &Self) {
        self.answered = self.answered.saturating_add(other.answered);
        self.failed = self.failed.saturating_add(other.failed);
    }
}

/// Work beside the measured one.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RoleResult {
    /// Its operation, as the workload names it.
    #[serde(rename = "part")]
    pub operation: String,
    /// What one operation is.
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
    /// Operations per second asked for.
    pub target_rate: Option<f64>,
    /// Share of the seconds in which at least 95 % of it was reached, in percent.
    pub seconds_at_target_percent: Option<f64>,
    /// Whether at least 95 % of it was reached on average.
    pub sla_met: Option<bool>,
    /// How long calls took.
    pub latency: LatencySummary,
    /// Bounded in number.
    pub series: Vec<Point>,
    /// Calls that the target refused with a wish to come back later.
    #[serde(default)]
    pub refused_calls: u64,
    /// Operations that were given up after as many refusals as drivers take.
    #[serde(default)]
    pub given_up: u64,
    /// How the calls of each operation ended.
    #[serde(default)]
    pub outcomes: BTreeMap<String, CallCounts>,
}

/// Operations per second.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RateSummary {
    /// All operations by all seconds.
    pub average: f64,
    /// Sum of each client's own rate over its own time, as older tools print it.
    pub sum_of_clients: f64,
    /// Intervals behind the metrics below; a last, short one is left out.
    pub intervals: u64,
    /// Variance of the rate per interval.
    pub variance: f64,
    /// Standard deviation of the rate per interval.
    pub stddev: f64,
    /// Standard deviation by mean.
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
    /// Distance between the upper and lower quartile of the intervals, by their median.
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
    /// The longest ones, in order of time, at most 100.
    pub stretches: Vec<Stretch>,
}

/// A stretch of time within a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stretch {
    /// Since the step began.
    pub start_s: f64,
    /// Length.
    pub seconds: f64,
}

/// When each client finished.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FinishSummary {
    /// Last finish less first finish.
    pub skew_seconds: f64,
    /// Sum of client rates by average rate; 1 when all finished together.
    pub skew_factor: Option<f64>,
    /// Longest time that a call, when it was due, had to wait for calls before it (open loop only).
    pub behind_schedule_seconds_max: f64,
}
