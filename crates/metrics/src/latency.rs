//! Latency histograms: constant memory, three significant digits, mergeable, exportable.
//!
//! Values are kept in nanoseconds: exact up to two microseconds, with three significant digits
//! above, up to one hour. Longer ones are recorded as one hour and counted separately, so that
//! nothing is lost silently. The export is the HdrHistogram V2 compressed form in base64, which
//! other tools can read.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};

/// Longest latency that is distinguished: one hour.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;
/// Lowest latency: reads inside a process take less than a microsecond.
const LATENCY_NS_MIN: u64 = 1;

/// Why a stored histogram could not be read.
#[derive(Debug, thiserror::Error)]
pub enum LatencyError {
    /// The text is not base64.
    #[error("histogram is not base64 text: {0}")]
    Base64(String),
    /// The bytes are not a histogram.
    #[error("histogram bytes cannot be read: {0}")]
    Format(String),
}

/// A histogram of latencies.
#[derive(Clone, Debug)]
pub struct LatencyHistogram {
    histogram: Histogram<u64>,
    clamped: u64,
    max_ns: u64,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self::new()
    }
}

impl LatencyHistogram {
    /// An empty histogram.
    ///
    /// # Cost
    /// About 280 KB, allocated once and kept.
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(LATENCY_NS_MIN, LATENCY_NS_MAX, 3)
            .unwrap_or_else(|_| unreachable!("constant bounds are valid"));
        Self {
            histogram,
            clamped: 0,
            max_ns: 0,
        }
    }

    /// Counts one latency.
    pub fn record(&mut self, latency: Duration) {
        let ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.max_ns = self.max_ns.max(ns);
        if ns > LATENCY_NS_MAX {
            self.clamped += 1;
        }
        self.histogram.saturating_record(ns);
    }

    /// Adds every value of `other`.
    pub fn merge(&mut self, other: &Self) {
        // Both histograms have the same constant bounds; one read from a file was converted to
        // them.
        let _ = self.histogram.add(&other.histogram);
        self.clamped += other.clamped;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// The values in nanoseconds and their counts, within the resolution of a bucket. With
    /// [`Self::max_ns`] and [`Self::clamped_count`] this is everything known.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        let recorded = self.histogram.iter_recorded();
        recorded.map(|step| (step.value_iterated_to(), step.count_at_value()))
    }

    /// The exact longest latency in nanoseconds, 0 when empty.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// Restores a histogram from the results of [`Self::buckets`], [`Self::max_ns`] and
    /// [`Self::clamped_count`]: counts and percentiles are equal. All counts must fit into 64 bits.
    pub fn of_buckets(
        buckets: impl IntoIterator<Item = (u64, u64)>,
        max_ns: u64,
        clamped: u64,
    ) -> Self {
        let mut out = Self::new();
        for (ns, count) in buckets {
            out.histogram.saturating_record_n(ns, count);
        }
        (out.max_ns, out.clamped) = (max_ns, clamped);
        out
    }

    /// Removes every value and keeps the memory.
    pub fn clear(&mut self) {
        self.histogram.reset();
        self.clamped = 0;
        self.max_ns = 0;
    }

    /// How many values were recorded.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// How many values were longer than one hour.
    pub fn clamped_count(&self) -> u64 {
        self.clamped
    }

    /// Mean in microseconds, 0 when empty.
    pub fn mean_us(&self) -> f64 {
        if self.count() == 0 {
            0.0
        } else {
            self.histogram.mean() / 1_000.0
        }
    }

    /// Mean in microseconds of the latencies truncated to whole milliseconds, as from a log that
    /// counts milliseconds; 0 when empty. Within the resolution of a bucket.
    pub fn mean_cut_to_ms_us(&self) -> f64 {
        if self.count() == 0 {
            return 0.0;
        }
        let sum: f64 = self
            .histogram
            .iter_recorded()
            .map(|value| {
                (value.value_iterated_to() / 1_000_000) as f64
                    * value.count_since_last_iteration() as f64
            })
            .sum();
        sum * 1_000.0 / self.count() as f64
    }

    /// The exact longest latency in microseconds (not a bucket bound), 0 when empty.
    pub fn max_us(&self) -> f64 {
        self.max_ns as f64 / 1_000.0
    }

    /// The latency that `percentile` percent of the values do not exceed, in microseconds; 0 when
    /// empty.
    pub fn percentile_us(&self, percentile: f64) -> f64 {
        if self.count() == 0 {
            return 0.0;
        }
        let bucket = self
            .histogram
            .value_at_quantile(percentile.clamp(0.0, 100.0) / 100.0);
        // A bucket's upper bound may be above every recorded value.
        bucket.min(self.max_ns) as f64 / 1_000.0
    }

    /// How many values are at most `limit`, within the resolution of a bucket.
    pub fn count_at_most(&self, limit: Duration) -> u64 {
        let ns = u64::try_from(limit.as_nanos())
            .unwrap_or(u64::MAX)
            .min(LATENCY_NS_MAX);
        if self.count() == 0 {
            return 0;
        }
        self.histogram.count_between(0, ns)
    }

    /// The HdrHistogram V2 compressed form in base64; units are nanoseconds.
    ///
    /// # Cost
    /// Proportional to the number of distinct values, typically under 2 KB.
    pub fn to_base64(&self) -> String {
        let mut bytes = Vec::new();
        // Writing to a vector cannot fail, and the counts fit by construction.
        if V2DeflateSerializer::new()
            .serialize(&self.histogram, &mut bytes)
            .is_err()
        {
            return String::new();
        }
        BASE64.encode(&bytes)
    }

    /// Reads back what [`Self::to_base64`] wrote.
    ///
    /// # Errors
    /// [`LatencyError`] when the text is not such a histogram.
    pub fn from_base64(text: &str) -> Result<Self, LatencyError> {
        let bytes = BASE64
            .decode(text)
            .map_err(|error| LatencyError::Base64(error.to_string()))?;
        let stored: Histogram<u64> = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|error| LatencyError::Format(format!("{error:?}")))?;
        let mut out = Self::new();
        for step in stored.iter_recorded() {
            out.histogram
                .saturating_record_n(step.value_iterated_to(), step.count_at_value());
        }
        out.max_ns = if stored.is_empty() { 0 } else { stored.max() };
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_in_whole_milliseconds_loses_what_is_below() {
        let mut latency = LatencyHistogram::new();
        assert_eq!(latency.mean_cut_to_ms_us(), 0.0);
        for us in [300, 900, 1_500, 7_250] {
            latency.record(Duration::from_micros(us));
        }
        // 0, 0, 1 and 7 ms.
        assert_eq!(latency.mean_cut_to_ms_us(), 2_000.0);
        assert!(
            (latency.mean_us() - 2_487.5).abs() < 5.0,
            "{}",
            latency.mean_us()
        );
    }

    #[test]
    fn latencies_below_ten_microseconds_are_distinguished() {
        for ns in [100, 101, 640, 2_300, 2_310, 9_870] {
            let mut histogram = LatencyHistogram::new();
            histogram.record(Duration::from_nanos(ns));
            // Without truncation to the longest value, the bucket's bound would be returned.
            histogram.record(Duration::from_micros(50));
            let found = histogram.percentile_us(50.0) * 1_000.0;
            let off = (found - ns as f64).abs() / ns as f64;
            assert!(off <= 0.001, "{ns} ns reads as {found} ns");
        }
    }

    #[test]
    fn percentiles_of_a_known_ramp() {
        let mut histogram = LatencyHistogram::new();
        for us in 1..=10_000_u64 {
            histogram.record(Duration::from_micros(us));
        }
        for (percentile, expected) in [(50.0, 5_000.0), (99.0, 9_900.0), (100.0, 10_000.0)] {
            let seen = histogram.percentile_us(percentile);
            assert!(
                (seen - expected).abs() / expected < 0.002,
                "p{percentile}: {seen}, not {expected}"
            );
        }
        assert_eq!(histogram.max_us(), 10_000.0);
        assert_eq!(histogram.count_at_most(Duration::from_micros(256)), 256);
    }

    #[test]
    fn merging_equals_recording_in_one() {
        let (mut left, mut right, mut whole) = (
            LatencyHistogram::new(),
            LatencyHistogram::new(),
            LatencyHistogram::new(),
        );
        for step in 0..5_000_u64 {
            let latency = Duration::from_nanos(step * step * 37);
            whole.record(latency);
            if step % 3 == 0 {
                left.record(latency)
            } else {
                right.record(latency)
            }
        }
        left.merge(&right);
        assert_eq!(left.count(), 5_000);
        for percentile in [1.0, 50.0, 90.0, 99.9] {
            assert_eq!(
                left.percentile_us(percentile),
                whole.percentile_us(percentile)
            );
        }
        assert_eq!(left.max_us(), whole.max_us());
    }

    #[test]
    fn buckets_of_several_put_together_are_what_one_would_have_recorded() {
        let (mut parts, mut whole) = (vec![LatencyHistogram::new(); 3], LatencyHistogram::new());
        for step in 0..9_000_u64 {
            let latency = Duration::from_nanos(step * step * 53 + step);
            whole.record(latency);
            parts[(step % 3) as usize].record(latency);
        }
        let endless = Duration::from_secs(7_200);
        whole.record(endless);
        parts[1].record(endless);
        let mut together = LatencyHistogram::new();
        for part in &parts {
            let sent: Vec<(u64, u64)> = part.buckets().collect();
            together.merge(&LatencyHistogram::of_buckets(
                sent,
                part.max_ns(),
                part.clamped_count(),
            ));
        }
        assert_eq!((together.count(), together.clamped_count()), (9_001, 1));
        assert_eq!(together.max_ns(), whole.max_ns());
        let lists = [&together, &whole].map(|one| one.buckets().collect::<Vec<_>>());
        assert_eq!(lists[0], lists[1]);
        for thousandth in 0..=1_000 {
            let percentile = f64::from(thousandth) / 10.0;
            let found = [&together, &whole].map(|one| one.percentile_us(percentile));
            assert_eq!(found[0], found[1], "p{percentile}");
        }
    }

    #[test]
    fn export_and_import_keep_every_percentile() {
        let mut histogram = LatencyHistogram::new();
        for us in [80_u64, 81, 95, 400, 12_000, 1_700_000] {
            histogram.record(Duration::from_micros(us));
        }
        let back = LatencyHistogram::from_base64(&histogram.to_base64()).unwrap();
        assert_eq!(back.count(), 6);
        for percentile in [10.0, 50.0, 90.0] {
            let (seen, expected) = (
                back.percentile_us(percentile),
                histogram.percentile_us(percentile),
            );
            assert!(
                (seen - expected).abs() / expected < 0.002,
                "p{percentile}: {seen}, not {expected}"
            );
        }
        assert!(matches!(
            LatencyHistogram::from_base64("*"),
            Err(LatencyError::Base64(_))
        ));
        assert!(matches!(
            LatencyHistogram::from_base64("AAAA"),
            Err(LatencyError::Format(_))
        ));
    }

    #[test]
    fn an_endless_operation_is_clamped_and_counted() {
        let mut histogram = LatencyHistogram::new();
        histogram.record(Duration::from_secs(7_200));
        assert_eq!((histogram.count(), histogram.clamped_count()), (1, 1));
        assert_eq!(histogram.max_us(), 7_200e6);
        histogram.clear();
        assert_eq!(
            (
                histogram.count(),
                histogram.clamped_count(),
                histogram.max_us() as u64
            ),
            (0, 0, 0)
        );
    }
}
