//! The result of a run: its identity, its conditions, its steps, its checks.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::step::StepResult;
use crate::environment::Environment;
use crate::workload::Settings;

/// The value of `schema` in every file.
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
    /// The identity of the run.
    pub run: RunFacts,
    /// The target of the run.
    pub target: TargetFacts,
    /// The settings of the run.
    pub settings: Settings,
    /// Descriptions of the differences from the `paper` preset.
    pub changed_from_paper: Vec<String>,
    /// The machine.
    pub environment: Environment,
    /// Warnings to read before trusting the numbers.
    pub warnings: Vec<Warning>,
    /// The results of the steps, in order.
    pub steps: Vec<StepResult>,
    /// The checks that the work was done right.
    pub checks: Vec<Check>,
    /// Steps that were skipped because the target lacks a capability.
    #[serde(default)]
    pub skipped: Vec<SkippedStep>,
    /// The limit that the run put on memory.
    #[serde(default)]
    pub memory_limit: Option<MemoryLimit>,
}

impl RunResult {
    /// The measured step of the workload, or else the last step.
    pub fn main_step(&self) -> Option<&StepResult> {
        self.steps
            .iter()
            .find(|step| step.measured)
            .or_else(|| self.steps.last())
    }

    /// Whether the target is an engine in the lab's own process. One cost then covers both.
    pub fn is_inside(&self) -> bool {
        let scheme = self.target.uri.split(':').next().unwrap_or_default();
        !["", "mongodb", "mongodb+srv", "mysql", "mariadb"].contains(&scheme)
    }

    /// The target's address or, for a server that the lab started for the run, its name, because
    /// such a server listens on another address each time.
    pub fn place(&self) -> &str {
        self.run.labels.get(OWN_LABEL).unwrap_or(&self.target.uri)
    }

    /// Everything that distinguishes this run from others with the same settings and product. Only
    /// runs with equal values here are repeats of one another.
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

/// A step that was skipped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedStep {
    /// Its name.
    pub step: String,
    /// The capability that the target lacks, or another reason why the step did not run.
    pub because: String,
}

/// The limit on memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryLimit {
    /// The limit for the target and its page cache.
    pub bytes: u64,
    /// `cgroup v2`, `cgroup v1` or `balloon`.
    pub how: String,
    /// A remark for the reader.
    pub remark: String,
    /// The most memory that the control group held at once, page cache included, if it reports
    /// this.
    #[serde(default)]
    pub bytes_max: Option<u64>,
    /// Page cache charged to the control group at the end, if it reports this.
    #[serde(default)]
    pub cache_bytes: Option<u64>,
}

/// The name of a run, its time, and how it ended.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RunFacts {
    /// The run's id, which is also the name of its folder.
    pub id: String,
    /// Workload name.
    pub workload: String,
    /// Workload heading.
    pub title: String,
    /// A description of the workload.
    pub about: String,
    /// The source of the workload.
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
    /// Why the run is not complete.
    pub stopped_because: Option<String>,
    /// The times at which an interrupted run was resumed.
    #[serde(default)]
    pub resumed_at: Vec<String>,
    /// Agents that generated the load, if the lab did not generate it itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub load_agents: Vec<String>,
    /// Labels from the user that distinguish the run from others with the same settings.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// The server.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TargetFacts {
    /// Connection string, password removed.
    pub uri: String,
    /// The product name that the server reports.
    pub product: String,
    /// The version that the server claims for the protocol.
    pub version: String,
    /// Storage engine, if the server reports it.
    pub storage_engine: Option<String>,
    /// Process number, if the server runs on this machine.
    pub pid: Option<u32>,
    /// Why the server's process is not observed, if it is not.
    pub not_watched_because: Option<String>,
    /// The agent on another machine that observes the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watched: Option<String>,
    /// Data directory, when known.
    pub data_directory: Option<String>,
    /// Block device of the data directory, when known.
    pub device: Option<String>,
    /// Write concern in words.
    pub write_concern: String,
    /// Whether an acknowledged write is on the device, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_flushed: Option<bool>,
    /// The identity of the build: its revision and, if the server runs on this machine, the
    /// checksum of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
    /// The options of the server's start, without addresses, paths and passwords.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// Raw `buildInfo`.
    pub build_info: serde_json::Value,
}

impl TargetFacts {
    /// Product and version. For a product with its own version, `version` is only the protocol
    /// level that it claims.
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

/// A check that the work was done right.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// The name of the check.
    pub name: String,
    /// The value that the lab expects.
    pub expected: String,
    /// The value that the server returned.
    pub found: String,
    /// Whether the values agree; `None` if that could not be determined.
    pub passed: Option<bool>,
    /// Why the check failed, or another remark.
    pub remark: String,
}

/// One warning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// The code for programs.
    pub code: String,
    /// The text for people, with advice.
    pub text: String,
}
