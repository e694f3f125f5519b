//! The result of a run: which run it was, its conditions, its steps, its checks.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::step::StepResult;
use crate::environment::Environment;
use crate::workload::Settings;

/// What `schema` says in every file.
pub const SCHEMA: &str = "quarry-lab/result";

/// The version of the schema written here.
pub const VERSION: u32 = 1;

/// The label of a run against a server that the lab started itself.
pub const OWN_LABEL: &str = "own";

/// A whole run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunResult {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// [`VERSION`] of the program that wrote it.
    pub version: u32,
    /// Which run this is.
    pub run: RunFacts,
    /// What was measured against.
    pub target: TargetFacts,
    /// The settings of the run.
    pub settings: Settings,
    /// In words, what differs from the `paper` preset.
    pub changed_from_paper: Vec<String>,
    /// On what machine.
    pub environment: Environment,
    /// What a reader should know before trusting the numbers.
    pub warnings: Vec<Warning>,
    /// What was done, in order.
    pub steps: Vec<StepResult>,
    /// Whether the work was done right.
    pub checks: Vec<Check>,
    /// Steps left out because the target lacks something.
    #[serde(default)]
    pub skipped: Vec<Skipped>,
    /// The limit that the run put on memory.
    #[serde(default)]
    pub memory_limit: Option<MemoryLimit>,
}

impl RunResult {
    /// The step that the workload is about, or else the last one.
    pub fn main_step(&self) -> Option<&StepResult> {
        self.steps
            .iter()
            .find(|step| step.measured)
            .or_else(|| self.steps.last())
    }

    /// Whether the target is an engine in the lab's own process: one cost stands for both.
    pub fn is_inside(&self) -> bool {
        let scheme = self.target.uri.split(':').next().unwrap_or_default();
        !["", "mongodb", "mongodb+srv", "mysql", "mariadb"].contains(&scheme)
    }

    /// Where the target was: its address, or the name of the server that the lab started for the
    /// run, which listens elsewhere each time.
    pub fn place(&self) -> &str {
        self.run.labels.get(OWN_LABEL).unwrap_or(&self.target.uri)
    }

    /// What tells this run from runs with the same settings and of the same product: only runs
    /// that agree in all of it are repeats of one another.
    pub fn configuration(&self) -> BTreeMap<String, String> {
        let mut out = BTreeMap::new();
        out.insert("at".to_owned(), self.place().to_owned());
        out.insert(
            "write concern".to_owned(),
            self.target.write_concern.clone(),
        );
        if let Some(build) = &self.target.build {
            out.insert("build".to_owned(), build.clone());
        }
        for (name, value) in &self.target.options {
            out.insert(format!("option {name}"), value.clone());
        }
        if self.settings.databases > 1 {
            let databases = self.settings.databases.to_string();
            out.insert("databases".to_owned(), databases);
        }
        if !self.run.load_agents.is_empty() {
            let generators = self.run.load_agents.len().to_string();
            out.insert("load generators".to_owned(), generators);
        }
        let limit = self.memory_limit.as_ref();
        out.insert(
            "memory limit".to_owned(),
            limit.map_or_else(
                || "none".to_owned(),
                |limit| format!("{} bytes", limit.bytes),
            ),
        );
        out
    }
}

/// A step that was left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Its name.
    pub step: String,
    /// What the target lacks, or what else kept it from running.
    pub because: String,
}

/// How memory was limited.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryLimit {
    /// For the target and its page cache.
    pub bytes: u64,
    /// `cgroup v2`, `cgroup v1` or `balloon`.
    pub how: String,
    /// What the reader should know about it.
    pub remark: String,
    /// Most that the control group held at once, page cache included, where it says.
    #[serde(default)]
    pub bytes_max: Option<u64>,
    /// Page cache that the control group was charged for at the end, where it says.
    #[serde(default)]
    pub cache_bytes: Option<u64>,
}

/// Name, time and fate of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RunFacts {
    /// Also the name of its folder.
    pub id: String,
    /// Workload name.
    pub workload: String,
    /// Workload heading.
    pub title: String,
    /// What the workload does.
    pub about: String,
    /// Where the workload comes from.
    pub source: String,
    /// The command line, password removed.
    pub command_line: String,
    /// Version of the lab.
    pub lab_version: String,
    /// Base seed.
    pub seed: u64,
    /// RFC 3339 with offset.
    pub started_at: String,
    /// RFC 3339 with offset.
    pub finished_at: String,
    /// Whether every step ran to its end.
    pub complete: bool,
    /// Why not.
    pub stopped_because: Option<String>,
    /// When an interrupted run was taken up again, each time.
    #[serde(default)]
    pub resumed_at: Vec<String>,
    /// Agents that made the load, if it was not the lab itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub load_agents: Vec<String>,
    /// What tells it from other runs with the same settings, as its user says.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// The server.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TargetFacts {
    /// Connection string, password removed.
    pub uri: String,
    /// What it calls itself.
    pub product: String,
    /// Version of the protocol level it claims.
    pub version: String,
    /// Storage engine, when it says so.
    pub storage_engine: Option<String>,
    /// Process number, when it runs on this machine.
    pub pid: Option<u32>,
    /// Why its process is not watched, if so.
    pub not_watched_because: Option<String>,
    /// The agent on another machine that watches it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watched: Option<String>,
    /// Data directory, when known.
    pub data_directory: Option<String>,
    /// Block device of the data directory, when known.
    pub device: Option<String>,
    /// Write concern in words.
    pub write_concern: String,
    /// Whether a write that was acknowledged is on the device, when that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_flushed: Option<bool>,
    /// What tells its build from others of the same version: revision, and the checksum of the
    /// program where it runs on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
    /// Options that it was started with, without addresses, paths and passwords.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// Raw `buildInfo`.
    pub build_info: serde_json::Value,
}

impl TargetFacts {
    /// Product and version; a product with a version of its own claims the protocol level of
    /// another.
    pub fn name(&self) -> String {
        if self.version.contains(' ') {
            format!("{}, {}", self.product, self.version)
        } else if self.product.contains(' ') {
            format!("{} (speaking {})", self.product, self.version)
        } else {
            format!("{} {}", self.product, self.version)
        }
    }
}

/// A test that the work was done right: fast means right.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// What was compared.
    pub name: String,
    /// What the lab knows.
    pub expected: String,
    /// What the server says.
    pub found: String,
    /// Whether they agree; none if it could not be found out.
    pub passed: Option<bool>,
    /// Why not, or what else matters.
    pub remark: String,
}

/// One warning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// For programs.
    pub code: String,
    /// For people, with advice.
    pub text: String,
}
