//! The result of a run as it is stored: `result.json`. docs/lab.md describes every field.
//!
//! Promises: [`VERSION`] grows whenever a field changes its meaning or goes away; new fields may
//! appear without that. Ratios are absent (null) where their divisor is zero or their source could
//! not be seen; never a made-up zero.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::environment::Environment;
use crate::series::Point;
use crate::warnings::Warning;
use crate::workload::{Part, Settings};

/// What `schema` says in every file.
pub const SCHEMA: &str = "quarry-lab/result";
/// The version of the schema written here.
pub const VERSION: u32 = 1;

/// A whole run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunResult {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// [`VERSION`] of the program that wrote it.
    pub version: u32,
    /// Which run this is.
    pub run: RunFacts,
    /// What was measured against.
    pub target: TargetFacts,
    /// How large and how many.
    pub settings: Settings,
    /// In words, what differs from the `paper` preset.
    pub changed_from_paper: Vec<String>,
    /// On what machine.
    pub environment: Environment,
    /// What a reader should know before trusting the numbers.
    pub warnings: Vec<Warning>,
    /// What was done, in order.
    pub steps: Vec<StepResult>,
    /// Whether the work was done right.
    pub checks: Vec<Check>,
    /// Steps left out because the target lacks something.
    #[serde(default)]
    pub skipped: Vec<Skipped>,
    /// The limit that the run put on memory.
    #[serde(default)]
    pub memory_limit: Option<MemoryLimit>,
}

/// A step that was left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Its name.
    pub step: String,
    /// What the target lacks, or what else kept it from running.
    pub because: String,
}

/// How memory was limited.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryLimit {
    /// For the target and its page cache.
    pub bytes: u64,
    /// `cgroup v2`, `cgroup v1` or `balloon`.
    pub how: String,
    /// What the reader should know about it.
    pub remark: String,
    /// Most that the control group held at once, page cache included, where it says.
    #[serde(default)]
    pub bytes_max: Option<u64>,
    /// Page cache that the control group was charged for at the end, where it says.
    #[serde(default)]
    pub cache_bytes: Option<u64>,
}

/// Name, time and fate of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RunFacts {
    /// Also the name of its folder.
    pub id: String,
    /// Workload name.
    pub workload: String,
    /// Workload heading.
    pub title: String,
    /// What the workload does.
    pub about: String,
    /// Where the workload comes from.
    pub source: String,
    /// The command line, password removed.
    pub command_line: String,
    /// Version of the lab.
    pub lab_version: String,
    /// Base seed.
    pub seed: u64,
    /// RFC 3339 with offset.
    pub started_at: String,
    /// RFC 3339 with offset.
    pub finished_at: String,
    /// Whether every step ran to its end.
    pub complete: bool,
    /// Why not.
    pub stopped_because: Option<String>,
    /// When an interrupted run was taken up again, each time.
    #[serde(default)]
    pub resumed_at: Vec<String>,
    /// What tells it from other runs with the same settings, as its user says.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// The server.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TargetFacts {
    /// Connection string, password removed.
    pub uri: String,
    /// What it calls itself.
    pub product: String,
    /// Version of the protocol level it claims.
    pub version: String,
    /// Storage engine, when it says so.
    pub storage_engine: Option<String>,
    /// Process number, when it runs on this machine.
    pub pid: Option<u32>,
    /// Why its process is not watched, if so.
    pub not_watched_because: Option<String>,
    /// Data directory, when known.
    pub data_directory: Option<String>,
    /// Block device of the data directory, when known.
    pub device: Option<String>,
    /// Write concern in words.
    pub write_concern: String,
    /// Raw `buildInfo`.
    pub build_info: serde_json::Value,
}

impl TargetFacts {
    /// Product and version; a product with a version of its own claims the protocol level of
    /// another.
    pub fn name(&self) -> String {
        if self.version.contains(' ') {
            format!("{}, {}", self.product, self.version)
        } else if self.product.contains(' ') {
            format!("{} (speaking {})", self.product, self.version)
        } else {
            format!("{} {}", self.product, self.version)
        }
    }
}

/// One step.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StepResult {
    /// Its name.
    pub name: String,
    /// The work it did.
    pub part: Part,
    /// Whether it is what the workload is about.
    pub measured: bool,
    /// What one operation is.
    pub unit: String,
    /// `closed`: the next call starts when the reply has come. `open`: on a schedule, latency from
    /// the intended start.
    pub pacing: String,
    /// Clients that took part.
    pub clients: u32,
    /// Operations per call.
    pub batch: u32,
    /// Seconds measured, warm-up left out.
    pub seconds: f64,
    /// Operations acknowledged in that time.
    pub ops: u64,
    /// Calls made in that time.
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
    /// Work that went on beside the measured one.
    pub beside: Vec<RoleResult>,
    /// Open loop only: latency from sending, beside `latency` from the intended start.
    pub service: Option<LatencySummary>,
    /// Mixes only: latency of each part.
    pub by_part: BTreeMap<String, LatencySummary>,
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
    /// In words, for steps that are done once.
    pub remark: String,
    /// Replays only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay: Option<crate::replay::ReplayResult>,
    /// Seconds from the end of the old process until the new one answered; restarts only.
    pub start_seconds: Option<f64>,
}

/// Threads of one name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ThreadGroup {
    /// Their name without a number at its end.
    pub name: String,
    /// How many there were at the end.
    pub threads: u64,
    /// Whether they serve clients.
    pub is_foreground: bool,
    /// CPU seconds.
    pub cpu_s: f64,
    /// Bytes fetched from storage.
    pub read_bytes: u64,
    /// Bytes sent towards storage.
    pub write_bytes: u64,
    /// Context switches because a thread waited.
    pub switches_voluntary: u64,
    /// Context switches because a time slice ended.
    pub switches_involuntary: u64,
    /// Page faults that waited for storage.
    pub faults_major: u64,
}

/// Work beside the measured one.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RoleResult {
    /// Its part, as the workload names it.
    pub part: String,
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
}

/// Operations per second.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RateSummary {
    /// All operations by all seconds.
    pub average: f64,
    /// Sum of each client's own rate over its own time, as older tools print it.
    pub sum_of_clients: f64,
    /// Intervals behind the figures below; a last, short one is left out.
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

/// Intervals far below the median.
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

/// Latency of calls.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LatencySummary {
    /// Calls measured.
    pub calls: u64,
    /// Mean.
    pub mean_us: f64,
    /// Percentile (as text, such as `99.9`) to microseconds.
    pub percentiles_us: Vec<(f64, f64)>,
    /// The longest.
    pub max_us: f64,
    /// Mean of the latencies cut to whole milliseconds, as logs that count milliseconds give it;
    /// from the histogram.
    #[serde(default)]
    pub mean_cut_to_ms_us: Option<f64>,
    /// Share of calls, in percent, up to each bound of [`BUCKET_BOUNDS_US`] and not below; the last
    /// share has no bound.
    pub bucket_percent: Vec<f64>,
    /// The histogram: HdrHistogram V2 compressed, base64, nanoseconds.
    pub hdr: String,
}

/// Upper bounds of the response time buckets: 256 µs, then four times more each, to 16 s.
pub const BUCKET_BOUNDS_US: [u64; 9] = [
    256, 1_000, 4_000, 16_000, 64_000, 256_000, 1_000_000, 4_000_000, 16_000_000,
];

/// Percentiles of the table.
pub const PERCENTILES: [f64; 9] = [1.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9];
/// Percentiles further out, printed where enough calls were made to know them.
pub const PERCENTILES_FAR: [f64; 2] = [99.99, 99.999];

/// What a process used.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CostSummary {
    /// CPU cores busy on average.
    pub cpu_cores: f64,
    /// CPU microseconds per operation.
    pub cpu_us_per_op: Option<f64>,
    /// Share of that spent in the kernel, in percent.
    pub cpu_system_percent: Option<f64>,
    /// Context switches per operation, waiting and preempted.
    pub switches_per_op: Option<f64>,
    /// Voluntary context switches per operation.
    pub switches_voluntary_per_op: Option<f64>,
    /// KB fetched from storage per operation.
    pub read_kb_per_op: Option<f64>,
    /// KB sent towards storage per operation (dirtied pages, not device writes).
    pub write_kb_per_op: Option<f64>,
    /// Read system calls per operation.
    pub read_calls_per_op: Option<f64>,
    /// Write system calls per operation.
    pub write_calls_per_op: Option<f64>,
    /// Highest resident memory seen.
    pub rss_bytes_max: u64,
    /// Resident memory at the end.
    #[serde(default)]
    pub rss_bytes_end: u64,
    /// Page faults that did without storage, per operation.
    #[serde(default)]
    pub faults_minor_per_op: Option<f64>,
    /// Page faults that waited for storage, per operation: reads of an engine that maps its files.
    #[serde(default)]
    pub faults_major_per_op: Option<f64>,
    /// Most threads seen.
    #[serde(default)]
    pub threads_max: u64,
    /// Most descriptors seen open, sockets included.
    #[serde(default)]
    pub open_files_max: Option<u64>,
    /// Memory at the end, pages shared with others counted in part.
    #[serde(default)]
    pub pss_bytes: Option<u64>,
    /// Of that, without a file behind it: caches, buffers.
    #[serde(default)]
    pub anonymous_bytes: Option<u64>,
    /// Of that, pages of mapped files.
    #[serde(default)]
    pub file_bytes: Option<u64>,
    /// Time in which its control group had no CPU quota left, in percent of the step, over all its
    /// CPUs.
    #[serde(default)]
    pub throttled_percent: Option<f64>,
}

/// What a block device did.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DeviceSummary {
    /// Kernel name.
    pub name: String,
    /// Read requests per operation.
    pub reads_per_op: Option<f64>,
    /// KB read per operation.
    pub read_kb_per_op: Option<f64>,
    /// Write requests per operation.
    pub writes_per_op: Option<f64>,
    /// KB written per operation.
    pub write_kb_per_op: Option<f64>,
    /// Cache flushes per operation.
    #[serde(default)]
    pub flushes_per_op: Option<f64>,
    /// Mean time of a read request, queueing included.
    #[serde(default)]
    pub read_await_ms: Option<f64>,
    /// Mean time of a write request, queueing included.
    #[serde(default)]
    pub write_await_ms: Option<f64>,
    /// Mean number of requests under way.
    #[serde(default)]
    pub queue_depth: Option<f64>,
    /// Share of the time with a request under way.
    #[serde(default)]
    pub busy_percent: Option<f64>,
    /// Mean KB of a read request.
    #[serde(default)]
    pub read_size_kb: Option<f64>,
    /// Mean KB of a write request.
    #[serde(default)]
    pub write_size_kb: Option<f64>,
}

/// The machine's CPU during the step.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct HostSummary {
    /// Busy, percent of all CPUs.
    pub busy_percent: f64,
    /// Given to others by a hypervisor, percent.
    pub steal_percent: f64,
    /// Idle with storage requests under way, percent.
    pub io_wait_percent: f64,
    /// CPU of the whole machine per operation, in the old form: busy percent by operations per
    /// second, times a million.
    pub busy_percent_per_op_millionths: Option<f64>,
    /// Share of the time in which tasks waited for CPU, storage or memory; none where the kernel
    /// does not count it.
    #[serde(default)]
    pub pressure: Option<PressureSummary>,
    /// KB that came from storage into the page cache, per operation.
    #[serde(default)]
    pub page_in_kb_per_op: Option<f64>,
    /// KB that went from memory to storage, per operation.
    #[serde(default)]
    pub page_out_kb_per_op: Option<f64>,
    /// Page faults of the machine that waited for storage, per operation.
    #[serde(default)]
    pub faults_major_per_op: Option<f64>,
}

/// Waiting tasks of the machine, in percent of the time: `some` at least one, `full` all that were
/// not idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PressureSummary {
    /// For a CPU.
    pub cpu_some_percent: f64,
    /// For a CPU; above zero only within control groups.
    pub cpu_full_percent: f64,
    /// For storage.
    pub io_some_percent: f64,
    /// For storage.
    pub io_full_percent: f64,
    /// For memory.
    pub memory_some_percent: f64,
    /// For memory.
    pub memory_full_percent: f64,
}

/// When each client finished.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FinishSummary {
    /// Last finish less first finish.
    pub skew_seconds: f64,
    /// Sum of client rates by average rate; 1 when all finished together.
    pub skew_factor: Option<f64>,
    /// Longest time by which a call started behind its schedule (open loop only).
    pub behind_schedule_seconds_max: f64,
}

/// What the collections hold after a step, as the server says.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Sizes {
    /// Documents.
    pub documents: Option<u64>,
    /// Sum of BSON sizes.
    pub data_bytes: Option<u64>,
    /// Bytes of records on storage.
    pub storage_bytes: Option<u64>,
    /// Bytes of indexes on storage.
    pub index_bytes: Option<u64>,
    /// Blocks that the data directory takes, when it can be seen.
    pub directory_bytes: Option<u64>,
    /// Records and indexes by documents.
    pub bytes_per_document: Option<f64>,
    /// Sum of the lengths of its files.
    #[serde(default)]
    pub directory_apparent_bytes: Option<u64>,
    /// The most blocks that it took, looked at every ten seconds and at the end.
    #[serde(default)]
    pub directory_bytes_max: Option<u64>,
    /// Files in it.
    #[serde(default)]
    pub directory_files: Option<u64>,
    /// Blocks of its logs and journals, as far as names tell.
    #[serde(default)]
    pub directory_log_bytes: Option<u64>,
    /// Blocks of files that hold indexes only, as far as names tell.
    #[serde(default)]
    pub directory_index_bytes: Option<u64>,
    /// Blocks of files that hold large values only, as far as names tell.
    #[serde(default)]
    pub directory_blob_bytes: Option<u64>,
    /// Bytes of the documents that are there: `data_bytes`, or else their number times the size of
    /// an average one.
    #[serde(default)]
    pub live_bytes: Option<u64>,
    /// The directory by those.
    #[serde(default)]
    pub space_amplification: Option<f64>,
}

/// A test that the work was done right: fast means right.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// What was compared.
    pub name: String,
    /// What the lab knows.
    pub expected: String,
    /// What the server says.
    pub found: String,
    /// Whether they agree; none if it could not be found out.
    pub passed: Option<bool>,
    /// Why not, or what else matters.
    pub remark: String,
}

impl RunResult {
    /// The step that the workload is about, or else the last one.
    pub fn main_step(&self) -> Option<&StepResult> {
        self.steps
            .iter()
            .find(|step| step.measured)
            .or_else(|| self.steps.last())
    }
}
