//! From results to series.

use std::collections::BTreeMap;

use super::change_points::change_points;
use crate::metric::{self, Better, Metric};
use crate::result::RunResult;
use crate::statistics::{Estimate, ratio_of_groups};

/// What is followed.
const METRICS: [&str; 6] = [
    "rate",
    "latency_us_p50",
    "latency_us_p99",
    "server_cpu_us_per_op",
    "device_write_kb_per_op",
    "bytes_per_document",
];

/// One run of a series.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its id.
    pub run: String,
    /// When it began.
    pub at: String,
    /// What was measured, with its version.
    pub version: String,
    /// The metric.
    pub value: f64,
}

/// A change of a series.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The number of the first run after it.
    pub at: usize,
    /// After by before, with its interval of 95 %; none where values are not above zero.
    pub ratio: Option<Estimate>,
    /// Whether it became better.
    pub is_better: bool,
}

/// A metric of one step over time, under the same conditions.
#[derive(Clone)]
pub struct Series {
    /// Workload, target and conditions.
    pub name: String,
    /// The workload.
    pub workload: String,
    /// The kind of target.
    pub target: String,
    /// The step.
    pub step: String,
    /// What it counts.
    pub unit: String,
    /// The metric.
    pub metric: &'static Metric,
    /// Its runs, in order of time.
    pub entries: Vec<Entry>,
    /// Its changes.
    pub changes: Vec<Change>,
}

/// What must agree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Conditions {
    workload: String,
    target: String,
    labels: String,
    settings: String,
    machine: String,
}

impl Conditions {
    fn of(run: &RunResult) -> Self {
        // A version of its own may follow the name of a product.
        let product = run.target.product.split(' ').next().unwrap_or_default();
        let engine = run.target.storage_engine.clone().unwrap_or_default();
        let labels: Vec<String> = run
            .run
            .labels
            .iter()
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        Self {
            workload: run.run.workload.clone(),
            target: format!("{product} {engine}").trim().to_owned(),
            labels: labels.join(", "),
            settings: format!(
                "{} {:?} {}",
                serde_json::to_string(&run.settings).unwrap_or_default(),
                run.memory_limit.as_ref().map(|limit| limit.bytes),
                run.target.write_concern
            ),
            machine: format!(
                "{} × {}, {} build",
                run.environment.cpus, run.environment.cpu_model, run.environment.lab_profile
            ),
        }
    }
}

/// The series of complete and right runs, those with most changes for the worse first.
pub fn series(runs: &[RunResult]) -> Vec<Series> {
    let is_usable = |run: &&RunResult| {
        run.run.complete && run.checks.iter().all(|check| check.passed != Some(false))
    };
    let mut sorted: Vec<&RunResult> = runs.iter().filter(is_usable).collect();
    sorted.sort_by(|one, other| {
        (&one.run.started_at, &one.run.id).cmp(&(&other.run.started_at, &other.run.id))
    });
    let mut groups: BTreeMap<Conditions, Vec<&RunResult>> = BTreeMap::new();
    for run in sorted {
        groups.entry(Conditions::of(run)).or_default().push(run);
    }
    let mut out = Vec::new();
    for (conditions, runs) in &groups {
        let Some(first) = runs.first() else { continue };
        for step in first.steps.iter().filter(|step| step.measured) {
            for metric in METRICS.iter().filter_map(|id| metric::named(id)) {
                out.extend(one(conditions, runs, (&step.name, &step.unit), metric));
            }
        }
    }
    out.sort_by_key(|one| std::cmp::Reverse(one.changes.iter().filter(|c| !c.is_better).count()));
    out
}

fn one(
    conditions: &Conditions,
    runs: &[&RunResult],
    (step, unit): (&str, &str),
    metric: &'static Metric,
) -> Option<Series> {
    let entries: Vec<Entry> = runs
        .iter()
        .filter_map(|run| {
            let found = run.steps.iter().find(|other| other.name == step)?;
            Some(Entry {
                run: run.run.id.clone(),
                at: run.run.started_at.clone(),
                version: run.target.name(),
                value: metric.value(found)?,
            })
        })
        .collect();
    if entries.is_empty() {
        return None;
    }
    let values: Vec<f64> = entries.iter().map(|entry| entry.value).collect();
    let points = change_points(&values);
    let changes = points.iter().enumerate().map(|(number, at)| {
        let begin = number.checked_sub(1).and_then(|before| points.get(before));
        let end = points.get(number + 1).copied().unwrap_or(values.len());
        let before = values
            .get(begin.copied().unwrap_or(0)..*at)
            .unwrap_or_default();
        let after = values.get(*at..end).unwrap_or_default();
        let mean = |side: &[f64]| side.iter().sum::<f64>() / side.len().max(1) as f64;
        Change {
            at: *at,
            ratio: ratio_of_groups(before, after),
            is_better: (mean(after) > mean(before)) == (metric.better == Better::Higher),
        }
    });
    let mut name = format!("{} on {}", conditions.workload, conditions.target);
    if !conditions.labels.is_empty() {
        name += &format!(" ({})", conditions.labels);
    }
    Some(Series {
        changes: changes.collect(),
        name,
        workload: conditions.workload.clone(),
        target: conditions.target.clone(),
        step: step.to_owned(),
        unit: unit.to_owned(),
        metric,
        entries,
    })
}

impl Series {
    /// The changes in words, one line each.
    pub fn lines(&self) -> Vec<String> {
        let percent = |ratio: f64| (ratio - 1.0) * 100.0;
        self.changes
            .iter()
            .map(|change| {
                let entry = self.entries.get(change.at);
                let size = change.ratio.map_or_else(
                    || "changed".to_owned(),
                    |ratio| {
                        format!(
                            "{:+.1} % ({:+.1} to {:+.1})",
                            percent(ratio.mean),
                            percent(ratio.low),
                            percent(ratio.high)
                        )
                    },
                );
                format!(
                    "{}: {}, step {}, {}: {size} since {} ({}, {})",
                    if change.is_better { "better" } else { "WORSE" },
                    self.name,
                    self.step,
                    self.metric.name,
                    entry.map_or("", |entry| entry.at.as_str()),
                    entry.map_or("", |entry| entry.version.as_str()),
                    entry.map_or("", |entry| entry.run.as_str()),
                )
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(number: u32, rate: f64) -> RunResult {
        let mut run: RunResult =
            serde_json::from_str(include_str!("../../tests/data/point.json")).unwrap();
        run.run.complete = true;
        run.checks.clear();
        run.run.id = format!("run-{number:02}");
        run.run.started_at = format!("2026-11-{:02}T10:00:00Z", number + 1);
        for step in run.steps.iter_mut().filter(|step| step.measured) {
            step.rate.average = rate;
        }
        run
    }

    #[test]
    fn a_planted_slowdown_is_dated_sized_and_called_worse() {
        // Given out of order; values alternate by 1 %.
        let runs: Vec<RunResult> = (0..30)
            .rev()
            .map(|number| {
                let level = if number >= 18 { 950.0 } else { 1_000.0 };
                run(number, level * (1.0 + 0.01 * f64::from(number % 3)))
            })
            .collect();
        let all = series(&runs);
        let rate = all.iter().find(|one| one.metric.id == "rate").unwrap();
        assert_eq!(rate.entries.len(), 30);
        let [change] = rate.changes.as_slice() else {
            panic!("{:?}", rate.changes);
        };
        assert_eq!((change.at, change.is_better), (18, false));
        assert!((change.ratio.unwrap().mean - 0.95).abs() < 0.01);
        let line = &rate.lines()[0];
        assert!(
            line.starts_with("WORSE: point on") && line.contains("run-18"),
            "{line}"
        );
        // Metrics that did not change have no changes.
        assert_eq!(all.iter().map(|one| one.changes.len()).sum::<usize>(), 1);
        assert_eq!(all[0].metric.id, "rate", "what became worse stands first");
    }

    #[test]
    fn other_conditions_are_another_series_and_wrong_runs_are_none() {
        let mut other = run(3, 1.0);
        other.settings.clients += 1;
        let mut wrong = run(4, 1.0);
        wrong.run.complete = false;
        let all = series(&[run(1, 1.0), run(2, 1.0), other, wrong]);
        let rates: Vec<usize> = all
            .iter()
            .filter(|one| one.metric.id == "rate")
            .map(|one| one.entries.len())
            .collect();
        assert_eq!(rates.iter().sum::<usize>(), 3);
        assert_eq!(rates.len(), 2);
    }
}
