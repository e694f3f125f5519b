//! The metrics of a step in reports, comparisons and claims: identifier, words, unit, which way is
//! better, and where the result has it.
//!
//! Promises: each metric has one definition for all its users. Must not know: how metrics are drawn
//! or judged.

use crate::result::{LatencySummary, REPLAY_WRITES, StepResult};

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricDirection {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
}

/// One metric of a step.
pub struct Metric {
    /// Identifier in data files and JSON; it ends with the unit.
    pub id: &'static str,
    /// A name for people.
    pub name: &'static str,
    /// Unit; `ops` means the unit that the step counts.
    pub unit: &'static str,
    /// Which way is better.
    pub better: MetricDirection,
    /// Whether a comparison gives a verdict on it.
    pub is_judged: bool,
    /// Its value in a step's result; `None` if it was not measured.
    pub of: fn(&StepResult) -> Option<f64>,
}

fn percentile(latency: &LatencySummary, wanted: f64) -> Option<f64> {
    let found = latency
        .percentiles_us
        .iter()
        .find(|(percentile, _)| *percentile == wanted);
    found.map(|(_, us)| *us).filter(|_| latency.calls > 0)
}

/// A counter of an engine since the previous measured step.
fn counter_delta(step: &StepResult, name: &str) -> Option<f64> {
    step.more
        .statistics
        .get("counters_since_last")?
        .get(name)?
        .as_f64()
}

/// Rate over the first 60 seconds or the first tenth of a step, whichever is shorter. It includes
/// the warm-up, because work left over from the previous step shows there.
fn first_part_rate(step: &StepResult) -> Option<f64> {
    let points: Vec<_> = step
        .series
        .iter()
        .filter(|point| point.seconds > 0.0)
        .collect();
    let total: f64 = points.iter().map(|point| point.seconds).sum();
    if points.len() < 10 {
        return None;
    }
    let (mut ops, mut seconds) = (0.0, 0.0);
    for point in points {
        (ops, seconds) = (ops + point.ops as f64, seconds + point.seconds);
        // The sampler may be late by a tenth of a second.
        if seconds + 0.1 >= (total / 10.0).min(60.0) {
            break;
        }
    }
    Some(ops / seconds)
}

/// Rates over the first and last fifth of the measured operations.
fn end_by_begin(step: &StepResult) -> Option<f64> {
    let points: Vec<_> = step
        .series
        .iter()
        .filter(|point| !point.warmup && point.seconds > 0.0)
        .collect();
    let total: u64 = points.iter().map(|point| point.ops).sum();
    let share = total as f64 / 5.0;
    if points.len() < 10 || share < 1.0 {
        return None;
    }
    let rate = |points: &mut dyn Iterator<Item = &&crate::series::Point>| {
        let (mut ops, mut seconds) = (0.0, 0.0);
        for point in points {
            (ops, seconds) = (ops + point.ops as f64, seconds + point.seconds);
            if ops >= share {
                break;
            }
        }
        ops / seconds
    };
    Some(rate(&mut points.iter().rev()) / rate(&mut points.iter()))
        .filter(|ratio| ratio.is_finite())
}

/// The highest value over all kinds of operation that write, by latency from sending, as in a
/// server's own log.
fn worst_write(step: &StepResult, of: fn(&LatencySummary) -> Option<f64>) -> Option<f64> {
    let replay = step.more.replay.as_ref()?;
    let values = REPLAY_WRITES
        .iter()
        .filter_map(|kind| of(&replay.kinds.get(*kind)?.service));
    values.fold(None, |highest: Option<f64>, value| {
        Some(highest.map_or(value, |highest| highest.max(value)))
    })
}

macro_rules! metrics {
    ($($id:literal, $name:literal, $unit:literal, $better:ident, $judged:literal, $of:expr;)*) => {
        &[$(Metric {
            id: $id,
            name: $name,
            unit: $unit,
            better: MetricDirection::$better,
            is_judged: $judged,
            of: $of,
        }),*]
    };
}

/// All metrics, in the order of reading.
pub const ALL: &[Metric] = metrics![
    "rate", "throughput", "ops/s", Higher, true,
        |step| (step.seconds > 0.0).then_some(step.rate.average);
    "rate_sum_of_clients", "sum of client rates", "ops/s", Higher, false,
        |step| (step.seconds > 0.0).then_some(step.rate.sum_of_clients);
    "rate_met_in_95_percent", "throughput reached in 95 % of seconds", "ops/s", Higher, true,
        |step| (step.rate.intervals >= 10).then_some(step.rate.met_in_95_percent);
    "coefficient_of_variation", "unevenness (deviation by mean)", "", Lower, true,
        |step| step.rate.coefficient_of_variation.filter(|_| step.rate.intervals >= 5);
    "slope_percent_per_doubling", "change of the rate per doubling", "%", Higher, false,
        |step| step.rate.slope_percent_per_doubling;
    "recall_percent", "found of the exact neighbours", "%", Higher, true,
        |step| step.more.recall.as_ref().map(|recall| recall.percent);
    "stalled_s", "time stalled", "s", Lower, true,
        |step| Some(step.stalls.seconds_below_10_percent);
    "latency_us_p50", "latency, median", "µs", Lower, true, |step| percentile(&step.latency, 50.0);
    "latency_us_p95", "latency, p95", "µs", Lower, true, |step| percentile(&step.latency, 95.0);
    "latency_us_p99", "latency, p99", "µs", Lower, true, |step| percentile(&step.latency, 99.0);
    "latency_us_p999", "latency, p99.9", "µs", Lower, true,
        |step| percentile(&step.latency, 99.9).filter(|_| step.latency.calls >= 10_000);
    "latency_us_p9999", "latency, p99.99", "µs", Lower, false,
        |step| percentile(&step.latency, 99.99);
    "latency_us_mean", "latency, mean", "µs", Lower, false,
        |step| (step.latency.calls > 0).then_some(step.latency.mean_us);
    "latency_us_max", "latency, longest", "µs", Lower, false,
        |step| (step.latency.calls > 0).then_some(step.latency.max_us);
    "server_cpu_us_per_op", "server CPU per operation", "µs", Lower, true,
        |step| step.server.as_ref()?.cpu_us_per_op;
    "server_switches_per_op", "server context switches per operation", "", Lower, true,
        |step| step.server.as_ref()?.switches_per_op;
    "server_read_kb_per_op", "server reads per operation", "KB", Lower, true,
        |step| step.server.as_ref()?.read_kb_per_op;
    "server_write_kb_per_op", "server writes per operation", "KB", Lower, true,
        |step| step.server.as_ref()?.write_kb_per_op;
    "server_rss_bytes_max", "server memory, highest", "bytes", Lower, true,
        |step| Some(step.server.as_ref()?.rss_bytes_max as f64);
    "device_reads_per_op", "device reads per operation", "", Lower, true,
        |step| step.device.as_ref()?.reads_per_op;
    "device_write_kb_per_op", "device writes per operation", "KB", Lower, true,
        |step| step.device.as_ref()?.write_kb_per_op;
    "host_cpu_percent_per_op", "machine CPU per operation, old form", "%·10⁻⁶", Lower, false,
        |step| step.host.busy_percent_per_op_millionths;
    "client_cpu_us_per_op", "lab CPU per operation", "µs", Lower, false,
        |step| step.client.cpu_us_per_op;
    "write_amplification", "write amplification", "×", Lower, true,
        |step| step.more.write_amplification;
    "engine_write_amplification",
    "write amplification by the engine's own counters", "×", Lower, false,
        |step| counter_delta(step, "write_amplification");
    "engine_stall_s", "time the engine held writers up, all of them together", "s", Lower, false,
        |step| counter_delta(step, "stall_us").map(|us| us / 1e6);
    "skew_factor", "skew of finishing clients", "×", Lower, false, |step| step.finish.skew_factor;
    "bytes_per_document", "stored per document", "bytes", Lower, true,
        |step| step.sizes.bytes_per_document;
    "directory_bytes", "data directory", "bytes", Lower, true,
        |step| step.sizes.directory_bytes.map(|bytes| bytes as f64);
    "directory_gb", "data directory", "GB", Lower, false,
        |step| step.sizes.directory_bytes.map(|bytes| bytes as f64 / 1_073_741_824.0);
    "seconds", "time", "s", Lower, false, |step| Some(step.seconds);
    "us_per_op", "time per operation", "µs", Lower, false,
        |step| (step.rate.average > 0.0).then(|| 1e6 / step.rate.average);
    "slope_size", "size of the change of the rate per doubling", "%", Lower, false,
        |step| step.rate.slope_percent_per_doubling.map(f64::abs);
    "rate_end_by_begin",
    "rate of the last fifth of operations by that of the first", "×", Higher, false,
        end_by_begin;
    "latency_max_by_p99", "longest call by p99", "×", Lower, false,
        |step| percentile(&step.latency, 99.0).filter(|p99| *p99 > 0.0)
            .map(|p99| step.latency.max_us / p99);
    "documents_per_op", "documents by operations", "", Higher, false,
        |step| step.sizes.documents.filter(|_| step.ops > 0)
            .map(|documents| documents as f64 / (step.ops + step.warmup_ops) as f64);
    "writer_share_of_target", "rate of the writer beside by the rate asked for", "", Higher, false,
        |step| {
            let role = step.more.background.first()?;
            role.target_rate.filter(|rate| *rate > 0.0).map(|rate| role.rate.average / rate)
        };
    "user_mb_per_second", "user data written", "MiB/s", Higher, false,
        |step| (step.more.user_bytes > 0 && step.seconds > 0.0)
            .then(|| step.more.user_bytes as f64 / 1_048_576.0 / step.seconds);
    "first_part_rate", "throughput of the first 60 s or the first tenth", "ops/s", Higher, false,
        first_part_rate;
    "start_seconds", "time to start", "s", Lower, false, |step| step.more.start_seconds;
    "rate_met_in_99_percent", "throughput reached in 99 % of seconds", "ops/s", Higher, false,
        |step| (step.rate.intervals >= 10).then_some(step.rate.met_in_99_percent);
    "rate_quartiles_by_median", "distance of quartiles by median second", "", Lower, false,
        |step| step.rate.quartiles_by_median.filter(|_| step.rate.intervals >= 5);
    "stall_longest_s", "longest stall", "s", Lower, false, |step| Some(step.stalls.longest_seconds);
    "below_half_s", "time below half the median", "s", Lower, false,
        |step| Some(step.stalls.seconds_below_50_percent);
    "latency_us_mean_whole_ms", "latency, mean of whole milliseconds", "µs", Lower, false,
        |step| step.latency.mean_cut_to_ms_us.filter(|_| step.latency.calls > 0);
    "latency_lost_by_cutting_percent",
    "share of the mean latency that whole milliseconds lose", "%", Lower, false,
        |step| step.latency.mean_cut_to_ms_us.filter(|_| step.latency.mean_us > 0.0)
            .map(|cut| (1.0 - cut / step.latency.mean_us) * 100.0);
    "device_read_await_ms", "device, time of a read", "ms", Lower, false,
        |step| step.device.as_ref()?.read_await_ms;
    "device_write_await_ms", "device, time of a write", "ms", Lower, false,
        |step| step.device.as_ref()?.write_await_ms;
    "device_queue_depth", "device, requests under way", "", Lower, false,
        |step| step.device.as_ref()?.queue_depth;
    "device_busy_percent", "device busy", "%", Lower, false,
        |step| step.device.as_ref()?.busy_percent;
    "device_read_size_kb", "device, size of a read", "KB", Lower, false,
        |step| step.device.as_ref()?.read_size_kb;
    "device_flushes_per_op", "device flushes per operation", "", Lower, false,
        |step| step.device.as_ref()?.flushes_per_op;
    "device_reads_per_second", "device reads", "/s", Lower, false,
        |step| Some(step.device.as_ref()?.reads_per_op? * step.rate.average);
    "device_write_kb_per_second", "device writes", "KB/s", Lower, false,
        |step| Some(step.device.as_ref()?.write_kb_per_op? * step.rate.average);
    "device_read_kb_per_op", "device reads per operation", "KB", Lower, false,
        |step| step.device.as_ref()?.read_kb_per_op;
    "pressure_cpu_percent", "time some task waited for a CPU", "%", Lower, false,
        |step| Some(step.host.pressure?.cpu_some_percent);
    "pressure_io_percent", "time some task waited for storage", "%", Lower, false,
        |step| Some(step.host.pressure?.io_some_percent);
    "pressure_io_full_percent", "time all tasks waited for storage", "%", Lower, false,
        |step| Some(step.host.pressure?.io_full_percent);
    "pressure_memory_percent", "time some task waited for memory", "%", Lower, false,
        |step| Some(step.host.pressure?.memory_some_percent);
    "page_in_kb_per_op", "read into the page cache per operation", "KB", Lower, false,
        |step| step.host.page_in_kb_per_op;
    "server_faults_major_per_op", "server page faults from storage per operation", "", Lower, false,
        |step| step.server.as_ref()?.faults_major_per_op;
    "server_throttled_percent", "server without CPU quota", "%", Lower, false,
        |step| step.server.as_ref()?.throttled_percent;
    "server_rss_bytes_end", "server memory, at the end", "bytes", Lower, false,
        |step| Some(step.server.as_ref()?.rss_bytes_end as f64).filter(|bytes| *bytes > 0.0);
    "server_pss_bytes", "server memory, shared pages in part", "bytes", Lower, false,
        |step| Some(step.server.as_ref()?.pss_bytes? as f64);
    "server_anonymous_bytes", "server memory without files behind it", "bytes", Lower, false,
        |step| Some(step.server.as_ref()?.anonymous_bytes? as f64);
    "server_open_files", "server open files", "", Lower, false,
        |step| Some(step.server.as_ref()?.open_files_max? as f64);
    "server_threads", "server threads", "", Lower, false,
        |step| Some(step.server.as_ref()?.threads_max as f64).filter(|threads| *threads > 0.0);
    "foreground_reads_per_op", "pages read by client threads per operation", "", Lower, false,
        |step| step.more.foreground_reads_per_op;
    "background_read_kb_per_op", "reads of other threads per operation", "KB", Lower, false,
        |step| step.more.background_read_kb_per_op;
    "debt_bytes", "work left over", "bytes", Lower, false,
        |step| step.more.debt_bytes.map(|bytes| bytes as f64);
    "quiesce_s", "time to come to rest afterwards", "s", Lower, false,
        |step| step.more.quiesce_seconds;
    "settled_write_amplification", "write amplification, settled", "×", Lower, false,
        |step| step.more.settled_write_amplification;
    "device_write_amplification", "write amplification of the device", "×", Lower, false,
        |step| step.more.device_write_amplification;
    "directory_bytes_max", "data directory, largest", "bytes", Lower, false,
        |step| step.sizes.directory_bytes_max.map(|bytes| bytes as f64);
    "directory_apparent_bytes", "data directory, lengths of files", "bytes", Lower, false,
        |step| step.sizes.directory_apparent_bytes.map(|bytes| bytes as f64);
    "space_amplification", "space amplification", "×", Lower, true,
        |step| step.sizes.space_amplification;
    "rows_per_second", "rows returned", "rows/s", Higher, false,
        |step| (step.more.rows_returned > 0).then_some(step.more.rows_per_second);
    "write_kind_us_p99_max", "replay: p99 of the slowest kind of write", "µs", Lower, false,
        |step| worst_write(step, |latency| percentile(latency, 99.0));
    "write_kind_us_max", "replay: longest write", "µs", Lower, false,
        |step| worst_write(step, |latency| (latency.calls > 0).then_some(latency.max_us));
    "differences", "replay: answers that differ from the recording", "", Lower, false,
        |step| step.more.replay.as_ref().map(|replay| replay.differences() as f64);
];

/// The metric called `id`.
pub fn find(id: &str) -> Option<&'static Metric> {
    ALL.iter().find(|metric| metric.id == id)
}

impl Metric {
    /// The value, if it was observed and is a number.
    pub fn value(&self, step: &StepResult) -> Option<f64> {
        (self.of)(step).filter(|value| value.is_finite())
    }

    /// Its unit for a step that counts `ops`.
    pub fn unit_for(&self, ops: &str) -> String {
        self.unit.replace("ops", ops)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_own_counters_are_metrics() {
        let mut run: crate::result::RunResult =
            serde_json::from_str(include_str!("../tests/data/point.json")).unwrap();
        let step = &mut run.steps[0];
        let value = |step: &StepResult, id: &str| find(id).unwrap().value(step);
        assert_eq!(value(step, "engine_write_amplification"), None);
        step.more.statistics = serde_json::json!({
            "counters_since_last": { "write_amplification": 3.5, "stall_us": 1_500_000 }
        });
        assert_eq!(
            (
                value(step, "engine_write_amplification"),
                value(step, "engine_stall_s")
            ),
            (Some(3.5), Some(1.5))
        );
    }

    #[test]
    fn identifiers_are_unique() {
        for metric in ALL {
            assert_eq!(
                ALL.iter().filter(|other| other.id == metric.id).count(),
                1,
                "{}",
                metric.id
            );
        }
    }
}
