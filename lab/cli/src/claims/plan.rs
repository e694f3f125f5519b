//! The runs that the claims need of the given targets, and which of them a folder already contains.
//!
//! Promises: a run is made once, however many claims need it. Repeats are outermost, and both sides
//! of a pair run one after the other, so that a drift of the machine affects both equally.

use std::collections::{BTreeMap, BTreeSet};

use lab_kit::claims::{Claim, DIFFERENCES, RequiredRun, difference, systems_at};
use lab_kit::result::{OWN_LABEL, RunResult};
use lab_kit::workload::{Settings, Workload};

use super::arguments::{ClaimsArguments, OwnServer};
use super::own_server::{self, ServerVariant};
use crate::credentials::hide_password;
use crate::errors::LabError;
use crate::run::RunArguments;

/// The target of a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RunTarget {
    /// The address of an existing target.
    Address(String),
    /// A server that is started for the run.
    Own(ServerVariant),
}

/// A run to make.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RunSpec {
    workload: String,
    settings: Vec<(String, String)>,
    pub(super) target: RunTarget,
    labels: BTreeMap<String, String>,
}

impl RunSpec {
    /// Describes the run for people.
    pub(super) fn describe(&self) -> String {
        let needed = RequiredRun {
            workload: self.workload.clone(),
            settings: self.settings.clone(),
            side: None,
            system: None,
        };
        let side = self
            .labels
            .iter()
            .find(|(name, _)| difference(name).is_some());
        let of = match (&self.target, side) {
            (_, Some((name, side))) => format!("{name} {side}"),
            (RunTarget::Address(address), None) => hide_password(address),
            (RunTarget::Own(variant), None) => variant.name(),
        };
        format!("{} [{of}]", run_in_words(&needed))
    }

    /// The words of the run's command line, from `run` on.
    pub(super) fn command(
        &self,
        arguments: &ClaimsArguments,
        address: &str,
        out: &str,
    ) -> Vec<String> {
        let mut out: Vec<String> = [
            "run",
            &self.workload,
            "--target",
            address,
            "--preset",
            &arguments.preset,
            "--out",
            out,
        ]
        .map(str::to_owned)
        .to_vec();
        for (name, value) in &self.settings {
            out.extend([format!("--{}", name.replace('_', "-")), value.clone()]);
        }
        for (name, value) in &self.labels {
            out.extend(["--label".to_owned(), format!("{name}={value}")]);
        }
        if matches!(self.target, RunTarget::Own(_)) {
            // Otherwise its data would still exist while the next run is measured.
            out.push("--clean".to_owned());
        }
        // The command that restarts the user's server does not apply to a server that the lab
        // starts.
        let restart = "--restart-command";
        let is_own = matches!(self.target, RunTarget::Own(_));
        let at = arguments
            .more
            .iter()
            .position(|word| word == restart)
            .filter(|_| is_own);
        let drops = |number: usize| at.is_some_and(|at| (at..at + 2).contains(&number));
        out.extend(
            arguments
                .more
                .iter()
                .enumerate()
                .filter(|(number, _)| !drops(*number))
                .map(|(_, word)| word.clone()),
        );
        out
    }

    /// The settings of such a run.
    fn complete(&self, arguments: &ClaimsArguments) -> Result<Settings, String> {
        let words = self.command(arguments, "mongodb://unused", "unused");
        let one_line = |error: clap::Error| {
            let text = error.to_string();
            text.lines().next().unwrap_or_default().to_owned()
        };
        let words = words.get(1..).unwrap_or_default();
        let run = RunArguments::parse_words(words).map_err(one_line)?;
        let settings = Workload::load(&run.workload)
            .and_then(|workload| workload.settings(&run.preset, run.overrides()));
        settings.map_err(|error| error.to_string())
    }

    /// Whether `run` is such a run, complete and correct.
    fn is(&self, settings: &Settings, run: &RunResult) -> bool {
        let same_target = match &self.target {
            RunTarget::Address(address) => run.target.uri == hide_password(address),
            // The label identifies the server.
            RunTarget::Own(_) => true,
        };
        run.run.complete
            && run.checks.iter().all(|check| check.passed != Some(false))
            && run.run.lab_version == env!("CARGO_PKG_VERSION")
            && run.run.workload == self.workload
            && run.run.labels == self.labels
            && run.settings == *settings
            && same_target
    }
}

/// All runs, each with the number of repeats that are still to be made.
pub(super) struct ClaimsPlan {
    specs: Vec<(RunSpec, Settings)>,
    repeats: u32,
}

impl ClaimsPlan {
    /// The plan for the given claims and targets.
    ///
    /// # Errors
    /// An option for `quarry-lab run` does not exist, or these targets cannot answer any of the
    /// claims.
    pub(super) fn new(
        arguments: &ClaimsArguments,
        claims: &[Claim],
        cpus: usize,
    ) -> Result<Self, LabError> {
        let mut wanted = BTreeSet::new();
        for claim in claims.iter().filter(|claim| claim.is_runnable()) {
            if let Some(missing) = missing_reason(arguments, claim) {
                note_line!("{}: left out, {missing}", claim.id);
                continue;
            }
            for needed in claim.required_runs(cpus) {
                if needed.workload == lab_kit::result::REPLAY_WORKLOAD {
                    note_line!(
                        "{}: left out, it needs a recording: run quarry-lab replay, and judge \
                         its folders with --judge",
                        claim.id
                    );
                    continue;
                }
                wanted.extend(specs(arguments, &needed));
            }
        }
        let mut out = Vec::new();
        for spec in wanted {
            match spec.complete(arguments) {
                Ok(settings) => out.push((spec, settings)),
                Err(reason) => note_line!("left out: {}: {reason}", spec.describe()),
            }
        }
        if out.is_empty() {
            return Err(LabError::Nothing {
                lacks: "a claim that these targets and options can answer".to_owned(),
            });
        }
        Ok(Self {
            specs: out,
            repeats: arguments.repeats,
        })
    }

    /// The runs still to be made, in order, and the number of existing runs that count.
    pub(super) fn open(&self, done: &[RunResult]) -> (Vec<&RunSpec>, usize) {
        let mut missing: Vec<(&RunSpec, usize)> = Vec::new();
        for (spec, settings) in &self.specs {
            let there = done
                .iter()
                .filter(|run| spec.is(settings, run))
                .count()
                .min(self.repeats as usize);
            missing.push((spec, there));
        }
        let used = missing.iter().map(|(_, there)| there).sum();
        let round = |repeat: usize| {
            missing
                .iter()
                .filter(move |(_, there)| *there <= repeat)
                .map(|(spec, _)| *spec)
        };
        ((0..self.repeats as usize).flat_map(round).collect(), used)
    }
}

/// The runs of one need.
fn specs(arguments: &ClaimsArguments, needed: &RequiredRun) -> Vec<RunSpec> {
    let spec = |target: RunTarget, labels: Vec<(&str, String)>| RunSpec {
        workload: needed.workload.clone(),
        settings: needed.settings.clone(),
        target,
        labels: labels
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    };
    let mut out = Vec::new();
    let Some((name, side)) = &needed.side else {
        let fits = |kinds: Option<Vec<&str>>| {
            needed
                .system
                .as_deref()
                .zip(kinds)
                .is_none_or(|(system, kinds)| kinds.contains(&system))
        };
        for address in arguments
            .target
            .iter()
            .filter(|address| fits(systems_at(address)))
        {
            out.push(spec(RunTarget::Address(address.clone()), Vec::new()));
        }
        if let Some(kind) = arguments.own.filter(|kind| fits(Some(kind.systems()))) {
            let variant = ServerVariant::plain(kind);
            let labels = vec![(OWN_LABEL, variant.name())];
            out.push(spec(RunTarget::Own(variant), labels));
        }
        return out;
    };
    let first =
        difference(name).is_some_and(|difference| difference.sides.first() == Some(&side.as_str()));
    if let (Some(versus), Some(target), true) = (
        &arguments.versus,
        arguments.target.first(),
        arguments.differ.as_ref() == Some(name),
    ) {
        let pair = format!("{} and {}", hide_password(target), hide_password(versus));
        let address = if first { target } else { versus };
        out.push(spec(
            RunTarget::Address(address.clone()),
            vec![(name, side.clone()), ("pair", pair)],
        ));
    }
    if let Some(variant) = arguments
        .own
        .and_then(|kind| ServerVariant::of(kind, name, first))
    {
        let labels = vec![
            (name.as_str(), side.clone()),
            ("pair", format!("own {}", variant.kind.name())),
            (OWN_LABEL, variant.name()),
        ];
        out.push(spec(RunTarget::Own(variant), labels));
    }
    out
}

/// Why these targets cannot answer a claim, if they cannot.
pub(super) fn missing_reason(arguments: &ClaimsArguments, claim: &Claim) -> Option<String> {
    if let Some(differ) = &claim.differ {
        let is_pair = arguments.differ.as_ref() == Some(differ);
        let is_own = arguments
            .own
            .is_some_and(|kind| ServerVariant::of(kind, differ, true).is_some());
        if is_own && differ == "allocator" && own_server::allocator(arguments).is_none() && !is_pair
        {
            return Some(
                "neither jemalloc nor tcmalloc is installed (--own-allocator PATH)".to_owned(),
            );
        }
        let about = DIFFERENCES
            .iter()
            .find(|difference| difference.name == differ)
            .map_or("", |difference| difference.about);
        return (!is_pair && !is_own).then(|| {
            format!(
                "it needs two targets that differ in {about}: --versus ADDRESS --differ {differ}"
            )
        });
    }
    let mut known = Vec::new();
    for address in &arguments.target {
        // The address of a server does not tell its kind.
        known.extend(systems_at(address)?);
    }
    known.extend(arguments.own.map(OwnServer::systems).unwrap_or_default());
    let lacks: Vec<&str> = claim
        .systems()
        .into_iter()
        .filter(|system| !known.contains(system))
        .collect();
    (!lacks.is_empty()).then(|| format!("it needs a target of the kind {}, too", lacks.join(", ")))
}

/// A needed run in the form of a command line.
pub(super) fn run_in_words(needed: &RequiredRun) -> String {
    let settings: Vec<String> = needed
        .settings
        .iter()
        .map(|(name, value)| format!("--{} {value}", name.replace('_', "-")))
        .collect();
    format!("{} {}", needed.workload, settings.join(" "))
        .trim()
        .to_owned()
}
