//! Judges claims from results: confirmed, refuted or inconclusive, with the deciding metrics.
//!
//! The rule: with three repeats or more, a condition holds if the 95 % interval of its metric lies
//! within the bounds, fails if the interval lies outside, and is otherwise inconclusive. A claim is
//! confirmed if all its conditions hold, and refuted if one fails.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::definition::{Claim, Selection, Test};
use super::pairs::{PAIR, is_of_a_pair};
use super::systems::systems;
use crate::format;
use crate::metric;
use crate::result::{RunResult, StepResult};
use crate::statistics::{Estimate, difference_of_groups, estimate, line, mean, product_of_groups};
use crate::workload::{Operation, Overrides, Workload};

/// The least number of repeats for a decision.
const REPEATS_MIN: usize = 3;

/// The verdict on a claim or a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimVerdict {
    /// The claim or condition holds.
    Confirmed,
    /// The claim or condition does not hold.
    Refuted,
    /// The interval includes a bound, or there are too few repeats.
    Inconclusive,
    /// There are no runs.
    NotRun,
    /// Today's workloads cannot answer the claim.
    NotRunnable,
}

impl ClaimVerdict {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Refuted => "refuted",
            Self::Inconclusive => "inconclusive",
            Self::NotRun => "not run",
            Self::NotRunnable => "not runnable yet",
        }
    }
}

/// The result of one condition.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Finding {
    /// The tested quantity, in words.
    pub what: String,
    /// The bounds in words.
    pub rule: String,
    /// The metric or ratio, with its interval.
    pub found: Option<Estimate>,
    /// The values: of the metric, then of the metric by which it is divided or with which it is
    /// related.
    pub values: Vec<Vec<f64>>,
    /// Its verdict.
    pub outcome: ClaimVerdict,
    /// The reason of the verdict.
    pub because: String,
}

/// A verdict on a claim for one target, or for a pair of kinds of system.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Judgement {
    /// Claim.
    pub id: String,
    /// The claim.
    pub statement: String,
    /// The study it comes from.
    pub study: u8,
    /// The rule of the study's distillation.
    pub rule: String,
    /// The published result.
    pub published: String,
    /// The judged targets.
    pub target: String,
    /// Verdict.
    pub outcome: ClaimVerdict,
    /// The conditions.
    pub findings: Vec<Finding>,
    /// Missing requirements, and remarks for readers.
    pub remark: String,
}

/// Judges a claim from all runs: once for each target, or once in total if the claim distinguishes
/// kinds of system.
pub fn judge(claim: &Claim, runs: &[RunResult], cpus: usize) -> Vec<Judgement> {
    let of = |target: String, outcome, findings, remark: String| Judgement {
        id: claim.id.clone(),
        statement: claim.statement.clone(),
        study: claim.study,
        rule: claim.rule.clone(),
        published: claim.published.clone(),
        target,
        outcome,
        findings,
        remark,
    };
    if !claim.is_runnable() {
        let needs = claim.needs.clone().unwrap_or_default();
        return vec![of(
            String::new(),
            ClaimVerdict::NotRunnable,
            Vec::new(),
            format!("needs {needs}"),
        )];
    }
    let is_right = |run: &&RunResult| {
        run.run.complete && !run.checks.iter().any(|check| check.passed == Some(false))
    };
    let usable: Vec<&RunResult> = runs
        .iter()
        .filter(is_right)
        .filter(|run| is_candidate(claim, run))
        .collect();
    let mut out = Vec::new();
    for (target, own) in subjects(claim, &usable) {
        let findings: Vec<Finding> = claim
            .tests
            .iter()
            .map(|test| examine(claim, test, &own, cpus))
            .collect();
        let outcome = overall(&findings);
        if outcome != ClaimVerdict::NotRun {
            out.push(of(target, outcome, findings, claim.remark.clone()));
        }
    }
    if out.is_empty() {
        let of_what = match (&claim.differ, claim.systems().as_slice()) {
            (Some(differ), _) => format!(" of two targets that differ in {differ}"),
            (None, []) => String::new(),
            (None, systems) => format!(" of the kinds {}", systems.join(", ")),
        };
        out.push(of(
            String::new(),
            ClaimVerdict::NotRun,
            Vec::new(),
            format!("no run{of_what} with the workload and settings it asks for"),
        ));
    }
    out
}

/// Whether a run can judge a claim: only runs of pairs judge claims about pairs, and only other
/// runs judge other claims.
fn is_candidate(claim: &Claim, run: &RunResult) -> bool {
    match &claim.differ {
        Some(differ) => run.run.labels.contains_key(differ),
        None => !is_of_a_pair(run),
    }
}

/// The subjects that are judged separately, with their runs: each target, each pair of targets, or
/// all runs if the claim distinguishes kinds of system.
fn subjects<'a>(claim: &Claim, usable: &[&'a RunResult]) -> Vec<(String, Vec<&'a RunResult>)> {
    let systems = claim.systems();
    let places: BTreeSet<&str> = usable.iter().map(|run| run.place()).collect();
    let key = |run: &RunResult| match &claim.differ {
        Some(_) => run.run.labels.get(PAIR).cloned().unwrap_or_default(),
        None if systems.is_empty() => match places.len() {
            0 | 1 => name(run),
            _ => format!("{} at {}", name(run), run.place()),
        },
        None => systems.join(", "),
    };
    let mut keys: Vec<String> = usable.iter().map(|run| key(run)).collect();
    keys.sort();
    keys.dedup();
    let of = |wanted: String| {
        let own: Vec<&RunResult> = usable
            .iter()
            .copied()
            .filter(|run| key(run) == wanted)
            .collect();
        let Some(differ) = &claim.differ else {
            return (wanted, own);
        };
        let mut names: Vec<String> = own
            .iter()
            .map(|run| {
                format!(
                    "{} ({differ} {})",
                    name(run),
                    run.run.labels.get(differ).map_or("", String::as_str)
                )
            })
            .collect();
        names.sort();
        names.dedup();
        (names.join("; "), own)
    };
    keys.into_iter().map(of).collect()
}

fn name(run: &RunResult) -> String {
    match &run.target.storage_engine {
        Some(engine) => format!("{} ({engine})", run.target.name()),
        None => run.target.name(),
    }
}

fn overall(findings: &[Finding]) -> ClaimVerdict {
    let has = |wanted| findings.iter().any(|finding| finding.outcome == wanted);
    if findings
        .iter()
        .all(|finding| finding.outcome == ClaimVerdict::NotRun)
    {
        ClaimVerdict::NotRun
    } else if has(ClaimVerdict::Refuted) {
        ClaimVerdict::Refuted
    } else if has(ClaimVerdict::Inconclusive) || has(ClaimVerdict::NotRun) {
        ClaimVerdict::Inconclusive
    } else {
        ClaimVerdict::Confirmed
    }
}

fn examine(claim: &Claim, test: &Test, runs: &[&RunResult], cpus: usize) -> Finding {
    let groups: Vec<Sample> = test
        .selections()
        .map(|selection| values(claim, selection, runs, cpus))
        .collect();
    let lists: Vec<&[f64]> = groups.iter().map(|group| group.values.as_slice()).collect();
    let repeats = lists.iter().map(|values| values.len()).min().unwrap_or(0);
    let words: Vec<String> = test
        .selections()
        .zip(&groups)
        .map(|(selection, group)| describe(selection, group))
        .collect();
    let joint = if test.difference { "less" } else { "by" };
    let what = match words.as_slice() {
        [over, under, top, bottom] => format!("({over} by {under}) by ({top} by {bottom})"),
        words => words.join(&format!(" {joint} ")),
    };
    let found = match lists.as_slice() {
        [over, under] if test.difference => difference_of_groups(over, under),
        [over, under]
            if over.iter().all(|value| *value == 0.0)
                && under.iter().all(|value| *value > 0.0)
                && repeats > 1 =>
        {
            Some(Estimate {
                mean: 0.0,
                low: 0.0,
                high: 0.0,
            })
        }
        [over, under] => product_of_groups(&[over], &[under]),
        [over, under, top, bottom] => product_of_groups(&[over, bottom], &[under, top]),
        lists => lists.first().and_then(|values| estimate(values)),
    };
    let bounds = Bounds::of(test, cpus);
    let is_cached = test.uncached && !groups.iter().all(|group| group.is_uncached);
    let (outcome, because) = if repeats == 0 {
        let left_out = groups.iter().find_map(|group| group.left_out.clone());
        (
            ClaimVerdict::NotRun,
            left_out.unwrap_or_else(|| "no run showed this metric".to_owned()),
        )
    } else if is_cached {
        (
            ClaimVerdict::Inconclusive,
            "the data fit in memory: this claim is about data that do not \
            (--memory-mb, --times-memory)"
                .to_owned(),
        )
    } else if repeats < REPEATS_MIN {
        (
            ClaimVerdict::Inconclusive,
            format!("{repeats} of {REPEATS_MIN} repeats"),
        )
    } else {
        found.map_or_else(
            || (ClaimVerdict::Inconclusive, "a value is zero".to_owned()),
            |found| bounds.judge(&found),
        )
    };
    Finding {
        what,
        rule: bounds.words(),
        found: found
            .or_else(|| guess(test, &lists))
            .filter(|_| repeats > 0)
            .map(finite),
        values: groups.into_iter().map(|group| group.values).collect(),
        outcome,
        because,
    }
}

/// The value computed from the means alone, without an interval.
fn guess(test: &Test, lists: &[&[f64]]) -> Option<Estimate> {
    let means: Vec<f64> = lists.iter().filter_map(|values| mean(values)).collect();
    let value = match means.as_slice() {
        [one] => *one,
        [over, under] if test.difference => over - under,
        [over, under] => over / under,
        [over, under, top, bottom] => over / under / (top / bottom),
        _ => return None,
    };
    value.is_finite().then_some(Estimate {
        mean: value,
        low: f64::NAN,
        high: f64::NAN,
    })
}

/// The bounds of a metric.
struct Bounds {
    low: Option<f64>,
    high: Option<f64>,
    excludes: Option<f64>,
}

impl Bounds {
    fn of(test: &Test, cpus: usize) -> Self {
        let low = test
            .at_least
            .or(test.at_least_by_cpus.map(|factor| factor * cpus as f64));
        Self {
            low,
            high: test.at_most,
            excludes: test.excludes,
        }
    }

    fn words(&self) -> String {
        let number = format::number;
        match (self.low, self.high, self.excludes) {
            (_, _, Some(value)) => format!("other than {}", number(value)),
            (Some(low), Some(high), _) => format!("{} to {}", number(low), number(high)),
            (Some(low), None, _) => format!("at least {}", number(low)),
            (None, Some(high), _) => format!("at most {}", number(high)),
            (None, None, None) => String::new(),
        }
    }

    fn judge(&self, found: &Estimate) -> (ClaimVerdict, String) {
        let rule = self.words();
        let confirmed = || {
            (
                ClaimVerdict::Confirmed,
                format!("all of the interval is {rule}"),
            )
        };
        let refuted = |why: String| (ClaimVerdict::Refuted, why);
        let spans = || {
            (
                ClaimVerdict::Inconclusive,
                format!("the interval spans the rule, {rule}"),
            )
        };
        if let Some(value) = self.excludes {
            let near = value * 0.01;
            return if found.high < value || found.low > value {
                confirmed()
            } else if found.low > value - near && found.high < value + near {
                refuted("all of the interval is within 1 % of it".to_owned())
            } else {
                spans()
            };
        }
        let (low, high) = (
            self.low.unwrap_or(f64::NEG_INFINITY),
            self.high.unwrap_or(f64::INFINITY),
        );
        if found.low >= low && found.high <= high {
            confirmed()
        } else if found.high < low || found.low > high {
            refuted(format!("none of the interval is {rule}"))
        } else {
            spans()
        }
    }
}

/// Replaces an unknown interval by its mean, because JSON has no NaN.
fn finite(found: Estimate) -> Estimate {
    let or = |value: f64| if value.is_finite() { value } else { found.mean };
    Estimate {
        mean: found.mean,
        low: or(found.low),
        high: or(found.high),
    }
}

/// The values of a selection.
#[derive(Default)]
struct Sample {
    settings: Vec<(String, String)>,
    side: Option<String>,
    /// Why the existing runs lack the step.
    left_out: Option<String>,
    values: Vec<f64>,
    is_uncached: bool,
}

fn describe(selection: &Selection, group: &Sample) -> String {
    let metric =
        metric::find(&selection.metric).map_or(selection.metric.as_str(), |metric| metric.name);
    let mut settings: Vec<String> = group
        .settings
        .iter()
        .map(|(name, value)| format!("{} {value}", name.replace('_', " ")))
        .collect();
    settings.extend(selection.system.clone());
    settings.extend(group.side.clone());
    let settings = if settings.is_empty() {
        String::new()
    } else {
        format!(" ({})", settings.join(", "))
    };
    format!(
        "{metric} of {}/{}{settings}",
        selection.workload, selection.step
    )
}

/// The values of the best group if the selection asks for a peak, else of the only group.
fn values(claim: &Claim, selection: &Selection, runs: &[&RunResult], cpus: usize) -> Sample {
    let mut best = Sample::default();
    let mut best_mean = f64::NEG_INFINITY;
    for settings in selection.groups(cpus) {
        let mine: Vec<&&RunResult> = runs
            .iter()
            .filter(|run| run.run.workload == selection.workload)
            .filter(|run| {
                selection
                    .system
                    .as_deref()
                    .is_none_or(|system| systems(run).contains(&system))
            })
            .filter(|run| is_on_side(claim, selection, run))
            .filter(|run| fits(run, &settings))
            .collect();
        let values: Vec<f64> = mine
            .iter()
            .filter_map(|run| value(selection, run))
            .collect();
        let found = mean(&values).unwrap_or(f64::MIN);
        if found > best_mean {
            best_mean = found;
            let side = claim
                .differ
                .as_ref()
                .zip(selection.side.as_ref())
                .map(|(differ, side)| format!("{differ} {side}"));
            let skipped = mine
                .iter()
                .flat_map(|run| &run.skipped)
                .find(|skipped| skipped.step == selection.step);
            let left_out = skipped
                .map(|skipped| format!("step {} was left out: {}", skipped.step, skipped.because));
            best = Sample {
                side,
                left_out,
                settings: settings.into_iter().collect(),
                is_uncached: mine.iter().all(|run| is_uncached(run)),
                values,
            };
        }
    }
    best
}

fn is_on_side(claim: &Claim, selection: &Selection, run: &RunResult) -> bool {
    match (&claim.differ, &selection.side) {
        (Some(differ), Some(side)) => run.run.labels.get(differ) == Some(side),
        _ => true,
    }
}

/// Settings that distinguish runs of a workload.
const TOLD_APART: &[&str] = &[
    "clients",
    "hot_rows",
    "payload",
    "databases",
    "indexes",
    "placement",
    "assign",
    "rate",
    "extra_tables",
    "unique_indexes",
    "ids",
    "read_batch",
    "seed_mode",
    "sync_every",
    "settle_after",
    "prefetch",
    "capped",
];

/// Whether a run has the wanted settings; all others must be as in its preset.
fn fits(run: &RunResult, wanted: &std::collections::BTreeMap<String, String>) -> bool {
    let plain = |value: &serde_json::Value| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    };
    let Ok(here) = serde_json::to_value(&run.settings) else {
        return false;
    };
    let preset = Workload::load(&run.run.workload)
        .and_then(|workload| workload.settings(&run.settings.preset, Overrides::default()))
        .ok()
        .and_then(|settings| serde_json::to_value(settings).ok());
    TOLD_APART.iter().all(|name| {
        let found = here.get(*name).map(plain);
        match wanted.get(*name) {
            Some(value) => found.as_deref() == Some(value),
            // Without a preset only the wanted settings count.
            None => preset
                .as_ref()
                .is_none_or(|preset| preset.get(*name).map(plain) == found),
        }
    })
}

fn is_uncached(run: &RunResult) -> bool {
    let largest = run
        .steps
        .iter()
        .filter_map(|step| step.sizes.directory_bytes.or(step.sizes.storage_bytes))
        .max();
    run.memory_limit
        .as_ref()
        .zip(largest)
        .is_some_and(|(limit, size)| size > limit.bytes)
}

fn value(selection: &Selection, run: &RunResult) -> Option<f64> {
    if selection.metric == "scan_r_squared" {
        return scan_r_squared(run);
    }
    let step = step(run, &selection.step)?;
    metric::find(&selection.metric)?.value(step)
}

fn step<'a>(run: &'a RunResult, name: &str) -> Option<&'a StepResult> {
    let round = |stem: &str| {
        let stem = format!("{stem}.");
        run.steps
            .iter()
            .filter(move |step| step.name.starts_with(&stem))
            .collect::<Vec<_>>()
    };
    if let Some(stem) = name.strip_suffix(".first") {
        return round(stem).first().copied();
    }
    if let Some(stem) = name.strip_suffix(".last") {
        return round(stem).last().copied();
    }
    run.steps.iter().find(|step| step.name == name)
}

/// R² of a straight line that explains the median latency by the number of scanned documents.
fn scan_r_squared(run: &RunResult) -> Option<f64> {
    let workload = Workload::load(&run.run.workload).ok()?;
    let point = |step: &StepResult| {
        let planned = workload.steps.iter().find(|planned| {
            planned.name == step.name && planned.work.operation == Operation::Scan
        })?;
        Some((
            f64::from(planned.work.limit?),
            metric::find("latency_us_p50")?.value(step)?,
        ))
    };
    line(&run.steps.iter().filter_map(point).collect::<Vec<_>>()).map(|fit| fit.r_squared)
}
