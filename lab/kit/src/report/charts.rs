//! Which charts a step gets, from its series.

use metrics::LatencyHistogram;

use super::axis::Quantity;
use super::chart::{Chart, Line};
use crate::format;
use crate::result::{RunResult, StepResult};
use crate::series::Point;
use crate::workload::Operation;

/// All charts of a step, in the order of reading.
pub(super) fn of_step(result: &RunResult, step: &StepResult) -> Vec<Chart> {
    if step.series.is_empty() {
        return Vec::new();
    }
    let mut out = vec![
        throughput(step),
        latency(step),
        cumulative(step),
        percentiles(step),
        cpu(result, step),
    ];
    out.extend(storage(step));
    out.extend(memory(step));
    // Half-width charts form pairs; a single one at the end takes the whole width.
    if out.iter().filter(|chart| chart.half).count() % 2 == 1
        && let Some(last) = out.last_mut()
    {
        last.half = false;
    }
    out
}

/// Seconds, minutes or hours, whichever keeps the axis short.
fn time_unit(step: &StepResult) -> (f64, &'static str) {
    match step.series.last().map_or(0.0, Point::end_s) {
        end if end <= 600.0 => (1.0, "s"),
        end if end <= 14_400.0 => (60.0, "min"),
        _ => (3_600.0, "h"),
    }
}

/// A chart over time without its lines.
pub(super) fn time_chart(
    step: &StepResult,
    title: &str,
    y_title: &str,
    quantity: Quantity,
) -> Chart {
    let (divisor, unit) = time_unit(step);
    let end = step.series.last().map_or(1.0, Point::end_s);
    let warmup_end = step
        .series
        .iter()
        .filter(|point| point.warmup)
        .map(Point::end_s)
        .fold(0.0, f64::max);
    Chart {
        title: title.to_owned(),
        caption: String::new(),
        half: false,
        x_title: format!("Time since the step began ({unit})"),
        x: step
            .series
            .iter()
            .map(|point| (point.start_s + point.seconds / 2.0) / divisor)
            .collect(),
        x_readout: step
            .series
            .iter()
            .map(|point| {
                format!(
                    "{} to {} s",
                    format::number(point.start_s),
                    format::number(point.end_s())
                )
            })
            .collect(),
        x_range: (0.0, end / divisor),
        x_ticks: None,
        y_title: y_title.to_owned(),
        quantity,
        lines: Vec::new(),
        band: None,
        reference: None,
        warmup_end: warmup_end / divisor,
        stalls: step
            .stalls
            .stretches
            .iter()
            .map(|stall| {
                (
                    stall.start_s / divisor,
                    (stall.start_s + stall.seconds) / divisor,
                )
            })
            .collect(),
        opens_logarithmic: false,
    }
}

fn line(name: &str, colour: u8, step: &StepResult, value: impl Fn(&Point) -> Option<f64>) -> Line {
    Line {
        name: name.to_owned(),
        colour,
        values: step.series.iter().map(value).collect(),
        is_dots: false,
    }
}

/// A short last point says little about a rate.
pub(super) fn is_whole(point: &Point) -> bool {
    point.seconds >= 0.5
}

fn throughput(step: &StepResult) -> Chart {
    let unit = &step.unit;
    let width = step
        .series
        .iter()
        .map(|point| point.seconds)
        .fold(0.0, f64::max)
        .round();
    let is_merged = width >= 2.0;
    let name = if is_merged {
        format!("{unit} per second, each point {width} s")
    } else {
        format!("{unit} per second")
    };
    let few = step.rate.intervals < 3;
    // One interval has no deviation.
    let deviation = if step.rate.intervals < 2 {
        String::new()
    } else {
        let share = step.rate.coefficient_of_variation;
        format!(
            "; standard deviation {}{}",
            format::number(step.rate.stddev),
            share.map_or_else(String::new, |share| format!(
                " ({} % of the mean)",
                format::number(share * 100.0)
            ))
        )
    };
    Chart {
        caption: format!(
            "Average {} {unit}/s{deviation}; 99 % of the seconds reached {}.",
            format::number(step.rate.average),
            format::number(step.rate.met_in_99_percent),
        ),
        lines: vec![line(&name, 1, step, |point| {
            (few || is_whole(point)).then(|| point.rate())
        })],
        band: is_merged.then(|| {
            step.series
                .iter()
                .map(|point| (point.rate_min, point.rate_max))
                .collect()
        }),
        reference: Some((
            step.rate.average,
            format!("average {}", format::number(step.rate.average)),
        )),
        ..time_chart(
            step,
            "Throughput",
            &format!("{unit} per second"),
            Quantity::Number,
        )
    }
}

/// The cumulative average. For inserts it is drawn over the number of stored documents, because
/// their number slows a tree down.
fn cumulative(step: &StepResult) -> Chart {
    let base = time_chart(
        step,
        "Cumulative average",
        &format!("{} per second", step.unit),
        Quantity::Number,
    );
    let (mut ops, mut seconds, mut stored) = (0, 0.0, 0);
    let (mut values, mut documents) = (Vec::new(), Vec::new());
    for point in &step.series {
        stored += point.ops;
        documents.push(stored as f64);
        if point.warmup {
            values.push(None);
            continue;
        }
        ops += point.ops;
        seconds += point.seconds;
        values.push((seconds > 0.5).then(|| ops as f64 / seconds));
    }
    let mut out = Chart {
        half: true,
        caption: "All operations so far by all seconds so far.".to_owned(),
        lines: vec![Line {
            name: "average so far".to_owned(),
            colour: 2,
            values,
            is_dots: false,
        }],
        stalls: Vec::new(),
        ..base
    };
    if step.operation == Operation::Insert {
        let warmup: u64 = step
            .series
            .iter()
            .filter(|point| point.warmup)
            .map(|point| point.ops)
            .sum();
        out.warmup_end = warmup as f64;
        out.x_readout = documents
            .iter()
            .map(|count| format!("{} documents", format::number(*count)))
            .collect();
        out.x_range = (0.0, stored.max(1) as f64);
        out.x = documents;
        out.x_title = "Documents inserted by this step".to_owned();
    }
    out
}

fn latency(step: &StepResult) -> Chart {
    let of = |name: &str, colour, value: fn(&Point) -> f64| {
        line(name, colour, step, |point| {
            (point.calls > 0).then(|| value(point))
        })
    };
    let from = if step.pacing == "open" {
        "the time at which a call was due (open loop)"
    } else {
        "sending a call (closed loop)"
    };
    let per_call = if step.batch > 1 {
        format!(" One call inserts {} documents.", step.batch)
    } else {
        String::new()
    };
    Chart {
        caption: format!("Per interval, from {from} to its reply.{per_call}"),
        lines: vec![
            of("median", 3, |point| point.latency_us_p50),
            of("p95", 1, |point| point.latency_us_p95),
            of("p99", 2, |point| point.latency_us_p99),
            of("longest", 4, |point| point.latency_us_max),
        ],
        opens_logarithmic: true,
        ..time_chart(step, "Latency of a call", "latency", Quantity::LatencyUs)
    }
}

/// The whole distribution: each step to the right has ten times fewer calls beyond it.
fn percentiles(step: &StepResult) -> Chart {
    let histogram = LatencyHistogram::from_base64(&step.latency.hdr).unwrap_or_default();
    let nines_max = (step.latency.calls.max(10) as f64).log10();
    let nines: Vec<f64> = (0..=120)
        .map(|number| nines_max * f64::from(number) / 120.0)
        .collect();
    let percent = |nines: f64| 100.0 * (1.0 - 10_f64.powf(-nines));
    let ticks = [
        "0 %",
        "90 %",
        "99 %",
        "99.9 %",
        "99.99 %",
        "99.999 %",
        "99.9999 %",
        "99.99999 %",
    ];
    let values = nines.iter().map(|nines| {
        (step.latency.calls > 0).then(|| {
            histogram
                .percentile_us(percent(*nines))
                .min(step.latency.max_us)
        })
    });
    Chart {
        half: true,
        caption: format!(
            "{} calls. At 99 %, one call in a hundred took longer.",
            format::count(step.latency.calls)
        ),
        x_title: "Share of calls that were faster".to_owned(),
        x_range: (0.0, nines_max),
        x_ticks: Some(
            ticks
                .iter()
                .enumerate()
                .map(|(at, text)| (at as f64, (*text).to_owned()))
                .take_while(|(at, _)| *at <= nines_max)
                .collect(),
        ),
        x_readout: nines
            .iter()
            .map(|nines| format!("{:.4} %", percent(*nines)))
            .collect(),
        lines: vec![Line {
            name: "latency".to_owned(),
            colour: 1,
            values: values.collect(),
            is_dots: false,
        }],
        x: nines,
        warmup_end: 0.0,
        stalls: Vec::new(),
        opens_logarithmic: true,
        ..time_chart(
            step,
            "Latency by percentile",
            "latency",
            Quantity::LatencyUs,
        )
    }
}

fn cpu(result: &RunResult, step: &StepResult) -> Chart {
    let cpus = result.environment.cpus.max(1) as f64;
    let cores = |time: Option<f64>, point: &Point| {
        time.filter(|_| is_whole(point))
            .map(|time| time / point.seconds)
    };
    let mut lines = Vec::new();
    if step.server.is_some() {
        lines.push(line("server", 1, step, |point| {
            cores(point.server_cpu_s, point)
        }));
    }
    lines.push(line("lab", 2, step, |point| {
        cores(Some(point.client_cpu_s), point)
    }));
    lines.push(line("whole machine", 3, step, |point| {
        is_whole(point).then(|| point.host_busy_percent / 100.0 * cpus)
    }));
    Chart {
        half: true,
        caption: format!("CPUs busy, of {cpus} there are."),
        lines,
        stalls: Vec::new(),
        ..time_chart(step, "CPU", "CPUs busy", Quantity::Number)
    }
}

fn storage(step: &StepResult) -> Option<Chart> {
    let rate = |bytes: Option<u64>, point: &Point| {
        bytes
            .filter(|_| is_whole(point))
            .map(|bytes| bytes as f64 / point.seconds)
    };
    let mut lines = Vec::new();
    if step.server.is_some() {
        lines.push(line("server writes", 1, step, |point| {
            rate(point.server_write_bytes, point)
        }));
        lines.push(line("server reads", 2, step, |point| {
            rate(point.server_read_bytes, point)
        }));
    }
    if step.device.is_some() {
        lines.push(line("device writes", 3, step, |point| {
            rate(point.disk_write_bytes, point)
        }));
        lines.push(line("device reads", 4, step, |point| {
            rate(point.disk_read_bytes, point)
        }));
    }
    (!lines.is_empty()).then(|| Chart {
        half: true,
        caption: "Server: pages it made dirty or had fetched. Device: what the block device was \
            asked to do."
            .to_owned(),
        lines,
        stalls: Vec::new(),
        ..time_chart(step, "Storage traffic", "bytes per second", Quantity::Bytes)
    })
}

fn memory(step: &StepResult) -> Option<Chart> {
    step.server.as_ref()?;
    let mut lines = vec![line("resident memory", 1, step, |point| {
        point.server_rss_bytes.map(|bytes| bytes as f64)
    })];
    // Measured every ten seconds only: each size is used until the next one is known.
    let mut known = None;
    let sizes = step.series.iter().map(|point| {
        known = point.directory_bytes.or(known);
        known.map(|bytes| bytes as f64)
    });
    let sizes: Vec<Option<f64>> = sizes.collect();
    if sizes.iter().any(Option::is_some) {
        lines.push(Line {
            name: "data directory".to_owned(),
            colour: 2,
            values: sizes,
            is_dots: false,
        });
    }
    Some(Chart {
        half: true,
        caption: "Of the server process.".to_owned(),
        lines,
        stalls: Vec::new(),
        ..time_chart(step, "Memory and data", "bytes", Quantity::Bytes)
    })
}
