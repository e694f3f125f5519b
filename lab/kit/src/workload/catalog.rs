//! The workload files that are built into the lab.
//!
//! A new workload is a new file in `lab/workloads/` and one line in [`FILES`], unless it needs an
//! operation that does not exist yet.

use super::definition::{Workload, WorkloadError};

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(include_str!(concat!("../../../workloads/", $name, ".toml"))),*]
    };
}

const FILES: &[&str] = files![
    "insert",
    "insert-classic",
    "insert-grow",
    "insert-rounds",
    "insert-modern",
    "point",
    "point-uncached",
    "update",
    "update-inc",
    "oltp-update-index",
    "hot",
    "kinds-of-write",
    "sysbench-transaction",
    "forestdb",
    "db-bench",
    "db-bench-modern",
    "neighbours",
    "point-repeated",
    "collections",
    "scanned",
    "capped",
    "change-log",
    "ycsb-a",
    "ycsb-b",
    "ycsb-c",
    "ycsb-d",
    "ycsb-e",
    "ycsb-f",
    "linkbench",
    "trx",
    "overload",
    "tpcc",
    "backup",
    "connection-storm",
    "analytics",
    "near-sphere",
    "jsonbench",
    "ttl",
    "fan-out",
    "vector",
    "search",
    "follow",
    "equal-servers",
];

impl Workload {
    /// Every workload, in the order of the list.
    ///
    /// # Errors
    /// A file cannot be parsed; a test makes sure that all can.
    pub fn all() -> Result<Vec<Self>, WorkloadError> {
        FILES
            .iter()
            .map(|text| {
                Self::parse(text, "").map_err(|(line, error)| {
                    let name = text.lines().next().unwrap_or_default();
                    WorkloadError::File(format!("{name}: line {line}: {error}"))
                })
            })
            .collect()
    }

    /// The text of the built-in workload `name`.
    ///
    /// # Errors
    /// There is no such workload.
    pub(super) fn built_in(name: &str) -> Result<&'static str, WorkloadError> {
        let own = Self::load(name)?.name;
        let at = Self::all()?.iter().position(|one| one.name == own);
        let text = at.and_then(|at| FILES.get(at)).copied();
        text.ok_or_else(|| WorkloadError::UnknownWorkload {
            given: name.to_owned(),
            known: own,
        })
    }

    /// The built-in workload `name`, or the workload in that file if the name ends in `.toml`.
    ///
    /// # Errors
    /// There is no such workload.
    pub fn load(name: &str) -> Result<Self, WorkloadError> {
        if name.ends_with(".toml") {
            return Self::read(std::path::Path::new(name));
        }
        // Parsed only once, because judging many runs needs the same few workloads many times.
        static PARSED: std::sync::OnceLock<Vec<Workload>> = std::sync::OnceLock::new();
        let all = match PARSED.get() {
            Some(all) => all,
            None => {
                let parsed = Self::all()?;
                PARSED.get_or_init(|| parsed)
            }
        };
        let known = all
            .iter()
            .map(|workload| workload.name.as_str())
            .collect::<Vec<_>>()
            .join(", ");
        all.iter()
            .find(|workload| workload.name == name)
            .cloned()
            .ok_or_else(|| WorkloadError::UnknownWorkload {
                given: name.to_owned(),
                known,
            })
    }
}
