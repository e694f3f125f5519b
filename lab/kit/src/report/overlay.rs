//! Several steps or runs in one chart: throughput on a shared scale and each on its own, cumulative
//! average, percentiles, bars.

use metrics::LatencyHistogram;

use super::axis::Quantity;
use super::bars::{BarSeries, Bars};
use super::chart::{Chart, Line};
use crate::format;
use crate::result::StepResult;
use crate::statistics;

/// Colours there are.
pub(super) const COLOURS: usize = 8;
/// Points of a line at most.
const POINTS_MAX: f64 = 600.0;

/// A step under the name it has in the legend.
pub(super) struct LegendStep<'a> {
    /// Name.
    pub(super) name: String,
    /// Colour 1 to 8.
    pub(super) colour: u8,
    /// The step.
    pub(super) step: &'a StepResult,
}

/// The colour of the line number `at`.
pub(super) fn colour(at: usize) -> u8 {
    u8::try_from(at % COLOURS + 1).unwrap_or(1)
}

/// Rates over common periods of time: each is the average over the part of the measured time in the
/// period.
struct Grid {
    width: f64,
    rates: Vec<Vec<Option<f64>>>,
}

impl Grid {
    fn of(all: &[LegendStep<'_>]) -> Self {
        let measured = |step: &StepResult| {
            step.series
                .iter()
                .find(|point| !point.warmup)
                .map_or(0.0, |point| point.start_s)
        };
        let end = all
            .iter()
            .filter_map(|one| {
                one.step
                    .series
                    .last()
                    .map(|point| point.end_s() - measured(one.step))
            })
            .fold(0.0, f64::max);
        let longest = all
            .iter()
            .flat_map(|one| &one.step.series)
            .map(|point| point.seconds)
            .fold(0.0, f64::max);
        let width = longest.round().max(1.0).max((end / POINTS_MAX).ceil());
        let slots = (end / width).ceil().max(0.0) as usize;
        let rates = all.iter().map(|one| {
            let (mut ops, mut seconds) = (vec![0.0; slots], vec![0.0; slots]);
            let begin = measured(one.step);
            for point in one.step.series.iter().filter(|point| !point.warmup) {
                let (from, to) = (point.start_s - begin, point.end_s() - begin);
                let first = (from / width).floor().max(0.0) as usize;
                for slot in first..slots {
                    let shared = to.min((slot + 1) as f64 * width) - from.max(slot as f64 * width);
                    if shared <= 0.0 {
                        break;
                    }
                    if let (Some(ops), Some(seconds)) = (ops.get_mut(slot), seconds.get_mut(slot)) {
                        *ops += point.rate() * shared;
                        *seconds += shared;
                    }
                }
            }
            // A period that is mostly empty shows no rate, unless the step is shorter than one
            // period.
            let least = if slots == 1 { width.min(end) } else { width } * 0.5;
            ops.into_iter()
                .zip(seconds)
                .map(|(ops, seconds)| (seconds >= least).then(|| ops / seconds))
                .collect()
        });
        Self {
            width,
            rates: rates.collect(),
        }
    }

    fn chart(&self, title: &str, y_title: &str) -> Chart {
        let slots = self.rates.iter().map(Vec::len).max().unwrap_or(0);
        // A stretch at the end in which no run has a rate was not measured.
        let used = self
            .rates
            .iter()
            .filter_map(|rates| rates.iter().rposition(Option::is_some))
            .max()
            .map_or(0, |last| last + 1);
        Chart {
            title: title.to_owned(),
            caption: String::new(),
            half: false,
            x_title: "Time since measuring began (s)".to_owned(),
            x: (0..slots)
                .map(|slot| (slot as f64 + 0.5) * self.width)
                .collect(),
            x_readout: (0..slots)
                .map(|slot| {
                    format!(
                        "{} to {} s",
                        slot as f64 * self.width,
                        (slot + 1) as f64 * self.width
                    )
                })
                .collect(),
            x_range: (0.0, (used as f64 * self.width).max(1.0)),
            x_ticks: None,
            y_title: y_title.to_owned(),
            quantity: Quantity::Number,
            lines: Vec::new(),
            band: None,
            reference: None,
            warmup_end: 0.0,
            stalls: Vec::new(),
            opens_logarithmic: false,
        }
    }
}

/// Throughput of all on one scale, then each on its own, then the cumulative averages; as HTML.
pub(super) fn throughput(all: &[LegendStep<'_>], unit: &str) -> String {
    let grid = Grid::of(all);
    let y_title = format!("{unit} per second");
    let line = |one: &LegendStep<'_>, values: &[Option<f64>]| Line {
        name: one.name.clone(),
        colour: one.colour,
        values: values.to_vec(),
        is_dots: false,
    };
    let lines: Vec<Line> = all
        .iter()
        .zip(&grid.rates)
        .map(|(one, values)| line(one, values))
        .collect();
    let mut out = Chart {
        caption: format!(
            "Each point {} s; warm-up left out; one scale for all.",
            grid.width
        ),
        lines: lines.clone(),
        ..grid.chart("Throughput on a shared scale", &y_title)
    }
    .render();
    let cumulative = lines.iter().map(|line| {
        let (mut sum, mut count) = (0.0, 0.0);
        let values = line.values.iter().map(|value| {
            value.map(|value| {
                (sum, count) = (sum + value, count + 1.0);
                sum / count
            })
        });
        Line {
            values: values.collect(),
            ..line.clone()
        }
    });
    out.push_str(
        &Chart {
            caption: "All operations so far by all seconds so far.".to_owned(),
            lines: cumulative.collect(),
            ..grid.chart("Cumulative average", &y_title)
        }
        .render(),
    );
    if lines.len() > 1 {
        out.push_str(
            "<details class=\"apart\"><summary>Throughput of each on a scale of its \
            own</summary>\n<div class=\"charts\">\n",
        );
        for line in lines {
            out.push_str(
                &Chart {
                    half: true,
                    caption: "On a scale of its own.".to_owned(),
                    lines: vec![line.clone()],
                    ..grid.chart(&format!("Throughput: {}", line.name), &y_title)
                }
                .render(),
            );
        }
        out.push_str("</div></details>\n");
    }
    out
}

/// Latency by percentile of all, histograms of one name merged.
pub(super) fn percentiles(groups: &[(String, u8, Vec<&StepResult>)]) -> Chart {
    let merged: Vec<(LatencyHistogram, u64, f64)> = groups
        .iter()
        .map(|(_, _, steps)| {
            let (mut all, mut calls, mut longest) = (LatencyHistogram::default(), 0, 0.0_f64);
            for step in steps {
                all.merge(&LatencyHistogram::from_base64(&step.latency.hdr).unwrap_or_default());
                calls += step.latency.calls;
                longest = longest.max(step.latency.max_us);
            }
            (all, calls, longest)
        })
        .collect();
    let most = merged
        .iter()
        .map(|(_, calls, _)| *calls)
        .max()
        .unwrap_or(0)
        .max(10);
    let nines_max = (most as f64).log10();
    let nines: Vec<f64> = (0..=120)
        .map(|number| nines_max * f64::from(number) / 120.0)
        .collect();
    let percent = |nines: f64| 100.0 * (1.0 - 10_f64.powf(-nines));
    let lines =
        groups
            .iter()
            .zip(&merged)
            .map(|((name, colour, _), (histogram, calls, longest))| Line {
                name: name.clone(),
                colour: *colour,
                values: nines
                    .iter()
                    .map(|nines| {
                        (*calls > 0 && *nines <= (*calls as f64).log10())
                            .then(|| histogram.percentile_us(percent(*nines)).min(*longest))
                    })
                    .collect(),
                is_dots: false,
            });
    let names = [
        "0 %",
        "90 %",
        "99 %",
        "99.9 %",
        "99.99 %",
        "99.999 %",
        "99.9999 %",
        "99.99999 %",
    ];
    Chart {
        title: "Latency by percentile".to_owned(),
        caption: "At 99 %, one call in a hundred took longer.".to_owned(),
        half: false,
        x_title: "Share of calls that were faster".to_owned(),
        x_range: (0.0, nines_max),
        x_ticks: Some(
            names
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
        lines: lines.collect(),
        x: nines,
        y_title: "latency".to_owned(),
        quantity: Quantity::LatencyUs,
        band: None,
        reference: None,
        warmup_end: 0.0,
        stalls: Vec::new(),
        opens_logarithmic: true,
    }
}

/// Averages side by side.
pub(super) fn bars(
    title: &str,
    unit: &str,
    quantity: Quantity,
    all: &[(String, Option<f64>)],
) -> Bars {
    Bars {
        title: title.to_owned(),
        caption: String::new(),
        x_title: "step".to_owned(),
        groups: all.iter().map(|(name, _)| name.clone()).collect(),
        y_title: unit.to_owned(),
        quantity,
        series: vec![BarSeries {
            name: unit.to_owned(),
            colour: 1,
            values: all.iter().map(|(_, value)| *value).collect(),
            intervals: Vec::new(),
        }],
        half: all.len() <= 6,
    }
}

/// Latency over documents scanned: a dot for each interval, and the line that fits the medians
/// best.
pub(super) fn scatter(scanned: &[(u32, &StepResult)]) -> Option<Chart> {
    if scanned.len() < 2 {
        return None;
    }
    let (mut x, mut readout, mut p50, mut p99, mut points) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (documents, step) in scanned {
        for point in step
            .series
            .iter()
            .filter(|point| !point.warmup && point.calls > 0)
        {
            x.push(f64::from(*documents).max(1.0).log10());
            readout.push(format!(
                "{documents} documents, second {}",
                format::number(point.start_s)
            ));
            p50.push(Some(point.latency_us_p50));
            p99.push(Some(point.latency_us_p99));
            points.push((f64::from(*documents), point.latency_us_p50));
        }
    }
    let highest = scanned.iter().map(|(documents, _)| *documents).max()?;
    let decades = f64::from(highest).log10().ceil().max(1.0);
    let caption = statistics::line(&points).map_or_else(String::new, |fit| {
        format!(
            "Medians follow {} + {} for each document scanned; the line explains {:.1} % of their \
                variance.",
            format::latency_us(fit.at_zero.max(0.0)),
            format::latency_us(fit.slope.max(0.0)),
            fit.r_squared * 100.0
        )
    });
    let dots = |name: &str, colour, values| Line {
        name: name.to_owned(),
        colour,
        values,
        is_dots: true,
    };
    Some(Chart {
        title: "Latency by documents scanned".to_owned(),
        caption: format!("A dot for each interval. {caption}"),
        half: false,
        x_title: "Documents scanned per query (logarithmic)".to_owned(),
        x,
        x_readout: readout,
        x_range: (-0.15, decades + 0.15),
        x_ticks: Some(
            (0..=decades as i32)
                .map(|power| (f64::from(power), format::axis(10_f64.powi(power))))
                .collect(),
        ),
        y_title: "latency".to_owned(),
        quantity: Quantity::LatencyUs,
        lines: vec![dots("median", 1, p50), dots("p99", 2, p99)],
        band: None,
        reference: None,
        warmup_end: f64::NEG_INFINITY,
        stalls: Vec::new(),
        opens_logarithmic: true,
    })
}
