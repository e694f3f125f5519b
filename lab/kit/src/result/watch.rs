//! Observations during a step: deliveries of changes, and documents that expire.

use serde::{Deserialize, Serialize};

use super::latency::LatencySummary;

/// The events that readers of changes received.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FanOut {
    /// Readers, each with its own change stream.
    pub readers: u32,
    /// Clients that wrote.
    pub writers: u32,
    /// Events that all readers together received in the measured time.
    pub events: u64,
    /// Events per second of all readers together.
    pub events_per_second: f64,
    /// Events per second of the reader that received the fewest.
    pub reader_min_per_second: f64,
    /// Events per second of the reader that received the most.
    pub reader_max_per_second: f64,
    /// From sending the write to its event.
    pub lag: LatencySummary,
    /// From the end of the writes until every reader had every event; `None` if an event never
    /// arrived.
    pub drain_seconds: Option<f64>,
    /// CPU of the server per event, including the CPU of the writes.
    pub server_cpu_us_per_event: Option<f64>,
}

/// Documents that expired.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Expiry {
    /// Age at which documents expire.
    pub after_seconds: u32,
    /// Expiring documents that were stored.
    pub inserted: u64,
    /// Expiring documents that were gone when the writes ended.
    pub removed_meanwhile: u64,
    /// Removed documents per second until the writes ended.
    pub removed_per_second: f64,
    /// Number of samples of the oldest document.
    pub samples: u64,
    /// Median over the samples of the time by which the oldest document had outlived its age.
    pub lag_p50_s: f64,
    /// The 99th percentile of that time.
    pub lag_p99_s: f64,
    /// The longest such time.
    pub lag_max_s: f64,
    /// From the end of the writes until all expiring documents were gone; `None` if some never
    /// were.
    pub gone_after_s: Option<f64>,
    /// Operations per second of the measured step before, in which nothing expired.
    pub rate_without: Option<f64>,
    /// The rate of this step in percent of `rate_without`.
    pub rate_percent: Option<f64>,
}

/// Two queries that had to return the same results.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AgreementResult {
    /// A description.
    pub name: String,
    /// From the end of the work until the results were the same; `None` if they never were.
    pub after_s: Option<f64>,
}

/// Runs of the user's program during a step, one after the other.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ProgramRuns {
    /// Runs that ended by themselves with status 0.
    pub whole: u64,
    /// Runs that ended with another status.
    pub failed: u64,
    /// The mean duration of a run that ended with status 0.
    pub seconds_mean: Option<f64>,
    /// Whether the last run was stopped at the end of the step.
    pub was_ended: bool,
    /// CPU seconds of all runs.
    pub cpu_seconds: f64,
}
