//! The claims of the studies as data, and the runs that are needed to judge each.
//!
//! Promises: a claim that today's workloads cannot answer names what is missing. Must not know: how
//! a run is started.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::workload::WorkloadError;

const FILE: &str = include_str!("../../../claims.toml");

/// A claim.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// C01 to C60.
    pub id: String,
    /// The study it comes from, 0 to 4.
    pub study: u8,
    /// The claim.
    pub statement: String,
    /// The rule in words.
    pub rule: String,
    /// The published result.
    pub published: String,
    /// The one difference between the two targets of its runs: a name of [`DIFFERENCES`].
    #[serde(default)]
    pub differ: Option<String>,
    /// The missing requirement of a claim that cannot be run; `None` for claims with tests.
    #[serde(default)]
    pub needs: Option<String>,
    /// A remark for readers about the way it is tested here.
    #[serde(default)]
    pub remark: String,
    /// The conditions, all of which must hold.
    #[serde(default, rename = "test")]
    pub tests: Vec<Test>,
}

/// One condition: a metric, the ratio or difference of two, or the ratio of two ratios, within
/// bounds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Test {
    /// The metric and the runs.
    pub over: Selection,
    /// The divisor.
    #[serde(default)]
    pub under: Option<Selection>,
    /// Whether `under` is subtracted instead, for metrics that may be zero.
    #[serde(default)]
    pub difference: bool,
    /// A second ratio, by which the ratio of `over` and `under` is divided.
    #[serde(default)]
    pub relative_to: Option<Ratio>,
    /// The condition holds if the interval does not include this value, and fails if the interval
    /// lies within 1 % of it.
    #[serde(default)]
    pub excludes: Option<f64>,
    /// Lower bound.
    #[serde(default)]
    pub at_least: Option<f64>,
    /// Lower bound as a multiple of the machine's CPUs.
    #[serde(default)]
    pub at_least_by_cpus: Option<f64>,
    /// Upper bound.
    #[serde(default)]
    pub at_most: Option<f64>,
    /// Whether the condition is meaningful only if the data exceed a memory limit.
    #[serde(default)]
    pub uncached: bool,
}

/// A ratio of two metrics.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ratio {
    /// The metric and the runs.
    pub over: Selection,
    /// The divisor.
    pub under: Selection,
}

impl Test {
    /// All selections of the test.
    pub fn selections(&self) -> impl Iterator<Item = &Selection> {
        let second = self
            .relative_to
            .iter()
            .flat_map(|ratio| [&ratio.over, &ratio.under]);
        std::iter::once(&self.over).chain(&self.under).chain(second)
    }
}

/// A metric of a group of runs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Selection {
    /// Workload.
    pub workload: String,
    /// Step; `NAME.first` and `NAME.last` mean the first and last round.
    pub step: String,
    /// A metric of `metric::ALL`, or `scan_r_squared` of the whole run.
    pub metric: String,
    /// Settings of the run; all others are those of the preset. `cpus` means the number of the
    /// machine's processors.
    #[serde(default)]
    pub set: BTreeMap<String, serde_json::Value>,
    /// Numbers of clients; only the one with the highest mean counts.
    #[serde(default)]
    pub peak_of_clients: Vec<u32>,
    /// Kind of system; without it each target is judged separately.
    #[serde(default)]
    pub system: Option<String>,
    /// The side of the claim's difference, for claims about two targets that differ in one thing.
    #[serde(default)]
    pub side: Option<String>,
}

/// A run that a claim needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequiredRun {
    /// Workload.
    pub workload: String,
    /// Settings as on the command line, without leading dashes.
    pub settings: Vec<(String, String)>,
    /// The difference between the claim's two targets, and the side of this run.
    pub side: Option<(String, String)>,
    /// The only kind of system that the claim is about, if any.
    pub system: Option<String>,
}

#[derive(Deserialize)]
struct File {
    claim: Vec<Claim>,
}

/// All claims.
///
/// # Errors
/// The file cannot be parsed; a test makes sure that it can.
pub fn all() -> Result<Vec<Claim>, WorkloadError> {
    toml::from_str::<File>(FILE)
        .map(|file| file.claim)
        .map_err(|error| WorkloadError::File(format!("claims: {error}")))
}

/// The claims with these ids, or all.
///
/// # Errors
/// An id that no claim has.
pub fn only(ids: &[String]) -> Result<Vec<Claim>, WorkloadError> {
    let all = all()?;
    let Some(unknown) = ids
        .iter()
        .find(|id| !all.iter().any(|claim| claim.id.eq_ignore_ascii_case(id)))
    else {
        return Ok(all
            .into_iter()
            .filter(|claim| {
                ids.is_empty() || ids.iter().any(|id| claim.id.eq_ignore_ascii_case(id))
            })
            .collect());
    };
    Err(WorkloadError::Setting {
        name: "--only",
        given: unknown.clone(),
        allowed: "C01 to C60".to_owned(),
    })
}

impl Claim {
    /// Whether today's workloads can answer the claim.
    pub fn is_runnable(&self) -> bool {
        !self.tests.is_empty()
    }

    /// The runs that the claim needs of each target.
    pub fn required_runs(&self, cpus: usize) -> Vec<RequiredRun> {
        let mut out: Vec<RequiredRun> = self
            .tests
            .iter()
            .flat_map(Test::selections)
            .flat_map(|selection| selection.required_runs(self.differ.as_deref(), cpus))
            .collect();
        out.sort();
        out.dedup();
        out
    }

    /// The kinds of system that its tests distinguish.
    pub fn systems(&self) -> Vec<&str> {
        let both = self.tests.iter().flat_map(Test::selections);
        let mut out: Vec<&str> = both
            .filter_map(|selection| selection.system.as_deref())
            .collect();
        out.sort_unstable();
        out.dedup();
        out
    }
}

impl Selection {
    /// Settings of each group of runs; there is one group, or one per number of clients for a peak.
    pub(super) fn groups(&self, cpus: usize) -> Vec<BTreeMap<String, String>> {
        let plain = |value: &serde_json::Value| match value {
            serde_json::Value::String(text) if text == "cpus" => cpus.to_string(),
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let base: BTreeMap<String, String> = self
            .set
            .iter()
            .map(|(name, value)| (name.clone(), plain(value)))
            .collect();
        if self.peak_of_clients.is_empty() {
            return vec![base];
        }
        let with = |clients: &u32| {
            base.iter()
                .map(|(name, value)| (name.clone(), value.clone()))
                .chain([("clients".to_owned(), clients.to_string())])
                .collect()
        };
        self.peak_of_clients.iter().map(with).collect()
    }

    fn required_runs(&self, differ: Option<&str>, cpus: usize) -> Vec<RequiredRun> {
        let side = differ
            .zip(self.side.as_deref())
            .map(|(differ, side)| (differ.to_owned(), side.to_owned()));
        let of = |group: BTreeMap<String, String>| RequiredRun {
            workload: self.workload.clone(),
            settings: group.into_iter().collect(),
            side: side.clone(),
            system: self.system.clone(),
        };
        self.groups(cpus).into_iter().map(of).collect()
    }
}
