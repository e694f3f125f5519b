//! The claims of the studies as data, and what runs are needed to judge each.
//!
//! Promises: a claim that today's workloads cannot answer says what it needs. `judge` decides from
//! results alone, so that it also works on folders of earlier runs. Must not know: how a run is
//! started.

mod differ;
mod judge;

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::result::RunResult;
use crate::workload::WorkloadError;

pub use differ::{DIFFERENCES, Difference, difference};
pub use judge::{Finding, Judgement, Outcome, judge};

const FILE: &str = include_str!("../../../claims.toml");

/// A claim.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// C01 to C60.
    pub id: String,
    /// The study it comes from, 0 to 4.
    pub study: u8,
    /// What is claimed.
    pub statement: String,
    /// The rule in words.
    pub rule: String,
    /// What was published.
    pub published: String,
    /// The one thing in which the two targets of its runs differ: a name of [`DIFFERENCES`].
    #[serde(default)]
    pub differ: Option<String>,
    /// What is missing to run it; none for claims with tests.
    #[serde(default)]
    pub needs: Option<String>,
    /// What a reader must know about the way it is tested here.
    #[serde(default)]
    pub remark: String,
    /// All must hold.
    #[serde(default, rename = "test")]
    pub tests: Vec<Test>,
}

/// One condition: a figure, the ratio or difference of two, or the ratio of two ratios, within
/// bounds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Test {
    /// What is looked at.
    pub over: Selection,
    /// Divided by this.
    #[serde(default)]
    pub under: Option<Selection>,
    /// Less it instead: for figures that may be zero.
    #[serde(default)]
    pub difference: bool,
    /// The ratio by which that ratio is divided.
    #[serde(default)]
    pub relative_to: Option<Ratio>,
    /// Confirmed if the interval does not hold this value, refuted if it lies within 1 % of it.
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
    /// Whether it says something only where data exceed a limit of memory.
    #[serde(default)]
    pub uncached: bool,
}

/// A ratio of two figures.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ratio {
    /// What is looked at.
    pub over: Selection,
    /// Divided by this.
    pub under: Selection,
}

impl Test {
    /// All that it looks at.
    pub fn selections(&self) -> impl Iterator<Item = &Selection> {
        let second = self
            .relative_to
            .iter()
            .flat_map(|ratio| [&ratio.over, &ratio.under]);
        std::iter::once(&self.over).chain(&self.under).chain(second)
    }
}

/// Which figure of which runs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Selection {
    /// Workload.
    pub workload: String,
    /// Step; `NAME.first` and `NAME.last` mean the first and last round.
    pub step: String,
    /// A figure of `figure::ALL`, or `scan_r_squared` of the whole run.
    pub figure: String,
    /// Settings of the run; others are those of the preset. `cpus` means as many as the machine
    /// has.
    #[serde(default)]
    pub set: BTreeMap<String, serde_json::Value>,
    /// Numbers of clients of which the one with the highest mean counts.
    #[serde(default)]
    pub peak_of_clients: Vec<u32>,
    /// Kind of system; without it each target is judged by itself.
    #[serde(default)]
    pub system: Option<String>,
    /// Which of two targets that differ in one thing; a side of the claim's difference.
    #[serde(default)]
    pub side: Option<String>,
}

/// A run that a claim needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Needed {
    /// Workload.
    pub workload: String,
    /// Settings as the command line takes them, without dashes in front.
    pub settings: Vec<(String, String)>,
    /// What the claim's two targets differ in, and which of them this run is of.
    pub side: Option<(String, String)>,
    /// Kind of system that alone is of interest.
    pub system: Option<String>,
}

#[derive(Deserialize)]
struct File {
    claim: Vec<Claim>,
}

/// All claims.
///
/// # Errors
/// The file cannot be parsed; a test keeps that from happening.
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
    /// Whether today's workloads can answer it.
    pub fn is_runnable(&self) -> bool {
        !self.tests.is_empty()
    }

    /// The runs it needs of each target.
    pub fn needed(&self, cpus: usize) -> Vec<Needed> {
        let mut out: Vec<Needed> = self
            .tests
            .iter()
            .flat_map(Test::selections)
            .flat_map(|selection| selection.needed(self.differ.as_deref(), cpus))
            .collect();
        out.sort();
        out.dedup();
        out
    }

    /// Kinds of system that its tests tell apart.
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
    /// Settings of each group of runs, one group unless a peak is asked for.
    fn groups(&self, cpus: usize) -> Vec<BTreeMap<String, String>> {
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

    fn needed(&self, differ: Option<&str>, cpus: usize) -> Vec<Needed> {
        let side = differ
            .zip(self.side.as_deref())
            .map(|(differ, side)| (differ.to_owned(), side.to_owned()));
        let of = |group: BTreeMap<String, String>| Needed {
            workload: self.workload.clone(),
            settings: group.into_iter().collect(),
            side: side.clone(),
            system: self.system.clone(),
        };
        self.groups(cpus).into_iter().map(of).collect()
    }
}

/// The kinds of system that a run's target belongs to.
pub fn systems(run: &RunResult) -> Vec<&'static str> {
    let target = &run.target;
    let text = format!(
        "{} {}",
        target.product,
        target.storage_engine.as_deref().unwrap_or_default()
    );
    kinds(&text, &target.uri)
}

/// The kinds of system behind an address, where the address alone tells.
pub fn systems_at(address: &str) -> Option<Vec<&'static str>> {
    let (scheme, rest) = address.split_once(':')?;
    let engine = rest
        .split_once("engine=")
        .map(|(_, engine)| engine.split('&').next().unwrap_or_default());
    match (scheme, engine) {
        ("mysql" | "mariadb", Some(engine)) => Some(kinds(engine, address)),
        ("mysql" | "mariadb" | "mongodb" | "mongodb+srv", _) => None,
        // The style of an engine in the lab's process may say what kind of tree it is.
        (engine, _) => {
            let style = rest
                .split_once("style=")
                .map_or("", |(_, style)| style.split('&').next().unwrap_or_default());
            Some(kinds(&format!("{engine} {style}"), address))
        }
    }
}

fn kinds(text: &str, uri: &str) -> Vec<&'static str> {
    let text = text.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let mut out = Vec::new();
    if has(&["rocksdb", "myrocks", "fjall", "lsm"]) {
        out.push("lsm");
    } else if has(&["innodb", "wiredtiger", "lmdb", "redb"]) {
        out.push("btree");
    }
    if has(&["wiredtiger"]) {
        out.push(if has(&["lsm"]) {
            "wiredtiger-lsm"
        } else {
            "wiredtiger-btree"
        });
    }
    if has(&["lmdb"]) {
        out.push("mmap");
    }
    if has(&["forestdb"]) {
        out.push("append");
    }
    if has(&["fractal", "perconaft"]) {
        out.push("write-optimised");
    }
    let is_server = ["mongodb", "mysql", "mariadb"]
        .iter()
        .any(|scheme| uri.starts_with(scheme));
    if has(&["innodb", "myrocks"]) {
        out.push("clustered");
    }
    if is_server && has(&["innodb", "wiredtiger"]) {
        out.push("file-per-table");
    } else if is_server && has(&["rocksdb", "myrocks"]) {
        out.push("shared-keyspace");
    }
    out.push(if is_server { "server" } else { "engine" });
    out
}

#[cfg(test)]
mod table_tests;
#[cfg(test)]
mod tests;
