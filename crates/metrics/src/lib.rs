//! Measuring instruments: latency histograms, interval rows, process, disk and host samplers.
//!
//! Promises: reads only `/proc` and `/sys`, never blocks on what it measures, and keeps a bounded amount of memory.
//! Must not know: documents, commands, engines, sockets. The server fills `serverStatus` from here; the lab fills its interval rows.

mod disk;
mod host;
mod interval;
mod latency;
mod presence;
mod process;

pub use disk::{DiskSample, DiskSampler, DiskUse, directory_bytes};
pub use host::{HostCpu, HostCpuUse, LoadAverage, Memory};
pub use interval::Interval;
pub use latency::{LatencyError, LatencyHistogram};
pub use presence::{age, is_alive, open_files};
pub use process::{ProcessSample, ProcessSampler, ProcessUse, listening_process};
