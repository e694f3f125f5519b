//! Resources that processes, the device and the machine used during a step, and the sizes of the
//! stored data.

use serde::{Deserialize, Serialize};

/// Threads with the same name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ThreadGroup {
    /// The name without a number at its end.
    pub name: String,
    /// The number of these threads at the end.
    pub threads: u64,
    /// Whether these threads serve clients.
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

/// Resources that a process used.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CostSummary {
    /// CPU cores busy on average.
    pub cpu_cores: f64,
    /// CPU microseconds per operation.
    pub cpu_us_per_op: Option<f64>,
    /// The possible error of that value, up or down: the system counts in ticks of 10 ms.
    #[serde(default)]
    pub cpu_us_per_op_error: Option<f64>,
    /// Share of the CPU time spent in the kernel, in percent.
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
    /// Page faults without a read from storage, per operation.
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
    /// Proportional set size at the end: shared pages count in part.
    #[serde(default)]
    pub pss_bytes: Option<u64>,
    /// The part of `pss_bytes` without a file behind it: caches, buffers.
    #[serde(default)]
    pub anonymous_bytes: Option<u64>,
    /// The part of `pss_bytes` in mapped files.
    #[serde(default)]
    pub file_bytes: Option<u64>,
    /// Time in which the process's control group had no CPU quota left, in percent of the step,
    /// over all its CPUs.
    #[serde(default)]
    pub throttled_percent: Option<f64>,
}

/// The requests of a block device.
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
    /// Taken by the hypervisor for other guests, percent.
    pub steal_percent: f64,
    /// Idle with storage requests under way, percent.
    pub io_wait_percent: f64,
    /// CPU of the whole machine per operation, as older tools print it: busy percent divided by
    /// operations per second, times a million.
    pub busy_percent_per_op_millionths: Option<f64>,
    /// Share of the time in which tasks waited for CPU, storage or memory; `None` if the kernel
    /// does not count it.
    #[serde(default)]
    pub pressure: Option<PressureSummary>,
    /// KB read from storage into the page cache, per operation.
    #[serde(default)]
    pub page_in_kb_per_op: Option<f64>,
    /// KB written from memory to storage, per operation.
    #[serde(default)]
    pub page_out_kb_per_op: Option<f64>,
    /// Page faults of the machine that waited for storage, per operation.
    #[serde(default)]
    pub faults_major_per_op: Option<f64>,
}

/// Pressure stall information of the machine, in percent of the time: with `some` at least one task
/// waited, with `full` all tasks that were not idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PressureSummary {
    /// For a CPU.
    pub cpu_some_percent: f64,
    /// For a CPU; it is above zero only within control groups.
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

/// The sizes of the collections after a step, as the server reports them.
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
    /// Bytes of the blocks that the data directory occupies, if it can be observed.
    pub directory_bytes: Option<u64>,
    /// Bytes of records and indexes, divided by the number of documents.
    pub bytes_per_document: Option<f64>,
    /// Sum of the lengths of the directory's files.
    #[serde(default)]
    pub directory_apparent_bytes: Option<u64>,
    /// The largest value of `directory_bytes`, sampled every ten seconds and at the end.
    #[serde(default)]
    pub directory_bytes_max: Option<u64>,
    /// Files in the directory.
    #[serde(default)]
    pub directory_files: Option<u64>,
    /// Bytes of the blocks of logs and journals, recognised by their names.
    #[serde(default)]
    pub directory_log_bytes: Option<u64>,
    /// Bytes of the blocks of files that contain only indexes, recognised by their names.
    #[serde(default)]
    pub directory_index_bytes: Option<u64>,
    /// Bytes of the blocks of files that contain only large values, recognised by their names.
    #[serde(default)]
    pub directory_blob_bytes: Option<u64>,
    /// Bytes of the live documents: `data_bytes` or, if unknown, their number times their average
    /// size.
    #[serde(default)]
    pub live_bytes: Option<u64>,
    /// Bytes of the directory, divided by `live_bytes`.
    #[serde(default)]
    pub space_amplification: Option<f64>,
}
