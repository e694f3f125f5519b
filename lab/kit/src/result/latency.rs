//! Latency of calls, summarised from a histogram.

use serde::{Deserialize, Serialize};

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
    /// Mean of the latencies truncated to whole milliseconds, as in logs that count milliseconds;
    /// from the histogram.
    #[serde(default)]
    pub mean_cut_to_ms_us: Option<f64>,
    /// Share of calls, in percent, in each bucket of [`BUCKET_BOUNDS_US`]; the last bucket has no
    /// upper bound.
    pub bucket_percent: Vec<f64>,
    /// The histogram: HdrHistogram V2 compressed, base64, nanoseconds.
    pub hdr: String,
}

impl LatencySummary {
    /// A percentile in microseconds, if the summary holds it.
    pub fn percentile(&self, wanted: f64) -> Option<f64> {
        let known = self.percentiles_us.iter();
        known
            .filter(|(percentile, _)| *percentile == wanted)
            .map(|(_, us)| *us)
            .next()
    }
}

/// Upper bounds of the response time buckets: 256 µs, then each four times the one before, to 16 s.
pub const BUCKET_BOUNDS_US: [u64; 9] = [
    256, 1_000, 4_000, 16_000, 64_000, 256_000, 1_000_000, 4_000_000, 16_000_000,
];

/// Percentiles of the table.
pub const PERCENTILES: [f64; 9] = [1.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9];

/// Higher percentiles, printed if there were enough calls.
pub const PERCENTILES_FAR: [f64; 2] = [99.99, 99.999];
