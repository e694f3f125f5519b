//! What was seen beside a step: deliveries of changes, and documents that expire.

use serde::{Deserialize, Serialize};

use super::latency::LatencySummary;

/// What readers of changes were given.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FanOut {
    /// Readers, each with a change stream of its own.
    pub readers: u32,
    /// Clients that wrote.
    pub writers: u32,
    /// Events that all readers were given in the measured time.
    pub events: u64,
    /// The same a second.
    pub events_per_second: f64,
    /// A second, of the reader that was given the fewest.
    pub reader_min_per_second: f64,
    /// A second, of the reader that was given the most.
    pub reader_max_per_second: f64,
    /// From sending the write to its event.
    pub lag: LatencySummary,
    /// From the end of the writes until every reader had every event; none if one never had.
    pub drain_seconds: Option<f64>,
    /// CPU of the server by event, that of the writes included.
    pub server_cpu_us_per_event: Option<f64>,
}

/// What the target removed by itself.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Expiry {
    /// Age at which documents may go.
    pub after_seconds: u32,
    /// Documents stored that expire.
    pub inserted: u64,
    /// Those of them that were gone when the writes ended.
    pub removed_meanwhile: u64,
    /// A second, of that.
    pub removed_per_second: f64,
    /// Times at which the target was asked for its oldest document.
    pub samples: u64,
    /// By how much that document was past its time: the median of these.
    pub lag_p50_s: f64,
    /// The 99th percentile.
    pub lag_p99_s: f64,
    /// The most.
    pub lag_max_s: f64,
    /// From the end of the writes until all were gone; none if some never were.
    pub gone_after_s: Option<f64>,
    /// Operations a second of the measured step before, which nothing expired beside.
    pub rate_without: Option<f64>,
    /// The rate of this step by that, in percent.
    pub rate_percent: Option<f64>,
}

/// Two questions that were to have the same answer.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Agreed {
    /// In words.
    pub name: String,
    /// From the end of the work until they had; none if they never had.
    pub after_s: Option<f64>,
}

/// Runs of the user's program beside the work of a step, one after the other.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ProgramRuns {
    /// Those that ended by themselves with status 0.
    pub whole: u64,
    /// Those that ended with another status.
    pub failed: u64,
    /// The mean time of a whole one.
    pub seconds_mean: Option<f64>,
    /// Whether the last one was told to end with the step.
    pub was_ended: bool,
    /// CPU seconds of all of them.
    pub cpu_seconds: f64,
}
