//! Workloads as data: a TOML file names its documents, indexes and steps; a step names the part that does the work.
//!
//! A new workload is a new file in `workloads/` and one line in [`FILES`], unless it needs a part that nobody has written yet.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

const FILES: &[&str] = &[
    include_str!("../workloads/insert.toml"),
    include_str!("../workloads/point.toml"),
    include_str!("../workloads/update-inc.toml"),
    include_str!("../workloads/hot.toml"),
];

/// What a user asked for that does not exist or does not fit.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// No such workload.
    #[error("there is no workload '{given}'; there are: {known}")]
    UnknownWorkload {
        /// What was asked for.
        given: String,
        /// What there is.
        known: String,
    },
    /// No such preset.
    #[error("workload '{workload}' has no preset '{given}'; it has: {known}")]
    UnknownPreset {
        /// The workload.
        workload: String,
        /// What was asked for.
        given: String,
        /// What there is.
        known: String,
    },
    /// A setting out of its range.
    #[error("{name} is {given}; allowed is {allowed}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// What was given.
        given: String,
        /// What is allowed.
        allowed: String,
    },
    /// A workload file that cannot be read.
    #[error("workload file: {0}")]
    File(String),
}

/// A workload file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Name on the command line.
    pub name: String,
    /// Heading of the report.
    pub title: String,
    /// What it does, in a sentence or two.
    pub about: String,
    /// Where its definition comes from.
    pub source: String,
    /// What is stored.
    pub data: Data,
    /// What is done, in order.
    #[serde(rename = "step")]
    pub steps: Vec<Step>,
    /// Settings that no preset needs to repeat.
    defaults: Overrides,
    /// Sizes.
    preset: BTreeMap<String, Overrides>,
}

/// What a workload stores.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// Which document generator.
    pub documents: DocumentKind,
    /// Collection name; with one collection per client a number follows it.
    pub collection: String,
    /// Secondary indexes, in the order in which `indexes = N` takes them.
    #[serde(default, rename = "index")]
    pub indexes: Vec<Index>,
}

/// A secondary index, ascending, not unique.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Index {
    /// Its name.
    pub name: String,
    /// Its fields.
    pub keys: Vec<String>,
}

/// The document generators.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum DocumentKind {
    /// [`crate::documents::Purchase`].
    Purchase,
    /// [`crate::documents::SysbenchRow`].
    Sysbench,
}

/// One step of a workload.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Name in results.
    pub name: String,
    /// The work.
    pub part: Part,
    /// What ends it.
    pub stop: Stop,
    /// Whether it is what the workload is about; other steps prepare for it and have no warm-up.
    #[serde(default)]
    pub measured: bool,
    /// Documents per insert command, where it differs from the setting.
    pub batch: Option<u32>,
}

/// The work that a client can do.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Insert batches.
    Insert,
    /// Find one document by `_id`.
    Point,
    /// `$inc` one document by `_id`.
    UpdateInc,
    /// `$inc` always the same document.
    Hot,
}

impl Part {
    /// What one operation is called in results.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Insert => "documents",
            Self::Point => "queries",
            Self::UpdateInc | Self::Hot => "updates",
        }
    }

    /// The same for one.
    pub fn unit_one(self) -> &'static str {
        match self {
            Self::Insert => "document",
            Self::Point => "query",
            Self::UpdateInc | Self::Hot => "update",
        }
    }
}

/// What ends a step.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// The rows of the setting are stored (or, if `seconds` is set, that time is over).
    Rows,
    /// The time of the setting is over.
    Seconds,
}

/// How clients share collections.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// All in one.
    Shared,
    /// One each.
    PerClient,
}

/// Settings that a file, a preset or a command line may give.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overrides {
    /// Documents in all.
    pub rows: Option<u64>,
    /// Concurrent clients.
    pub clients: Option<u32>,
    /// Documents per insert command.
    pub batch: Option<u32>,
    /// Seconds measured.
    pub seconds: Option<u64>,
    /// Seconds run before measuring.
    pub warmup_seconds: Option<u64>,
    /// Secondary indexes made before the load.
    pub indexes: Option<u32>,
    /// How clients share collections.
    pub placement: Option<Placement>,
    /// Operations per second in all; without it, as fast as replies come.
    pub rate: Option<f64>,
}

impl Overrides {
    /// Fills what is missing here from `base`.
    fn or(self, base: &Self) -> Self {
        Self {
            rows: self.rows.or(base.rows),
            clients: self.clients.or(base.clients),
            batch: self.batch.or(base.batch),
            seconds: self.seconds.or(base.seconds),
            warmup_seconds: self.warmup_seconds.or(base.warmup_seconds),
            indexes: self.indexes.or(base.indexes),
            placement: self.placement.or(base.placement),
            rate: self.rate.or(base.rate),
        }
    }
}

/// The settings of a run, complete.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Settings {
    /// The preset they started from.
    pub preset: String,
    /// Documents in all.
    pub rows: u64,
    /// Concurrent clients.
    pub clients: u32,
    /// Documents per insert command.
    pub batch: u32,
    /// Seconds measured, when time ends the step.
    pub seconds: Option<u64>,
    /// Seconds run before measuring.
    pub warmup_seconds: u64,
    /// Secondary indexes made before the load.
    pub indexes: u32,
    /// How clients share collections.
    pub placement: Placement,
    /// Operations per second in all; none is a closed loop.
    pub rate: Option<f64>,
}

impl Workload {
    /// Every workload, in the order of the list.
    ///
    /// # Errors
    /// A file that cannot be parsed; a test keeps that from happening.
    pub fn all() -> Result<Vec<Self>, WorkloadError> {
        FILES
            .iter()
            .map(|text| {
                toml::from_str(text).map_err(|error| WorkloadError::File(error.to_string()))
            })
            .collect()
    }

    /// The workload called `name`.
    ///
    /// # Errors
    /// There is none.
    pub fn named(name: &str) -> Result<Self, WorkloadError> {
        let all = Self::all()?;
        let known = all
            .iter()
            .map(|workload| workload.name.as_str())
            .collect::<Vec<_>>()
            .join(", ");
        all.into_iter()
            .find(|workload| workload.name == name)
            .ok_or_else(|| WorkloadError::UnknownWorkload {
                given: name.to_owned(),
                known,
            })
    }

    /// The presets in order of size.
    pub fn presets(&self) -> Vec<(&str, Settings)> {
        let mut out: Vec<(&str, Settings)> = self
            .preset
            .keys()
            .filter_map(|name| {
                Some((
                    name.as_str(),
                    self.settings(name, Overrides::default()).ok()?,
                ))
            })
            .collect();
        out.sort_by_key(|(_, settings)| (settings.rows, settings.seconds));
        out
    }

    /// Settings of a preset with the user's changes.
    ///
    /// # Errors
    /// Unknown preset, or a value out of range.
    pub fn settings(&self, preset: &str, given: Overrides) -> Result<Settings, WorkloadError> {
        let base = self
            .preset
            .get(preset)
            .ok_or_else(|| WorkloadError::UnknownPreset {
                workload: self.name.clone(),
                given: preset.to_owned(),
                known: self.preset.keys().cloned().collect::<Vec<_>>().join(", "),
            })?;
        let merged = given.or(base).or(&self.defaults);
        let settings = Settings {
            preset: preset.to_owned(),
            rows: merged.rows.unwrap_or(0),
            clients: merged.clients.unwrap_or(1),
            batch: merged.batch.unwrap_or(1),
            seconds: merged.seconds,
            warmup_seconds: merged.warmup_seconds.unwrap_or(0),
            indexes: merged.indexes.unwrap_or(0),
            placement: merged.placement.unwrap_or(Placement::Shared),
            rate: merged.rate,
        };
        self.check(&settings)?;
        Ok(settings)
    }

    fn check(&self, settings: &Settings) -> Result<(), WorkloadError> {
        let within = |name, given: u64, low: u64, high: u64| {
            if (low..=high).contains(&given) {
                return Ok(());
            }
            Err(WorkloadError::Setting {
                name,
                given: given.to_string(),
                allowed: format!("{low} to {high}"),
            })
        };
        within("--rows", settings.rows, 1, u64::from(u32::MAX) * 1_000)?;
        within("--clients", u64::from(settings.clients), 1, 4_096)?;
        within("--batch", u64::from(settings.batch), 1, 100_000)?;
        within(
            "--indexes",
            u64::from(settings.indexes),
            0,
            self.data.indexes.len() as u64,
        )?;
        if let Some(seconds) = settings.seconds {
            within("--seconds", seconds, 1, 31_536_000)?;
        }
        if self.data.documents == DocumentKind::Sysbench
            && settings.placement == Placement::PerClient
        {
            let given = "per-client".to_owned();
            return Err(WorkloadError::Setting {
                name: "--placement",
                given,
                allowed: "shared for this workload".to_owned(),
            });
        }
        match settings.rate {
            Some(rate) if !(rate.is_finite() && rate >= 0.001) => Err(WorkloadError::Setting {
                name: "--rate",
                given: rate.to_string(),
                allowed: "0.001 or more per second".to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// In words, where the settings differ from the preset called `paper`: what keeps a result from standing beside the published one.
    pub fn changed_from_paper(&self, settings: &Settings) -> Vec<String> {
        let Ok(paper) = self.settings("paper", Overrides::default()) else {
            return Vec::new();
        };
        let mut out = Vec::new();
        let mut note = |name: &str, here: String, there: String| {
            if here != there {
                out.push(format!("{name} {here} (paper: {there})"));
            }
        };
        let optional = |value: Option<u64>| {
            value.map_or_else(|| "not limited".to_owned(), |seconds| seconds.to_string())
        };
        note(
            "rows",
            crate::format::count(settings.rows),
            crate::format::count(paper.rows),
        );
        note(
            "clients",
            settings.clients.to_string(),
            paper.clients.to_string(),
        );
        note("batch", settings.batch.to_string(), paper.batch.to_string());
        note(
            "seconds",
            optional(settings.seconds),
            optional(paper.seconds),
        );
        note(
            "warm-up seconds",
            settings.warmup_seconds.to_string(),
            paper.warmup_seconds.to_string(),
        );
        note(
            "indexes",
            settings.indexes.to_string(),
            paper.indexes.to_string(),
        );
        note(
            "placement",
            format!("{:?}", settings.placement),
            format!("{:?}", paper.placement),
        );
        if let Some(rate) = settings.rate {
            note("rate", format!("{rate}/s"), "not limited".to_owned());
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_parses_and_has_the_four_presets() {
        for workload in Workload::all().unwrap() {
            let names: Vec<&str> = workload.presets().iter().map(|(name, _)| *name).collect();
            assert_eq!(
                names,
                ["smoke", "laptop", "server", "paper"],
                "{}",
                workload.name
            );
            assert_eq!(
                workload.steps.iter().filter(|step| step.measured).count(),
                1,
                "{}",
                workload.name
            );
            let has_time = workload
                .settings("smoke", Overrides::default())
                .unwrap()
                .seconds
                .is_some();
            let needs_time = workload.steps.iter().any(|step| step.stop == Stop::Seconds);
            assert_eq!(has_time, needs_time, "{}", workload.name);
        }
    }

    #[test]
    fn the_command_line_wins_over_the_preset_and_the_preset_over_defaults() {
        let insert = Workload::named("insert").unwrap();
        let settings = insert
            .settings(
                "smoke",
                Overrides {
                    clients: Some(7),
                    ..Overrides::default()
                },
            )
            .unwrap();
        assert_eq!(
            (settings.clients, settings.rows, settings.batch),
            (7, 100_000, 100)
        );
        let changed = insert.changed_from_paper(&settings);
        assert!(
            changed.contains(&"clients 7 (paper: 10)".to_owned()),
            "{changed:?}"
        );
        assert!(
            !changed.iter().any(|line| line.starts_with("batch")),
            "{changed:?}"
        );
    }

    #[test]
    fn wrong_settings_say_what_is_allowed() {
        let insert = Workload::named("insert").unwrap();
        let message = |given| insert.settings("smoke", given).unwrap_err().to_string();
        assert_eq!(
            message(Overrides {
                indexes: Some(4),
                ..Overrides::default()
            }),
            "--indexes is 4; allowed is 0 to 3"
        );
        assert_eq!(
            message(Overrides {
                clients: Some(0),
                ..Overrides::default()
            }),
            "--clients is 0; allowed is 1 to 4096"
        );
        assert_eq!(
            message(Overrides {
                rate: Some(f64::NAN),
                ..Overrides::default()
            }),
            "--rate is NaN; allowed is 0.001 or more per second"
        );
        assert!(
            Workload::named("bogus")
                .unwrap_err()
                .to_string()
                .contains("insert, point")
        );
        assert!(
            insert
                .settings("huge", Overrides::default())
                .unwrap_err()
                .to_string()
                .contains("laptop")
        );
    }
}
