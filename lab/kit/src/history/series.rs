//! Builds series from results.

use std::collections::BTreeMap;

use super::change_points::change_points;
use crate::metric::{self, Metric, MetricDirection};
use crate::result::{RunResult, StepResult};
use crate::statistics::{Estimate, ratio_of_groups};

/// The metrics of a history.
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
    /// The target, with its version.
    pub version: String,
    /// The target's build: the revision, if it is known.
    pub build: String,
    /// The metric.
    pub value: f64,
}

/// A change of a series.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The index of the first run after the change.
    pub at: usize,
    /// The mean after the change divided by the mean before, with its 95 % interval; `None` if
    /// values are not above zero.
    pub ratio: Option<Estimate>,
    /// Whether the metric became better.
    pub is_better: bool,
}

/// A metric of a step of one run, with its conditions.
#[derive(Clone)]
pub struct Value {
    /// Workload, target and labels.
    pub name: String,
    /// Other conditions that must be equal (settings, machine and build of the lab), as a code.
    pub conditions: String,
    /// The workload.
    pub workload: String,
    /// The kind of target.
    pub target: String,
    /// The step.
    pub step: String,
    /// Its unit.
    pub unit: String,
    /// The metric.
    pub metric: &'static Metric,
    /// The run and its value.
    pub entry: Entry,
}

/// A metric of one step over time, under the same conditions.
#[derive(Clone)]
pub struct Series {
    /// Workload, target and labels.
    pub name: String,
    /// Other equal conditions, as a code.
    pub conditions: String,
    /// The workload.
    pub workload: String,
    /// The kind of target.
    pub target: String,
    /// The step.
    pub step: String,
    /// Its unit.
    pub unit: String,
    /// The metric.
    pub metric: &'static Metric,
    /// Its runs, in order of time.
    pub entries: Vec<Entry>,
    /// Its changes.
    pub changes: Vec<Change>,
}

/// Conditions that must be equal in a series.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Conditions {
    workload: String,
    target: String,
    labels: String,
    settings: String,
    machine: String,
}

/// A label without the program that it names, so that all builds of a server form one series; each
/// value has its build.
fn remove_program(label: &str) -> &str {
    label
        .split_once(" and program ")
        .map_or(label, |(before, _)| before)
}

impl Conditions {
    fn of(run: &RunResult) -> Self {
        // The name of a product may be followed by its version.
        let product = run.target.product.split(' ').next().unwrap_or_default();
        let engine = run.target.storage_engine.clone().unwrap_or_default();
        let labels: Vec<String> = run
            .run
            .labels
            .iter()
            .map(|(name, value)| format!("{name} {}", remove_program(value)))
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

impl Conditions {
    /// A short code, different for different conditions.
    fn code(&self) -> String {
        let text = format!("{self:?}");
        // FNV-1a, because files store the code and it must be the same in each build of the lab.
        let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        format!("{:08x}", hash >> 32)
    }
}

/// The series of complete and correct runs; those with the most changes for the worse come first.
pub fn series(runs: &[RunResult]) -> Vec<Series> {
    series_of(values(runs))
}

/// The metrics of complete and correct runs.
pub fn values(runs: &[RunResult]) -> Vec<Value> {
    let is_usable = |run: &&RunResult| {
        run.run.complete && run.checks.iter().all(|check| check.passed != Some(false))
    };
    let mut out = Vec::new();
    for run in runs.iter().filter(is_usable) {
        let conditions = Conditions::of(run);
        for step in run.steps.iter().filter(|step| step.measured) {
            let metrics = METRICS.iter().filter_map(|id| metric::find(id));
            out.extend(metrics.filter_map(|metric| {
                let value = metric.value(step)?;
                Some(Value::new(run, step, &conditions, metric, value))
            }));
        }
    }
    out
}

/// Groups values, in any order, into series.
pub fn series_of(all: Vec<Value>) -> Vec<Series> {
    let mut groups: BTreeMap<Key, Vec<Value>> = BTreeMap::new();
    for value in all {
        groups.entry(value.key()).or_default().push(value);
    }
    let mut out: Vec<Series> = groups.into_values().filter_map(one).collect();
    out.sort_by_key(|one| {
        let worse = one.changes.iter().filter(|change| !change.is_better);
        let place = METRICS.iter().position(|id| *id == one.metric.id);
        (
            std::cmp::Reverse(worse.count()),
            one.name.clone(),
            one.conditions.clone(),
            place,
        )
    });
    out
}

/// The key of a series.
type Key = (String, String, String, &'static str);

fn one(mut all: Vec<Value>) -> Option<Series> {
    all.sort_by(|one, other| {
        (&one.entry.at, &one.entry.run).cmp(&(&other.entry.at, &other.entry.run))
    });
    // The same run may be in a file and in a folder.
    all.dedup_by(|one, other| one.entry.run == other.entry.run);
    let first = all.first()?.clone();
    let entries: Vec<Entry> = all.into_iter().map(|value| value.entry).collect();
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
            is_better: (mean(after) > mean(before))
                == (first.metric.better == MetricDirection::Higher),
        }
    });
    Some(Series {
        changes: changes.collect(),
        name: first.name,
        conditions: first.conditions,
        workload: first.workload,
        target: first.target,
        step: first.step,
        unit: first.unit,
        metric: first.metric,
        entries,
    })
}

impl Value {
    fn new(
        run: &RunResult,
        step: &StepResult,
        conditions: &Conditions,
        metric: &'static Metric,
        value: f64,
    ) -> Self {
        let mut name = format!("{} on {}", conditions.workload, conditions.target);
        if !conditions.labels.is_empty() {
            name += &format!(" ({})", conditions.labels);
        }
        Self {
            name,
            conditions: conditions.code(),
            workload: conditions.workload.clone(),
            target: conditions.target.clone(),
            step: step.name.clone(),
            unit: step.unit.clone(),
            metric,
            entry: Entry {
                run: run.run.id.clone(),
                at: run.run.started_at.clone(),
                version: run.target.name(),
                build: build_of(run),
                value,
            },
        }
    }

    fn key(&self) -> Key {
        let own = (self.name.clone(), self.conditions.clone());
        (own.0, own.1, self.step.clone(), self.metric.id)
    }
}

/// The shortest name that identifies a build: its revision, else its program's checksum, else its
/// version.
fn build_of(run: &RunResult) -> String {
    let told = run.target.build.as_deref().unwrap_or_default();
    let part = |word: &str| {
        let mut parts = told.split(", ");
        parts.find_map(|part| part.strip_prefix(word))
    };
    let revision = part("revision ").map(|revision| revision.chars().take(8).collect());
    let program = part("program ").map(|program| format!("program {program}"));
    let known = revision.or(program);
    known.unwrap_or_else(|| run.target.name())
}

impl Series {
    /// Describes the changes, one line each.
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
        // The runs are out of order; values alternate by 1 %.
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
