//! The settings of a run: merged from the command line, the preset and the file, and checked.

use serde::{Deserialize, Serialize};

use super::choices::{Assign, Ids, Placement, Stop};
use super::definition::{DocumentKind, Operation, Step, Workload, WorkloadError};
use super::overrides::Overrides;
use crate::pacing::Arrivals;
use crate::seed::SeedMode;

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
    /// Seconds measured, if the step ends by time.
    pub seconds: Option<u64>,
    /// Seconds of warm-up before measuring.
    pub warmup_seconds: u64,
    /// Secondary indexes.
    pub indexes: u32,
    /// How clients share collections.
    pub placement: Placement,
    /// Operations per second in all; `None` is a closed loop.
    pub rate: Option<f64>,
    /// How calls of an open loop arrive; `None`: evenly.
    #[serde(default)]
    pub arrivals: Option<String>,
    /// Collections.
    #[serde(default = "one")]
    pub tables: u32,
    /// Number of databases; the collections are assigned to them in turn.
    #[serde(default = "one")]
    pub databases: u32,
    /// Bytes of the pad or value, for rows that have one.
    #[serde(default)]
    pub payload: u32,
    /// Repetitions of the steps that a workload repeats.
    #[serde(default = "one")]
    pub rounds: u32,
    /// Documents that a hot workload updates.
    #[serde(default = "one")]
    pub hot_rows: u32,
    /// How clients share the hot documents.
    #[serde(default)]
    pub assign: Assign,
    /// Entries that a range returns, or documents that a scan reads.
    #[serde(default = "one")]
    pub limit: u32,
    /// Memory for the target and its page cache, in MiB.
    #[serde(default)]
    pub memory_mb: Option<u64>,
    /// Tables that a probe makes in addition to those it uses.
    #[serde(default)]
    pub extra_tables: u32,
    /// Number of secondary indexes, from the first on, that are unique.
    #[serde(default)]
    pub unique_indexes: u32,
    /// Who makes ids; `None`: as the workload says.
    #[serde(default)]
    pub ids: Option<Ids>,
    /// Number of neighbours that a batch of point reads reads, one after the other.
    #[serde(default = "one")]
    pub read_batch: u32,
    /// How the streams of clients differ.
    #[serde(default)]
    pub seed_mode: SeedMode,
    /// N: of every N calls of an inserting client the last waits for storage.
    #[serde(default)]
    pub sync_every: Option<u32>,
    /// The step after which the run waits until the target is idle.
    #[serde(default)]
    pub settle_after: Option<String>,
    /// Whether each update is preceded by a read of its document.
    #[serde(default)]
    pub prefetch: bool,
    /// Whether collections that the workload wants capped are capped; `None`: they are.
    #[serde(default)]
    pub capped: Option<bool>,
}

fn one() -> u32 {
    1
}

impl Settings {
    /// The number of rows of table `table`, counted from 0. The tables' shares differ by at most
    /// one and add up to all rows.
    pub fn rows_of(&self, table: u32) -> u64 {
        let before = |number: u32| {
            (u128::from(self.rows) * u128::from(number) / u128::from(self.tables.max(1))) as u64
        };
        before(table + 1) - before(table)
    }
}

impl Workload {
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
        // A file without presets has only its defaults.
        let none = Overrides::default();
        let is_plain = self.preset.is_empty() && preset == "smoke";
        let base = self
            .preset
            .get(preset)
            .or(is_plain.then_some(&none))
            .ok_or_else(|| WorkloadError::UnknownPreset {
                workload: self.name.clone(),
                given: preset.to_owned(),
                known: self.preset.keys().cloned().collect::<Vec<_>>().join(", "),
            })?;
        self.check_use(&given)?;
        // `rows` and `times_memory` both set the size: the one from the source of higher precedence
        // wins.
        let times_memory = match (given.rows, given.times_memory, base.rows) {
            (None, Some(times), _) => Some(times),
            (None, None, None) => base.times_memory.or(self.defaults.times_memory),
            _ => None,
        };
        let merged = given.fill_from(base).fill_from(&self.defaults);
        let mut settings = Settings {
            preset: preset.to_owned(),
            rows: merged.rows.unwrap_or(0),
            clients: merged.clients.unwrap_or(1),
            batch: merged.batch.unwrap_or(1),
            seconds: merged.seconds,
            warmup_seconds: merged.warmup_seconds.unwrap_or(0),
            indexes: merged.indexes.unwrap_or(0),
            placement: merged.placement.unwrap_or_default(),
            rate: merged.rate,
            arrivals: merged.arrivals,
            tables: merged.tables.unwrap_or(1),
            databases: merged.databases.unwrap_or(1),
            payload: merged.payload.unwrap_or(0),
            rounds: merged.rounds.unwrap_or(1),
            hot_rows: merged.hot_rows.unwrap_or(1),
            assign: merged.assign.unwrap_or_default(),
            limit: merged.limit.unwrap_or(1),
            memory_mb: merged.memory_mb,
            extra_tables: merged.extra_tables.unwrap_or(0),
            unique_indexes: merged.unique_indexes.unwrap_or(0),
            ids: merged.ids,
            read_batch: merged.read_batch.unwrap_or(1),
            seed_mode: merged.seed_mode.unwrap_or_default(),
            sync_every: merged.sync_every,
            settle_after: merged.settle_after,
            prefetch: merged.prefetch.unwrap_or(false),
            capped: merged.capped,
        };
        if settings.placement == Placement::PerClient {
            settings.tables = settings.clients;
        }
        if let (Some(times), Some(memory)) = (times_memory, settings.memory_mb) {
            let row = self.row_bytes(settings.payload);
            settings.rows = (times * memory as f64 * 1_048_576.0 / row as f64) as u64;
        }
        self.check(&settings)?;
        Ok(settings)
    }

    /// Bytes of an average row, without the target's own overhead.
    pub fn row_bytes(&self, payload: u32) -> u64 {
        const SAMPLE: u64 = 200;
        let kind = self.data.documents;
        if let Some(program) = kind.program() {
            return program.row_bytes();
        }
        let mut random = crate::seed::stream(0, "size", "sample", 0);
        let total: u64 = (1..=SAMPLE)
            .map(|number| {
                let fields = kind.draw(&mut random, number, SAMPLE, payload, 0);
                let id = Some(kind.key(number));
                crate::row::Row { id, fields }.logical_bytes()
            })
            .sum();
        (total / SAMPLE).max(1)
    }

    /// Checks that the settings are within their ranges.
    pub(super) fn check(&self, settings: &Settings) -> Result<(), WorkloadError> {
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
        let indexes = self.data.indexes.len() as u64;
        within("--indexes", u64::from(settings.indexes), 0, indexes)?;
        within("--tables", u64::from(settings.tables), 1, 1_000_000)?;
        let tables = u64::from(settings.tables);
        within("--databases", u64::from(settings.databases), 1, tables)?;
        within(
            "--extra-tables",
            u64::from(settings.extra_tables),
            0,
            1_000_000,
        )?;
        within("--rounds", u64::from(settings.rounds), 1, 10_000)?;
        within("--payload", u64::from(settings.payload), 0, 10_000_000)?;
        within("--limit", u64::from(settings.limit), 1, 1_000_000)?;
        if self.steps.iter().any(owns_rows) {
            // Each client changes only its own documents, so each needs at least one.
            within(
                "--rows",
                settings.rows,
                u64::from(settings.clients) * u64::from(settings.tables),
                u64::MAX,
            )?;
        }
        self.check_adaptation(settings)?;
        let hot_rows = u64::from(settings.hot_rows);
        within("--hot-rows", hot_rows, 1, settings.rows.min(100_000))?;
        if let Some(memory) = settings.memory_mb {
            within("--memory-mb", memory, 16, 16_777_216)?;
        }
        let needs_time = |step: &Step| step.stop == Stop::Seconds && step.seconds.is_none();
        let needs_time = self.steps.iter().any(needs_time);
        match settings.seconds {
            Some(seconds) => within("--seconds", seconds, 1, 31_536_000)?,
            None if needs_time => within("--seconds", 0, 1, 31_536_000)?,
            None => {}
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
        if let Some(text) = &settings.arrivals {
            let wrong = |allowed: String| WorkloadError::Setting {
                name: "--arrivals",
                given: text.clone(),
                allowed,
            };
            let arrivals = Arrivals::parse(text).map_err(wrong)?;
            if settings.rate.is_none() && arrivals.mean_rate().is_none() {
                return Err(wrong("something with --rate".to_owned()));
            }
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

    /// Describes where the settings differ from the preset `paper`. With such differences a result
    /// cannot be compared with the published one.
    pub fn list_paper_changes(&self, settings: &Settings) -> Vec<String> {
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
            value.map_or_else(|| "not limited".to_owned(), |value| value.to_string())
        };
        let count = crate::format::count;
        note("rows", count(settings.rows), count(paper.rows));
        let (here, there) = (settings, &paper);
        for (name, here, there) in [
            ("clients", here.clients, there.clients),
            ("batch", here.batch, there.batch),
            ("indexes", here.indexes, there.indexes),
            ("tables", here.tables, there.tables),
            ("databases", here.databases, there.databases),
            ("payload bytes", here.payload, there.payload),
            ("rounds", here.rounds, there.rounds),
            ("hot rows", here.hot_rows, there.hot_rows),
            ("limit", here.limit, there.limit),
            ("extra tables", here.extra_tables, there.extra_tables),
            ("unique indexes", here.unique_indexes, there.unique_indexes),
            ("neighbours read", here.read_batch, there.read_batch),
        ] {
            note(name, here.to_string(), there.to_string());
        }
        note("seconds", optional(here.seconds), optional(there.seconds));
        let (warm, paper_warm) = (here.warmup_seconds, there.warmup_seconds);
        note("warm-up seconds", warm.to_string(), paper_warm.to_string());
        let (memory, paper_memory) = (optional(here.memory_mb), optional(there.memory_mb));
        note("memory MiB", memory, paper_memory);
        let placement = |value: &Settings| format!("{:?}", value.placement);
        note("placement", placement(here), placement(there));
        if here.hot_rows > 1 || there.hot_rows > 1 {
            let assign = |value: &Settings| format!("{:?}", value.assign);
            note("assignment of hot rows", assign(here), assign(there));
        }
        self.note_adaptation(settings, &paper, &mut note);
        if let Some(arrivals) = &settings.arrivals {
            note("arrivals", arrivals.clone(), "even".to_owned());
        }
        if let Some(rate) = settings.rate {
            note("rate", format!("{rate}/s"), "not limited".to_owned());
        }
        out
    }
}

/// Whether each client of a step changes only its own documents.
fn owns_rows(step: &Step) -> bool {
    let operations = || {
        step.work
            .mix
            .iter()
            .map(|(operation, _)| *operation)
            .chain([step.work.operation])
    };
    operations().any(|operation| {
        matches!(
            operation,
            Operation::ReadModifyWrite | Operation::DeleteInsert
        )
    })
}
