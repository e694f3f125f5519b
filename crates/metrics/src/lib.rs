//! Measuring instruments: latency histograms, interval rows, process, disk and host samplers.
//!
//! Promises: reads only `/proc` and `/sys`, never blocks on what it measures, and keeps a bounded
//! amount of memory.
//! Must not know: documents, commands, engines, sockets. The server fills `serverStatus` from here;
//! the lab fills its interval rows.

mod details;
mod directory;
mod disk;
mod host;
mod interval;
mod latency;
mod op_latency;
mod presence;
mod pressure;
mod process;
mod throttle;

pub use details::{MemoryParts, ThreadSampler, ThreadUse, open_descriptors};
pub use directory::{DirectorySize, directory_size};
pub use disk::{DiskSample, DiskSampler, DiskUse};
pub use host::{HostCpu, HostCpuUse, LoadAverage, Memory};
pub use interval::Interval;
pub use latency::{LatencyError, LatencyHistogram};
pub use op_latency::{BUCKETS, LatencyCounts, OpLatency, bucket_us};
pub use presence::{age, is_alive};
pub use pressure::{Paging, Pressure};
pub use process::{ProcessSample, ProcessSampler, ProcessUse, listening_process};
pub use throttle::ThrottleSampler;
