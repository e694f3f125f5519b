//! From results to verdicts: confirmed, refuted or inconclusive, with the figures that decided.
//!
//! The rule: with three repeats or more, a condition holds if the 95 % interval of its figure lies within the bounds, fails if it lies
//! outside, and is inconclusive in between. A claim is confirmed if all its conditions hold and refuted if one fails.

use serde::{Deserialize, Serialize};

use super::{Claim, Selection, Test, systems};
use crate::figure;
use crate::format;
use crate::result::{RunResult, StepResult};
use crate::statistics::{Estimate, estimate, line, mean, ratio_of_groups};
use crate::workload::{Overrides, Part, Workload};

/// Repeats below which nothing is decided.
const REPEATS_MIN: usize = 3;

/// The verdict on a claim or a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It holds.
    Confirmed,
    /// It does not.
    Refuted,
    /// The interval spans the rule, or there are too few repeats.
    Inconclusive,
    /// No runs to judge from.
    NotRun,
    /// Today's workloads cannot answer it.
    NotRunnable,
}

impl Outcome {
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

/// What one condition came to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Finding {
    /// What was looked at, in words.
    pub what: String,
    /// The bounds in words.
    pub rule: String,
    /// The figure or ratio, with its interval.
    pub found: Option<Estimate>,
    /// The values behind it: of the figure, then of what it is divided by.
    pub values: [Vec<f64>; 2],
    /// Its verdict.
    pub outcome: Outcome,
    /// Why, where it is not plain from the numbers.
    pub because: String,
}

/// A verdict on a claim for one target, or for a pair of kinds of system.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Judgement {
    /// Claim.
    pub id: String,
    /// What is claimed.
    pub statement: String,
    /// The rule of the study's distillation.
    pub rule: String,
    /// What was published.
    pub published: String,
    /// What was judged.
    pub target: String,
    /// Verdict.
    pub outcome: Outcome,
    /// The conditions.
    pub findings: Vec<Finding>,
    /// What is missing, what the reader must know.
    pub remark: String,
}

/// Judges a claim from all runs there are: once for each target, or once where the claim itself tells kinds of system apart.
pub fn judge(claim: &Claim, runs: &[RunResult], cpus: usize) -> Vec<Judgement> {
    let of = |target: String, outcome, findings, remark: String| Judgement {
        id: claim.id.clone(),
        statement: claim.statement.clone(),
        rule: claim.rule.clone(),
        published: claim.published.clone(),
        target,
        outcome,
        findings,
        remark,
    };
    if !claim.is_runnable() {
        let needs = claim.needs.clone().unwrap_or_default();
        return vec![of(String::new(), Outcome::NotRunnable, Vec::new(), format!("needs {needs}"))];
    }
    let usable: Vec<&RunResult> = runs.iter().filter(|run| run.run.complete && !run.checks.iter().any(|check| check.passed == Some(false))).collect();
    let mut targets: Vec<String> = usable.iter().map(|run| name(run)).collect();
    targets.sort();
    targets.dedup();
    if !claim.systems().is_empty() {
        targets = vec![claim.systems().join(", ")];
    }
    let mut out = Vec::new();
    for target in targets {
        let own: Vec<&RunResult> =
            if claim.systems().is_empty() { usable.iter().copied().filter(|run| name(run) == target).collect() } else { usable.clone() };
        let findings: Vec<Finding> = claim.tests.iter().map(|test| examine(test, &own, cpus)).collect();
        let outcome = overall(&findings);
        if outcome != Outcome::NotRun {
            out.push(of(target, outcome, findings, claim.remark.clone()));
        }
    }
    if out.is_empty() {
        let systems = claim.systems();
        let kinds = if systems.is_empty() { String::new() } else { format!(" of the kinds {}", systems.join(", ")) };
        out.push(of(String::new(), Outcome::NotRun, Vec::new(), format!("no run{kinds} with the workload and settings it asks for")));
    }
    out
}

fn name(run: &RunResult) -> String {
    match &run.target.storage_engine {
        Some(engine) => format!("{} ({engine})", run.target.name()),
        None => run.target.name(),
    }
}

fn overall(findings: &[Finding]) -> Outcome {
    let has = |wanted| findings.iter().any(|finding| finding.outcome == wanted);
    if findings.iter().all(|finding| finding.outcome == Outcome::NotRun) {
        Outcome::NotRun
    } else if has(Outcome::Refuted) {
        Outcome::Refuted
    } else if has(Outcome::Inconclusive) || has(Outcome::NotRun) {
        Outcome::Inconclusive
    } else {
        Outcome::Confirmed
    }
}

fn examine(test: &Test, runs: &[&RunResult], cpus: usize) -> Finding {
    let over = values(&test.over, runs, cpus);
    let under = test.under.as_ref().map(|selection| values(selection, runs, cpus));
    let at_least = test.at_least.or(test.at_least_by_cpus.map(|factor| factor * cpus as f64));
    let rule = match (at_least, test.at_most) {
        (Some(low), Some(high)) => format!("{} to {}", format::number(low), format::number(high)),
        (Some(low), None) => format!("at least {}", format::number(low)),
        (None, Some(high)) => format!("at most {}", format::number(high)),
        (None, None) => String::new(),
    };
    let words = |selection: &Selection, group: &Group| describe(selection, group);
    let what = match (&test.under, &under) {
        (Some(selection), Some(group)) => format!("{} by {}", words(&test.over, &over), words(selection, group)),
        _ => words(&test.over, &over),
    };
    let (found, repeats, fallback) = match &under {
        Some(under) => {
            let means = mean(&over.values).zip(mean(&under.values)).filter(|(_, under)| *under > 0.0).map(|(over, under)| over / under);
            (ratio_of_groups(&under.values, &over.values), over.values.len().min(under.values.len()), means)
        }
        None => (estimate(&over.values), over.values.len(), mean(&over.values)),
    };
    let (outcome, because) = if repeats == 0 {
        (Outcome::NotRun, "no run that did this".to_owned())
    } else if test.uncached && !(over.is_uncached && under.as_ref().is_none_or(|group| group.is_uncached)) {
        (Outcome::Inconclusive, "the data fit in memory: this claim is about data that do not (--memory-mb, --times-memory)".to_owned())
    } else if repeats < REPEATS_MIN {
        (Outcome::Inconclusive, format!("{repeats} of {REPEATS_MIN} repeats"))
    } else {
        let low = at_least.unwrap_or(f64::NEG_INFINITY);
        let high = test.at_most.unwrap_or(f64::INFINITY);
        match found {
            Some(found) if found.low >= low && found.high <= high => (Outcome::Confirmed, String::new()),
            Some(found) if found.high < low || found.low > high => (Outcome::Refuted, String::new()),
            Some(_) => (Outcome::Inconclusive, "the interval spans the rule".to_owned()),
            None => (Outcome::Inconclusive, "a value is zero".to_owned()),
        }
    };
    Finding {
        what,
        rule,
        found: found.or(fallback.map(|value| Estimate { mean: value, low: f64::NAN, high: f64::NAN }).filter(|_| repeats > 0)).map(finite),
        values: [over.values, under.map_or_else(Vec::new, |group| group.values)],
        outcome,
        because,
    }
}

/// JSON has no NaN: an unknown interval is as wide as its middle.
fn finite(found: Estimate) -> Estimate {
    let or = |value: f64| if value.is_finite() { value } else { found.mean };
    Estimate { mean: found.mean, low: or(found.low), high: or(found.high) }
}

/// The values of a selection.
#[derive(Default)]
struct Group {
    settings: Vec<(String, String)>,
    values: Vec<f64>,
    is_uncached: bool,
}

fn describe(selection: &Selection, group: &Group) -> String {
    let figure = figure::named(&selection.figure).map_or(selection.figure.as_str(), |figure| figure.name);
    let mut settings: Vec<String> = group.settings.iter().map(|(name, value)| format!("{} {value}", name.replace('_', " "))).collect();
    settings.extend(selection.system.clone());
    let settings = if settings.is_empty() { String::new() } else { format!(" ({})", settings.join(", ")) };
    format!("{figure} of {}/{}{settings}", selection.workload, selection.step)
}

/// The values of the best group where a peak is asked for, else of the only one.
fn values(selection: &Selection, runs: &[&RunResult], cpus: usize) -> Group {
    let mut best = Group::default();
    let mut best_mean = f64::NEG_INFINITY;
    for settings in selection.groups(cpus) {
        let mine: Vec<&&RunResult> = runs
            .iter()
            .filter(|run| run.run.workload == selection.workload)
            .filter(|run| selection.system.as_deref().is_none_or(|system| systems(run).contains(&system)))
            .filter(|run| fits(run, &settings))
            .collect();
        let values: Vec<f64> = mine.iter().filter_map(|run| value(selection, run)).collect();
        let found = mean(&values).unwrap_or(f64::MIN);
        if found > best_mean {
            best_mean = found;
            best = Group { settings: settings.into_iter().collect(), is_uncached: mine.iter().all(|run| is_uncached(run)), values };
        }
    }
    best
}

/// A run has the settings asked for; those not named are as in its preset.
fn fits(run: &RunResult, wanted: &std::collections::BTreeMap<String, String>) -> bool {
    let plain = |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let Ok(here) = serde_json::to_value(&run.settings) else { return false };
    let preset = Workload::named(&run.run.workload)
        .and_then(|workload| workload.settings(&run.settings.preset, Overrides::default()))
        .ok()
        .and_then(|settings| serde_json::to_value(settings).ok());
    ["clients", "hot_rows", "payload", "indexes", "placement", "assign", "rate"].iter().all(|name| {
        let found = here.get(*name).map(plain);
        match wanted.get(*name) {
            Some(value) => found.as_deref() == Some(value),
            // Without a preset to look at, only what is named counts.
            None => preset.as_ref().is_none_or(|preset| preset.get(*name).map(plain) == found),
        }
    })
}

fn is_uncached(run: &RunResult) -> bool {
    let largest = run.steps.iter().filter_map(|step| step.sizes.directory_bytes.or(step.sizes.storage_bytes)).max();
    run.memory_limit.as_ref().zip(largest).is_some_and(|(limit, size)| size > limit.bytes)
}

fn value(selection: &Selection, run: &RunResult) -> Option<f64> {
    if selection.figure == "scan_r_squared" {
        return scan_r_squared(run);
    }
    let step = step(run, &selection.step)?;
    figure::named(&selection.figure)?.value(step)
}

fn step<'a>(run: &'a RunResult, name: &str) -> Option<&'a StepResult> {
    let round = |stem: &str| {
        let stem = format!("{stem}.");
        run.steps.iter().filter(move |step| step.name.starts_with(&stem)).collect::<Vec<_>>()
    };
    if let Some(stem) = name.strip_suffix(".first") {
        return round(stem).first().copied();
    }
    if let Some(stem) = name.strip_suffix(".last") {
        return round(stem).last().copied();
    }
    run.steps.iter().find(|step| step.name == name)
}

/// How well a straight line through the documents scanned explains the median latency.
fn scan_r_squared(run: &RunResult) -> Option<f64> {
    let workload = Workload::named(&run.run.workload).ok()?;
    let point = |step: &StepResult| {
        let planned = workload.steps.iter().find(|planned| planned.name == step.name && planned.work.part == Part::Scan)?;
        Some((f64::from(planned.work.limit?), figure::named("latency_us_p50")?.value(step)?))
    };
    line(&run.steps.iter().filter_map(point).collect::<Vec<_>>()).map(|fit| fit.r_squared)
}
