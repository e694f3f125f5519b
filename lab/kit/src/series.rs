//! A time series that never grows beyond a bound: when it is full, neighbours are merged and each
//! point covers twice the time.

use metrics::{Interval, LatencyHistogram};
use serde::{Deserialize, Serialize};

/// The largest number of points; enough for one per pixel of a wide chart.
pub const POINTS_MAX: usize = 1_200;

/// One or more merged intervals.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Point {
    /// Since the step began.
    pub start_s: f64,
    /// Length.
    pub seconds: f64,
    /// Operations.
    pub ops: u64,
    /// Calls.
    pub calls: u64,
    /// Failed calls.
    pub errors: u64,
    /// Whether the whole point belongs to the warm-up.
    pub warmup: bool,
    /// Slowest interval within, operations per second.
    pub rate_min: f64,
    /// Fastest interval within.
    pub rate_max: f64,
    /// Median latency.
    pub latency_us_p50: f64,
    /// 95th percentile.
    pub latency_us_p95: f64,
    /// 99th percentile.
    pub latency_us_p99: f64,
    /// 99.9th percentile.
    pub latency_us_p999: f64,
    /// Longest call.
    pub latency_us_max: f64,
    /// The histogram: HdrHistogram V2 compressed, base64, nanoseconds. Mergeable.
    pub latency_hdr: String,
    /// Server CPU time, when seen.
    pub server_cpu_s: Option<f64>,
    /// Server bytes fetched from storage.
    pub server_read_bytes: Option<u64>,
    /// Server bytes sent towards storage.
    pub server_write_bytes: Option<u64>,
    /// Server context switches.
    pub server_switches: Option<u64>,
    /// Server resident memory.
    pub server_rss_bytes: Option<u64>,
    /// Lab CPU time.
    pub client_cpu_s: f64,
    /// Device read requests.
    pub disk_reads: Option<u64>,
    /// Device bytes read.
    pub disk_read_bytes: Option<u64>,
    /// Device bytes written.
    pub disk_write_bytes: Option<u64>,
    /// Busy share of the machine.
    pub host_busy_percent: f64,
    /// Size of the data directory.
    pub directory_bytes: Option<u64>,
    /// Share of the time with a request under way at the device.
    #[serde(default)]
    pub disk_busy_percent: Option<f64>,
    /// Share of the time in which some task of the machine waited for storage.
    #[serde(default)]
    pub pressure_io_percent: Option<f64>,
}

fn percent_of(ms: u64, interval: &Interval) -> Option<f64> {
    let seconds = interval.length.as_secs_f64();
    (seconds > 0.0).then(|| ms as f64 / 10.0 / seconds)
}

impl Point {
    fn of(interval: &Interval) -> Self {
        let server = interval.server.as_ref();
        let disk = interval.disk.as_ref();
        let mut out = Self {
            start_s: interval.start.as_secs_f64(),
            seconds: interval.length.as_secs_f64(),
            ops: interval.ops,
            errors: interval.errors,
            warmup: interval.warmup,
            rate_min: interval.rate(),
            rate_max: interval.rate(),
            server_cpu_s: server.map(|used| used.cpu().as_secs_f64()),
            server_read_bytes: server.map(|used| used.read_bytes),
            server_write_bytes: server.map(|used| used.write_bytes),
            server_switches: server.map(|used| used.switches_voluntary + used.switches_involuntary),
            server_rss_bytes: server.map(|used| used.rss_bytes),
            client_cpu_s: interval.client.cpu().as_secs_f64(),
            disk_reads: disk.map(|used| used.reads),
            disk_read_bytes: disk.map(|used| used.read_bytes),
            disk_write_bytes: disk.map(|used| used.write_bytes),
            host_busy_percent: interval.host.busy_percent,
            directory_bytes: interval.directory.map(|size| size.allocated_bytes),
            disk_busy_percent: disk.and_then(|used| percent_of(used.busy_ms, interval)),
            pressure_io_percent: interval
                .pressure
                .and_then(|waited| percent_of(waited.io_some_us / 1_000, interval)),
            ..Self::default()
        };
        out.set_latency(&interval.latency);
        out
    }

    fn set_latency(&mut self, latency: &LatencyHistogram) {
        self.calls = latency.count();
        self.latency_us_p50 = latency.percentile_us(50.0);
        self.latency_us_p95 = latency.percentile_us(95.0);
        self.latency_us_p99 = latency.percentile_us(99.0);
        self.latency_us_p999 = latency.percentile_us(99.9);
        self.latency_us_max = latency.max_us();
        self.latency_hdr = latency.to_base64();
    }

    fn merge(&mut self, next: &Self) {
        let total = self.seconds + next.seconds;
        if total > 0.0 {
            self.host_busy_percent = (self.host_busy_percent * self.seconds
                + next.host_busy_percent * next.seconds)
                / total;
            let weighted =
                |left: f64, right: f64| (left * self.seconds + right * next.seconds) / total;
            self.disk_busy_percent = sum(self.disk_busy_percent, next.disk_busy_percent, weighted);
            self.pressure_io_percent =
                sum(self.pressure_io_percent, next.pressure_io_percent, weighted);
        }
        self.seconds = total;
        self.ops += next.ops;
        self.errors += next.errors;
        self.warmup &= next.warmup;
        self.rate_min = self.rate_min.min(next.rate_min);
        self.rate_max = self.rate_max.max(next.rate_max);
        self.server_cpu_s = sum(self.server_cpu_s, next.server_cpu_s, |left, right| {
            left + right
        });
        self.server_read_bytes = sum(
            self.server_read_bytes,
            next.server_read_bytes,
            u64::saturating_add,
        );
        self.server_write_bytes = sum(
            self.server_write_bytes,
            next.server_write_bytes,
            u64::saturating_add,
        );
        self.server_switches = sum(
            self.server_switches,
            next.server_switches,
            u64::saturating_add,
        );
        self.server_rss_bytes = sum(self.server_rss_bytes, next.server_rss_bytes, u64::max);
        self.client_cpu_s += next.client_cpu_s;
        self.disk_reads = sum(self.disk_reads, next.disk_reads, u64::saturating_add);
        self.disk_read_bytes = sum(
            self.disk_read_bytes,
            next.disk_read_bytes,
            u64::saturating_add,
        );
        self.disk_write_bytes = sum(
            self.disk_write_bytes,
            next.disk_write_bytes,
            u64::saturating_add,
        );
        self.directory_bytes = next.directory_bytes.or(self.directory_bytes);
        let longest = self.latency_us_max.max(next.latency_us_max);
        // This program has just written both histograms. If one cannot be read back, the other is
        // still used.
        let mut latency = LatencyHistogram::from_base64(&self.latency_hdr).unwrap_or_default();
        latency.merge(&LatencyHistogram::from_base64(&next.latency_hdr).unwrap_or_default());
        self.set_latency(&latency);
        self.latency_us_max = longest;
    }

    /// Operations per second.
    pub fn rate(&self) -> f64 {
        if self.seconds > 0.0 {
            self.ops as f64 / self.seconds
        } else {
            0.0
        }
    }

    /// End, since the step began.
    pub fn end_s(&self) -> f64 {
        self.start_s + self.seconds
    }
}

fn sum<T>(left: Option<T>, right: Option<T>, add: impl Fn(T, T) -> T) -> Option<T> {
    match (left, right) {
        (Some(left), Some(right)) => Some(add(left, right)),
        (left, right) => left.or(right),
    }
}

/// Collects points.
#[derive(Clone, Debug)]
pub struct Series {
    points: Vec<Point>,
    points_max: usize,
    /// Intervals that each full point covers.
    width: u32,
    /// Intervals in the last point.
    filled: u32,
}

impl Default for Series {
    fn default() -> Self {
        Self::with_limit(POINTS_MAX)
    }
}

impl Series {
    /// A series of at most `points_max` points, but at least two.
    pub fn with_limit(points_max: usize) -> Self {
        Self {
            points: Vec::new(),
            points_max: points_max.max(2),
            width: 1,
            filled: 0,
        }
    }

    /// Adds the next interval. Warm-up and measured time never share a point.
    pub fn push(&mut self, interval: &Interval) {
        let next = Point::of(interval);
        match self.points.last_mut() {
            Some(last) if self.filled < self.width && last.warmup == next.warmup => {
                last.merge(&next);
                self.filled += 1;
            }
            _ => {
                if self.points.len() == self.points_max {
                    self.halve();
                }
                self.points.push(next);
                self.filled = 1;
            }
        }
    }

    fn halve(&mut self) {
        let mut out: Vec<Point> = Vec::with_capacity(self.points_max);
        let mut whole = true;
        for point in self.points.drain(..) {
            match out.last_mut() {
                Some(last) if !whole && last.warmup == point.warmup => {
                    last.merge(&point);
                    whole = true;
                }
                _ => {
                    out.push(point);
                    whole = false;
                }
            }
        }
        self.points = out;
        self.width = self.width.saturating_mul(2);
    }

    /// The points so far.
    pub fn into_points(self) -> Vec<Point> {
        self.points
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn second(number: u64) -> Interval {
        let mut out = Interval {
            start: Duration::from_secs(number),
            length: Duration::from_secs(1),
            ops: number,
            warmup: number < 5,
            ..Interval::default()
        };
        out.latency.record(Duration::from_micros(100 + number));
        out
    }

    #[test]
    fn a_long_run_keeps_every_operation_in_few_points() {
        let mut series = Series::with_limit(16);
        for number in 0..1_000 {
            series.push(&second(number));
        }
        let points = series.into_points();
        assert!(points.len() <= 16 && points.len() >= 8, "{}", points.len());
        assert_eq!(points.iter().map(|point| point.ops).sum::<u64>(), 499_500);
        assert_eq!(points.iter().map(|point| point.calls).sum::<u64>(), 1_000);
        for pair in points.windows(2) {
            assert!(
                (pair[0].end_s() - pair[1].start_s).abs() < 1e-6,
                "a gap after {}",
                pair[0].start_s
            );
        }
        assert_eq!(
            points
                .iter()
                .filter(|point| point.warmup)
                .map(|point| point.ops)
                .sum::<u64>(),
            10
        );
        assert_eq!(
            points.last().map(|point| point.latency_us_max),
            Some(1_099.0)
        );
    }

    #[test]
    fn a_short_run_keeps_each_second() {
        let mut series = Series::with_limit(16);
        (0..16).for_each(|number| series.push(&second(number)));
        assert_eq!(series.into_points().len(), 16);
    }
}
