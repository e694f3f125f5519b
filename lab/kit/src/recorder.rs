//! Turns the intervals of a step into its result, in constant memory.
//!
//! Sums, histograms and running moments are updated with each interval. Stalls need the median, so
//! they are found at the end: three numbers per interval are read back from `intervals.csv`.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use metrics::{Interval, LatencyHistogram};

use crate::folder::{FolderError, RunFolder};
use crate::result::{
    BUCKET_BOUNDS_US, CostSummary, FinishSummary, HostSummary, LatencySummary, PERCENTILES,
    PERCENTILES_FAR, Period, RateSummary, RoleResult, Sizes, Stalls, StepExtras, StepResult,
};
use crate::series::Series;
use crate::stalls;
use crate::usage::{self, ratio};
use crate::workload::Operation;

/// Facts about a step, other than its intervals.
#[derive(Clone, Debug)]
pub struct StepFacts {
    /// Its name.
    pub name: String,
    /// The work.
    pub operation: Operation,
    /// Whether it is a measured step of the workload.
    pub measured: bool,
    /// Clients.
    pub clients: u32,
    /// Operations per call.
    pub batch: u32,
    /// Whether calls follow a schedule.
    pub open_loop: bool,
    /// Block device of the data, if known.
    pub device: Option<String>,
}

/// The work of one client.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClientSummary {
    /// Operations after the warm-up.
    pub ops: u64,
    /// Time from the end of the warm-up until the client finished.
    pub active: Duration,
    /// The longest time that a due call waited for the calls before it.
    pub behind: Duration,
}

/// Collects one step.
#[derive(Debug)]
pub struct StepRecorder {
    facts: StepFacts,
    nominal: Duration,
    total: Interval,
    warmup: Interval,
    rates: Rates,
    series: Series,
    gaps: Vec<Period>,
}

impl StepRecorder {
    /// A recorder for intervals of length `nominal`.
    pub fn new(facts: StepFacts, nominal: Duration) -> Self {
        let warmup = Interval {
            warmup: true,
            ..Interval::default()
        };
        Self {
            facts,
            nominal,
            total: Interval::default(),
            warmup,
            rates: Rates::new(),
            series: Series::default(),
            gaps: Vec::new(),
        }
    }

    /// Sets the gaps between completions that count as stalls.
    pub fn set_gaps(&mut self, gaps: Vec<Period>) {
        self.gaps = gaps;
    }

    /// Seconds measured so far, warm-up left out.
    pub fn seconds(&self) -> f64 {
        self.total.length.as_secs_f64()
    }

    /// Takes the next interval and writes its row.
    ///
    /// # Errors
    /// The row cannot be written; the interval is counted nevertheless.
    pub fn push(&mut self, interval: &Interval, folder: &mut RunFolder) -> Result<(), FolderError> {
        self.series.push(interval);
        if interval.warmup {
            self.warmup.merge(interval);
        } else {
            self.total.merge(interval);
            // A short last interval would look like a stall or a burst.
            if interval.length * 2 >= self.nominal {
                self.rates.push(interval.rate(), self.total.ops);
            }
        }
        folder.push(&self.facts.name, interval, self.cumulative_rate())
    }

    /// Operations per second since the warm-up ended.
    pub fn cumulative_rate(&self) -> f64 {
        let so_far = if self.total.length.is_zero() {
            &self.warmup
        } else {
            &self.total
        };
        so_far.rate()
    }

    /// Closes the step.
    ///
    /// # Errors
    /// The interval file cannot be read back.
    pub fn finish(
        self,
        folder: &RunFolder,
        client_summaries: &[ClientSummary],
        errors: BTreeMap<String, u64>,
        sizes: Sizes,
    ) -> Result<StepResult, FolderError> {
        let Self {
            facts,
            nominal,
            total,
            warmup,
            rates,
            series,
            gaps,
        } = self;
        let mut rate = rates.summary();
        rate.average = total.rate();
        rate.sum_of_clients = client_summaries
            .iter()
            .map(|summary| ratio(summary.ops as f64, summary.active.as_secs_f64()).unwrap_or(0.0))
            .sum();
        let stalls = find_stalls(
            folder,
            &facts.name,
            rate.median,
            nominal.as_secs_f64() / 2.0,
            &gaps,
        )?;
        let seconds = total.length.as_secs_f64();
        let host = HostSummary {
            busy_percent: total.host.busy_percent,
            steal_percent: total.host.steal_percent,
            io_wait_percent: total.host.io_wait_percent,
            busy_percent_per_op_millionths: ratio(total.host.busy_percent * 1e6, rate.average),
            ..usage::host(&total)
        };
        Ok(StepResult {
            name: facts.name,
            operation: facts.operation,
            measured: facts.measured,
            unit: facts.operation.unit().to_owned(),
            pacing: if facts.open_loop { "open" } else { "closed" }.to_owned(),
            clients: facts.clients,
            batch: facts.batch,
            seconds,
            ops: total.ops,
            calls: total.latency.count(),
            warmup_ops: warmup.ops,
            errors,
            finish: finish_summary(client_summaries, &rate),
            rate,
            stalls,
            latency: latency_summary(&total.latency),
            server: total.server.as_ref().map(|used| CostSummary {
                throttled_percent: total
                    .throttled_us
                    .and_then(|us| ratio(us as f64 / 1e4, seconds)),
                ..usage::process(used, total.ops, seconds)
            }),
            client: usage::process(&total.client, total.ops, seconds),
            device: usage::device(&total, facts.device),
            host,
            sizes,
            series: series.into_points(),
            more: StepExtras::default(),
        })
    }

    /// Closes background work of a step; `target_rate` is the rate of its schedule.
    pub fn finish_background(
        self,
        errors: BTreeMap<String, u64>,
        target_rate: Option<f64>,
    ) -> RoleResult {
        let (facts, total) = (self.facts, self.total);
        let mut rate = self.rates.summary();
        rate.average = total.rate();
        let series = self.series.into_points();
        let enough = |rate: f64, target: f64| rate >= 0.95 * target;
        let seconds_at_target_percent = target_rate.and_then(|target| {
            let measured = || series.iter().filter(|point| !point.warmup);
            let met: f64 = measured()
                .filter(|point| enough(point.rate(), target))
                .map(|point| point.seconds)
                .sum();
            ratio(met * 100.0, measured().map(|point| point.seconds).sum())
        });
        RoleResult {
            unit: facts.operation.unit().to_owned(),
            operation: facts.name.rsplit(':').next().unwrap_or_default().to_owned(),
            clients: facts.clients,
            batch: facts.batch,
            ops: total.ops,
            errors,
            target_rate,
            seconds_at_target_percent,
            sla_met: target_rate.map(|target| enough(rate.average, target)),
            rate,
            latency: latency_summary(&total.latency),
            series,
            refused_calls: 0,
            given_up: 0,
            outcomes: BTreeMap::new(),
        }
    }
}

fn finish_summary(client_summaries: &[ClientSummary], rate: &RateSummary) -> FinishSummary {
    let active = || {
        client_summaries
            .iter()
            .map(|summary| summary.active.as_secs_f64())
    };
    let skew = active().fold(0.0, f64::max) - active().fold(f64::INFINITY, f64::min);
    FinishSummary {
        skew_seconds: if skew.is_finite() { skew } else { 0.0 },
        skew_factor: ratio(rate.sum_of_clients, rate.average),
        behind_schedule_seconds_max: client_summaries
            .iter()
            .map(|summary| summary.behind.as_secs_f64())
            .fold(0.0, f64::max),
    }
}

/// The metrics of a histogram.
pub fn latency_summary(latency: &LatencyHistogram) -> LatencySummary {
    let calls = latency.count();
    // A percentile is known when at least ten calls lie beyond it.
    let known = |percentile: &f64| calls as f64 * (100.0 - percentile) / 100.0 >= 10.0;
    let percentiles = PERCENTILES.iter().chain(
        PERCENTILES_FAR
            .iter()
            .filter(|percentile| known(percentile)),
    );
    let mut below = 0;
    let mut bucket_percent = Vec::with_capacity(BUCKET_BOUNDS_US.len() + 1);
    for bound in BUCKET_BOUNDS_US {
        let up_to = latency.count_at_most(Duration::from_micros(bound));
        bucket_percent
            .push(ratio(up_to.saturating_sub(below) as f64 * 100.0, calls as f64).unwrap_or(0.0));
        below = up_to;
    }
    bucket_percent
        .push(ratio(calls.saturating_sub(below) as f64 * 100.0, calls as f64).unwrap_or(0.0));
    LatencySummary {
        calls,
        mean_us: latency.mean_us(),
        percentiles_us: percentiles
            .map(|percentile| (*percentile, latency.percentile_us(*percentile)))
            .collect(),
        max_us: latency.max_us(),
        mean_cut_to_ms_us: Some(latency.mean_cut_to_ms_us()),
        bucket_percent,
        hdr: latency.to_base64(),
    }
}

/// Running metrics of the rates per interval.
#[derive(Debug)]
struct Rates {
    histogram: Histogram<u64>,
    count: u64,
    mean: f64,
    squares: f64,
    min: f64,
    max: f64,
    slope: Slope,
}

impl Rates {
    fn new() -> Self {
        // Three digits up to a thousand million operations per second; constant bounds cannot fail.
        let histogram = Histogram::new_with_bounds(1, 1_000_000_000, 3)
            .unwrap_or_else(|_| unreachable!("constant bounds are valid"));
        Self {
            histogram,
            count: 0,
            mean: 0.0,
            squares: 0.0,
            min: f64::INFINITY,
            max: 0.0,
            slope: Slope::default(),
        }
    }

    fn push(&mut self, rate: f64, ops_so_far: u64) {
        self.histogram.saturating_record(rate.round() as u64);
        self.count += 1;
        let distance = rate - self.mean;
        self.mean += distance / self.count as f64;
        self.squares += distance * (rate - self.mean);
        self.min = self.min.min(rate);
        self.max = self.max.max(rate);
        if rate > 0.0 {
            self.slope.push((ops_so_far as f64).log2(), rate.log2());
        }
    }

    fn summary(&self) -> RateSummary {
        if self.count == 0 {
            return RateSummary::default();
        }
        let variance = if self.count > 1 {
            self.squares / (self.count - 1) as f64
        } else {
            0.0
        };
        let met_in = |percent: f64| {
            (self.histogram.value_at_quantile(1.0 - percent / 100.0) as f64)
                .clamp(self.min, self.max)
        };
        RateSummary {
            quartiles_by_median: ratio(met_in(25.0) - met_in(75.0), met_in(50.0)),
            intervals: self.count,
            variance,
            stddev: variance.sqrt(),
            coefficient_of_variation: ratio(variance.sqrt(), self.mean),
            min: self.min,
            met_in_99_percent: met_in(99.0),
            met_in_95_percent: met_in(95.0),
            median: met_in(50.0),
            max: self.max,
            slope_percent_per_doubling: self
                .slope
                .value()
                .map(|slope| (slope.exp2() - 1.0) * 100.0),
            ..RateSummary::default()
        }
    }
}

/// A least squares line, updated point by point without keeping the points.
#[derive(Debug, Default)]
struct Slope {
    n: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
}

impl Slope {
    fn push(&mut self, x: f64, y: f64) {
        self.n += 1.0;
        self.x += x;
        self.y += y;
        self.xx += x * x;
        self.xy += x * y;
    }

    fn value(&self) -> Option<f64> {
        const POINTS_MIN: f64 = 10.0;
        let below = self.n * self.xx - self.x * self.x;
        if self.n < POINTS_MIN || below < 1e-6 {
            return None;
        }
        ratio(self.n * self.xy - self.x * self.y, below)
    }
}

fn find_stalls(
    folder: &RunFolder,
    step: &str,
    median: f64,
    seconds_min: f64,
    gaps: &[Period],
) -> Result<Stalls, FolderError> {
    let mut intervals = Vec::new();
    folder.for_each_rate(step, |start_s, seconds, rate| {
        if seconds >= seconds_min {
            intervals.push((start_s, seconds, rate));
        }
    })?;
    Ok(stalls::find(&intervals, median, gaps))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> StepFacts {
        let (name, device) = ("l.i0".to_owned(), None);
        StepFacts {
            name,
            operation: Operation::Insert,
            measured: true,
            clients: 1,
            batch: 10,
            open_loop: false,
            device,
        }
    }

    fn run(rates: &[u64]) -> StepResult {
        let dir = tempfile::tempdir().unwrap();
        let mut folder = RunFolder::create(dir.path(), "run").unwrap();
        let mut recorder = StepRecorder::new(facts(), Duration::from_secs(1));
        for (number, ops) in rates.iter().enumerate() {
            let mut interval = Interval {
                start: Duration::from_secs(number as u64),
                length: Duration::from_secs(1),
                ops: *ops,
                ..Interval::default()
            };
            interval.server = Some(metrics::ProcessUse {
                cpu_user: Duration::from_micros(30 * ops),
                write_bytes: 2_048 * ops,
                ..metrics::ProcessUse::default()
            });
            interval.latency.record(Duration::from_millis(1));
            recorder.push(&interval, &mut folder).unwrap();
        }
        recorder
            .finish(&folder, &[], BTreeMap::new(), Sizes::default())
            .unwrap()
    }

    #[test]
    fn rates_and_costs_of_a_known_run() {
        let result = run(&[100, 200, 300, 400]);
        assert_eq!(
            (result.ops, result.rate.average, result.rate.intervals),
            (1_000, 250.0, 4)
        );
        assert!(
            (result.rate.stddev - 129.099).abs() < 0.01,
            "{}",
            result.rate.stddev
        );
        assert_eq!((result.rate.min, result.rate.max), (100.0, 400.0));
        let server = result.server.unwrap();
        assert_eq!(
            (server.cpu_us_per_op, server.write_kb_per_op),
            (Some(30.0), Some(2.0))
        );
        assert!(result.device.is_none());
    }

    #[test]
    fn stalls_are_found_with_their_length_and_place() {
        let result = run(&[100, 100, 0, 5, 100, 100, 40, 100, 0]);
        let stalls = result.stalls;
        assert_eq!(
            (
                stalls.seconds_without_ops,
                stalls.seconds_below_10_percent,
                stalls.seconds_below_50_percent
            ),
            (2.0, 3.0, 4.0)
        );
        assert_eq!((stalls.count, stalls.longest_seconds), (2, 2.0));
        assert_eq!(
            stalls.stretches,
            [
                Period {
                    start_s: 2.0,
                    seconds: 2.0
                },
                Period {
                    start_s: 8.0,
                    seconds: 1.0
                }
            ]
        );
    }

    #[test]
    fn a_rate_that_halves_with_each_doubling_has_that_slope() {
        let mut rates = Rates::new();
        for step in 1..=20 {
            let ops = 2_u64.pow(step);
            rates.push(1e9 / ops as f64, ops);
        }
        let slope = rates.summary().slope_percent_per_doubling.unwrap();
        assert!((slope + 50.0).abs() < 0.01, "{slope}");
    }

    #[test]
    fn warm_up_is_not_in_the_rate_but_in_the_series() {
        let dir = tempfile::tempdir().unwrap();
        let mut folder = RunFolder::create(dir.path(), "run").unwrap();
        let mut recorder = StepRecorder::new(facts(), Duration::from_secs(1));
        for (ops, warmup) in [(9, true), (100, false), (100, false)] {
            let interval = Interval {
                length: Duration::from_secs(1),
                ops,
                warmup,
                ..Interval::default()
            };
            recorder.push(&interval, &mut folder).unwrap();
        }
        let result = recorder
            .finish(&folder, &[], BTreeMap::new(), Sizes::default())
            .unwrap();
        assert_eq!(
            (
                result.ops,
                result.warmup_ops,
                result.rate.average,
                result.series.len()
            ),
            (200, 9, 100.0, 3)
        );
        assert_eq!(result.stalls.count, 0);
    }
}
