//! The statistics of repeats: the mean of each metric with its interval, and the ratio of each
//! configuration to the first, pair by pair in order of time, with a verdict.
//!
//! Promises: the same method as `compare`. Nothing where no configuration has two runs.

use std::fmt::Write;

use super::by_clients::{Configuration, interval_of};
use super::html::{capital, escape};
use crate::compare::{Verdict, compare_metric};
use crate::format;
use crate::metric::{self, Metric};
use crate::result::{RunResult, StepResult};
use crate::statistics::Estimate;

const METRICS: [&str; 8] = [
    "rate",
    "latency_us_p50",
    "latency_us_p99",
    "latency_us_p999",
    "server_cpu_us_per_op",
    "device_write_kb_per_op",
    "server_rss_bytes_max",
    "stalled_s",
];

/// The tables of a step at one number of clients; `cells` are the runs of each configuration.
pub(super) fn write(
    out: &mut String,
    step: &StepResult,
    clients: u32,
    cells: &[Vec<&RunResult>],
    configurations: &[Configuration<'_>],
) {
    if cells.iter().all(|runs| runs.len() < 2) {
        return;
    }
    let named: Vec<(&str, &Vec<&RunResult>)> = configurations
        .iter()
        .zip(cells)
        .filter(|(_, runs)| !runs.is_empty())
        .map(|(one, runs)| (one.name.as_str(), runs))
        .collect();
    let plural = if clients == 1 { "client" } else { "clients" };
    let _ = write!(
        out,
        "<div class=\"card scroll\"><h3>Step {}, {clients} {plural}: repeats</h3><p \
            class=\"muted\">Means with intervals of 95 % (Student's t). Ratios to the first are \
            geometric means of pairs in order of time; a verdict needs an interval without 1 and \
            a change of 1 %. Of twenty such intervals one is wrong by chance.</p><table \
            class=\"right steps\"><thead><tr><th scope=\"col\">metric</th>",
        escape(&step.name)
    );
    for (at, (name, runs)) in named.iter().enumerate() {
        let _ = write!(
            out,
            "<th scope=\"col\">{}, {} runs</th>",
            escape(name),
            runs.len()
        );
        if at > 0 {
            out.push_str("<th scope=\"col\">by the first</th>");
        }
    }
    out.push_str("</tr></thead><tbody>\n");
    for metric in METRICS.iter().filter_map(|id| metric::find(id)) {
        write_row(out, step, metric, &named);
    }
    out.push_str("</tbody></table></div>\n");
}

fn write_row(
    out: &mut String,
    step: &StepResult,
    metric: &Metric,
    named: &[(&str, &Vec<&RunResult>)],
) {
    let values = |runs: &[&RunResult]| -> Vec<Option<f64>> {
        runs.iter()
            .map(|run| {
                let found = run.steps.iter().find(|other| other.name == step.name)?;
                metric.value(found)
            })
            .collect()
    };
    let all: Vec<Vec<Option<f64>>> = named.iter().map(|(_, runs)| values(runs)).collect();
    if all
        .iter()
        .flatten()
        .all(|value| value.unwrap_or(0.0) == 0.0)
    {
        return;
    }
    let unit = metric.unit_for(&step.unit);
    let _ = write!(
        out,
        "<tr><th scope=\"row\">{}{}{}</th>",
        escape(&capital(metric.name)),
        if unit.is_empty() { "" } else { ", " },
        escape(&unit)
    );
    for (at, (_, runs)) in named.iter().enumerate() {
        let cell = match interval_of(runs.iter().copied(), &step.name, metric) {
            Some(found) => interval(&found),
            None => {
                let only = all
                    .get(at)
                    .and_then(|values| values.first().copied().flatten());
                only.map_or_else(|| "–".to_owned(), format::number)
            }
        };
        let _ = write!(out, "<td>{cell}</td>");
        if at == 0 {
            continue;
        }
        let (class, text) = match (all.first(), all.get(at)) {
            (Some(base), Some(other)) => ratio(metric, base, other, &step.unit),
            _ => ("", "–".to_owned()),
        };
        let _ = write!(out, "<td{class}>{text}</td>");
    }
    out.push_str("</tr>\n");
}

fn interval(found: &Estimate) -> String {
    format!(
        "{} <small>({} to {})</small>",
        format::number(found.mean),
        format::number(found.low),
        format::number(found.high)
    )
}

/// The ratio of pairs, with a class for its verdict.
fn ratio(
    metric: &Metric,
    base: &[Option<f64>],
    other: &[Option<f64>],
    unit: &str,
) -> (&'static str, String) {
    let pairs: Vec<(f64, f64)> = base
        .iter()
        .zip(other)
        .filter_map(|(a, b)| a.zip(*b))
        .collect();
    if pairs.is_empty() {
        return ("", "–".to_owned());
    }
    let found = compare_metric(metric, &pairs, unit);
    let class = match found.verdict {
        Verdict::Better => " class=\"up\"",
        Verdict::Worse => " class=\"down\"",
        Verdict::NoDifferenceSeen | Verdict::TooFewRepeats => "",
    };
    let text = match (found.change_percent, found.difference) {
        (Some(change), _) => {
            let times = |percent: f64| 1.0 + percent / 100.0;
            format!(
                "{:.3} <small>({:.3} to {:.3}), {}</small>",
                times(change.mean),
                times(change.low),
                times(change.high),
                found.verdict.name()
            )
        }
        (None, Some(difference)) => format!(
            "{} <small>({} to {}) more, {}</small>",
            format::number(difference.mean),
            format::number(difference.low),
            format::number(difference.high),
            found.verdict.name()
        ),
        (None, None) => found.verdict.name().to_owned(),
    };
    (class, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(rate: f64) -> RunResult {
        let mut run: RunResult =
            serde_json::from_str(include_str!("../../tests/data/point.json")).unwrap();
        for step in run.steps.iter_mut().filter(|step| step.measured) {
            step.rate.average = rate;
        }
        run
    }

    #[test]
    fn pairs_give_a_ratio_with_its_interval_and_a_verdict() {
        let a = [run(100.0), run(110.0), run(90.0)];
        let b = [run(200.0), run(221.0), run(179.0)];
        let (a, b): (Vec<&RunResult>, Vec<&RunResult>) = (a.iter().collect(), b.iter().collect());
        let configurations = ["a", "b"].map(|name| Configuration {
            name: name.to_owned(),
            full_name: String::new(),
            colour: 1,
            runs: Vec::new(),
        });
        let step = a[0].main_step().unwrap().clone();
        let mut page = String::new();
        write(&mut page, &step, 1, &[a.clone(), b], &configurations);
        let row = page
            .lines()
            .find(|line| line.contains("Throughput"))
            .unwrap();
        assert!(row.contains("100 <small>(75.2 to 125)</small>"), "{row}");
        assert!(
            row.contains("class=\"up\">1.999 <small>(1.97") && row.contains("better"),
            "{row}"
        );
        let mut single = String::new();
        write(&mut single, &step, 1, &[vec![a[0]]], &configurations[..1]);
        assert_eq!(single, "");
    }
}
