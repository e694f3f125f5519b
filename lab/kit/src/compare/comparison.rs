//! The comparison of two groups of runs: repeats in pairs, an interval for each change, a verdict
//! for each metric.
//!
//! Promises: groups that cannot be compared are refused, with the reason in one line; a single pair
//! never gives a verdict. The method: runs are paired in order of time; the change is the geometric
//! mean of the pairs' ratios, and its 95 % interval is Student's t on their logarithms. If a value
//! is zero, plain differences are used instead.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::folder::{FolderError, read_result};
use crate::metric::{ALL, Metric, MetricDirection};
use crate::result::{RunResult, StepResult};
use crate::statistics::{self, Estimate};

/// A smaller change, in percent, is ignored, however certain it is.
pub const SMALLEST_PERCENT: f64 = 1.0;

/// Runs that cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// A folder cannot be read.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// There are no runs.
    #[error("{} holds no run: it has neither a result.json nor folders with one", .0.display())]
    Empty(PathBuf),
    /// The runs are not of the same experiment.
    #[error("not comparable: {0}")]
    Differ(String),
}

/// The verdict of a comparison on a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// B is better.
    Better,
    /// B is worse.
    Worse,
    /// The interval includes no change, or the change is below [`SMALLEST_PERCENT`].
    NoDifferenceSeen,
    /// There is only one pair, which does not show how much values vary by chance.
    TooFewRepeats,
}

impl Verdict {
    /// A name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::NoDifferenceSeen => "no difference seen",
            Self::TooFewRepeats => "one pair: no verdict",
        }
    }
}

/// A comparison as `comparison.json` stores it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Comparison {
    /// Always `quarry-lab/comparison`.
    pub schema: String,
    /// Version of the schema.
    pub version: u32,
    /// Workload of all runs.
    pub workload: String,
    /// The names of A and B.
    pub names: [String; 2],
    /// Run ids, pair by pair.
    pub pairs: Vec<[String; 2]>,
    /// Remarks for readers.
    pub remarks: Vec<String>,
    /// Measured steps, in order.
    pub steps: Vec<StepComparison>,
}

/// The comparison of one step.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StepComparison {
    /// Its name.
    pub step: String,
    /// Its unit.
    pub unit: String,
    /// The metrics that both sides have.
    pub metrics: Vec<MetricComparison>,
}

/// The comparison of one metric.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MetricComparison {
    /// The id of the metric in `metric::ALL`.
    pub id: String,
    /// A name for people.
    pub name: String,
    /// Unit of `a` and `b`.
    pub unit: String,
    /// Mean of A's runs.
    pub a: f64,
    /// Mean of B's runs.
    pub b: f64,
    /// Change from A to B in percent of A, with its interval; `None` for one pair, or if a value is
    /// zero.
    pub change_percent: Option<Estimate>,
    /// The difference B − A in the metric's unit, with its interval, if a value is zero.
    pub difference: Option<Estimate>,
    /// The smallest change in percent that these repeats could have detected: half the width of the
    /// interval, but at least [`SMALLEST_PERCENT`]. `None` if there is no interval in percent.
    #[serde(default)]
    pub smallest_percent: Option<f64>,
    /// Verdict.
    pub verdict: Verdict,
}

/// Reads the runs of one side: a run's folder, its result.json, or a folder of such folders; in
/// order of time.
///
/// # Errors
/// There is no run, or a file cannot be read.
pub fn read_side(path: &Path) -> Result<Vec<RunResult>, CompareError> {
    if path.is_file() || path.join("result.json").is_file() {
        return Ok(vec![read_result(path)?]);
    }
    let entries = std::fs::read_dir(path).map_err(|source| FolderError::Read {
        path: path.to_owned(),
        source,
    })?;
    let mut out = Vec::new();
    for entry in entries.flatten() {
        if entry.path().join("result.json").is_file() {
            out.push(read_result(&entry.path())?);
        }
    }
    if out.is_empty() {
        return Err(CompareError::Empty(path.to_owned()));
    }
    out.sort_by(|left, right| {
        (&left.run.started_at, &left.run.id).cmp(&(&right.run.started_at, &right.run.id))
    });
    Ok(out)
}

/// Compares side B with side A. Settings named in `allowed` may differ between the sides.
///
/// # Errors
/// The runs are not repeats of one experiment.
pub fn compare(
    names: [String; 2],
    a: &[RunResult],
    b: &[RunResult],
    allowed: &[String],
) -> Result<Comparison, CompareError> {
    let (Some(first_a), Some(first_b)) = (a.first(), b.first()) else {
        return Err(CompareError::Differ("one side has no runs".to_owned()));
    };
    if a.len() != b.len() {
        return Err(CompareError::Differ(format!(
            "A has {} and B {}; repeats are compared in pairs",
            runs(a.len()),
            runs(b.len())
        )));
    }
    for (side, first) in [(a, first_a), (b, first_b)] {
        for run in side {
            is_usable(run)?;
            same_experiment(first, run, &[])?;
            if run.target.name() != first.target.name()
                || run.target.storage_engine != first.target.storage_engine
            {
                return Err(differ(
                    "the target",
                    &first.target.name(),
                    &run.target.name(),
                    first,
                    run,
                ));
            }
            same_configuration(first, run)?;
        }
    }
    same_experiment(first_a, first_b, allowed)?;
    let mut steps = Vec::new();
    for step in first_a.steps.iter().filter(|step| step.measured) {
        steps.push(compare_step(step, a, b));
    }
    Ok(Comparison {
        schema: "quarry-lab/comparison".to_owned(),
        version: 2,
        workload: first_a.run.workload.clone(),
        remarks: list_remarks(a, b, steps.iter().map(|step| step.metrics.len()).sum()),
        names,
        pairs: a
            .iter()
            .zip(b)
            .map(|(a, b)| [a.run.id.clone(), b.run.id.clone()])
            .collect(),
        steps,
    })
}

/// Checks that the repeats of one side have one target: the same address, write concern and memory
/// limit.
fn same_configuration(first: &RunResult, other: &RunResult) -> Result<(), CompareError> {
    let (wanted, found) = (first.configuration(), other.configuration());
    for (name, value) in &wanted {
        let here = found.get(name).map_or("", String::as_str);
        if here != value {
            return Err(differ(name, value, here, first, other));
        }
    }
    Ok(())
}

fn runs(count: usize) -> String {
    if count == 1 {
        "1 run".to_owned()
    } else {
        format!("{count} runs")
    }
}

fn differ(
    what: &str,
    here: &str,
    there: &str,
    first: &RunResult,
    other: &RunResult,
) -> CompareError {
    CompareError::Differ(format!(
        "{what} is {here} in {} and {there} in {}",
        first.run.id, other.run.id
    ))
}

/// Refuses a run that ended early or failed its checks, because its metrics cannot be compared.
pub(super) fn is_usable(run: &RunResult) -> Result<(), CompareError> {
    let id = &run.run.id;
    if !run.run.complete {
        return Err(CompareError::Differ(format!("{id} ended early")));
    }
    match run.checks.iter().find(|check| check.passed == Some(false)) {
        Some(check) => Err(CompareError::Differ(format!(
            "{id} failed a check: {}",
            check.name
        ))),
        None => Ok(()),
    }
}

/// Checks that work, settings, machine and build of the lab are the same.
fn same_experiment(
    first: &RunResult,
    other: &RunResult,
    allowed: &[String],
) -> Result<(), CompareError> {
    let check = |what: &str, here: String, there: String| {
        if here == there || allowed.iter().any(|name| name == what) {
            return Ok(());
        }
        Err(differ(what, &here, &there, first, other))
    };
    check(
        "workload",
        first.run.workload.clone(),
        other.run.workload.clone(),
    )?;
    let settings = |run: &RunResult| match serde_json::to_value(&run.settings) {
        Ok(serde_json::Value::Object(map)) => map,
        _ => serde_json::Map::new(),
    };
    let (here, there) = (settings(first), settings(other));
    for (name, value) in &here {
        let found = there.get(name).unwrap_or(&serde_json::Value::Null);
        if name != "preset" {
            check(name, plain(value), plain(found))?;
        }
    }
    let recording = |run: &RunResult| {
        let replay = run.main_step().and_then(|step| step.more.replay.as_ref());
        replay.map_or_else(
            || "none".to_owned(),
            |replay| {
                format!(
                    "{} at {}×, order {}",
                    replay.recording.fingerprint, replay.speed, replay.order
                )
            },
        )
    };
    check("recording", recording(first), recording(other))?;
    let names = |run: &RunResult| {
        run.steps
            .iter()
            .map(|step| step.name.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    };
    check("steps", names(first), names(other))?;
    let (here, there) = (&first.environment, &other.environment);
    check(
        "cpu",
        format!("{} × {}", here.cpus, here.cpu_model),
        format!("{} × {}", there.cpus, there.cpu_model),
    )?;
    let limit = |run: &RunResult| {
        let limit = run
            .memory_limit
            .as_ref()
            .map(|limit| limit.bytes)
            .or(run.environment.memory_limit_bytes);
        limit.map_or_else(
            || "none".to_owned(),
            |bytes| crate::format::bytes(bytes as f64),
        )
    };
    check("memory_limit", limit(first), limit(other))?;
    check(
        "lab_build",
        here.lab_profile.clone(),
        there.lab_profile.clone(),
    )?;
    check(
        "write_concern",
        first.target.write_concern.clone(),
        other.target.write_concern.clone(),
    )
}

fn plain(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Null => "not set".to_owned(),
        other => other.to_string(),
    }
}

fn list_remarks(a: &[RunResult], b: &[RunResult], metrics: usize) -> Vec<String> {
    let mut out = Vec::new();
    if a.len() == 1 {
        out.push(
            "One pair only: differences may be chance. Three pairs or more, run in turn (A, \
            B, A, B, …), allow a verdict."
                .to_owned(),
        );
        return out;
    }
    let times = |side: &[RunResult]| {
        side.iter()
            .map(|run| run.run.started_at.clone())
            .collect::<Vec<_>>()
    };
    let (a_times, b_times) = (times(a), times(b));
    if a_times.iter().max() < b_times.iter().min() || b_times.iter().max() < a_times.iter().min() {
        out.push(
            "All runs of one side came before all of the other: a drift of the machine would look \
                like a difference. \
             Run them in turn (A, B, A, B, …)."
                .to_owned(),
        );
    }
    out.push(format!(
        "Intervals hold with 95 % for each metric by itself: of {metrics} metrics about {:.0} may \
            show a difference by chance.",
        (metrics as f64 / 20.0).ceil()
    ));
    let debug = a
        .iter()
        .chain(b)
        .any(|run| run.environment.lab_profile == "debug");
    if debug {
        out.push(
            "The lab was a debug build: its own cost is too high for its numbers to be quoted."
                .to_owned(),
        );
    }
    out
}

fn compare_step(step: &StepResult, a: &[RunResult], b: &[RunResult]) -> StepComparison {
    let of = |run: &RunResult, metric: &Metric| {
        run.steps
            .iter()
            .find(|other| other.name == step.name)
            .and_then(|step| metric.value(step))
    };
    let mut metrics = Vec::new();
    for metric in ALL.iter().filter(|metric| metric.is_judged) {
        let pairs: Option<Vec<(f64, f64)>> = a
            .iter()
            .zip(b)
            .map(|(a, b)| of(a, metric).zip(of(b, metric)))
            .collect();
        let Some(pairs) = pairs else { continue };
        if pairs.iter().all(|(a, b)| *a == 0.0 && *b == 0.0) {
            continue;
        }
        metrics.push(compare_metric(metric, &pairs, &step.unit));
    }
    StepComparison {
        step: step.name.clone(),
        unit: step.unit.clone(),
        metrics,
    }
}

/// The smallest change, in percent, that can be detected with this interval of a ratio.
pub fn smallest_percent(ratio: Estimate) -> f64 {
    let half = (ratio.high / ratio.mean).max(ratio.mean / ratio.low);
    ((half - 1.0) * 100.0).max(SMALLEST_PERCENT)
}

/// Compares one metric from the pairs of its values.
pub fn compare_metric(metric: &Metric, pairs: &[(f64, f64)], ops: &str) -> MetricComparison {
    let mean = |pick: fn(&(f64, f64)) -> f64| {
        statistics::mean(&pairs.iter().map(pick).collect::<Vec<_>>()).unwrap_or(0.0)
    };
    let ratio = statistics::ratio(pairs);
    let change = ratio.map(|ratio| Estimate {
        mean: (ratio.mean - 1.0) * 100.0,
        low: (ratio.low - 1.0) * 100.0,
        high: (ratio.high - 1.0) * 100.0,
    });
    let has_zero = pairs.iter().any(|(a, b)| *a <= 0.0 || *b <= 0.0);
    let difference = has_zero
        .then(|| statistics::estimate(&pairs.iter().map(|(a, b)| b - a).collect::<Vec<_>>()))
        .flatten();
    let verdict = match change.or(difference) {
        None => Verdict::TooFewRepeats,
        Some(found) => {
            let is_large = change.is_none_or(|change| change.mean.abs() >= SMALLEST_PERCENT);
            let is_certain = found.low > 0.0 || found.high < 0.0;
            match (
                is_large && is_certain,
                (found.mean > 0.0) == (metric.better == MetricDirection::Higher),
            ) {
                (false, _) => Verdict::NoDifferenceSeen,
                (true, true) => Verdict::Better,
                (true, false) => Verdict::Worse,
            }
        }
    };
    MetricComparison {
        id: metric.id.to_owned(),
        name: metric.name.to_owned(),
        unit: metric.unit_for(ops),
        a: mean(|pair| pair.0),
        b: mean(|pair| pair.1),
        change_percent: change,
        difference,
        smallest_percent: ratio.map(smallest_percent),
        verdict,
    }
}
