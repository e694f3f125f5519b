//! Settings that change the kind of a workload's work, and not only its amount: unique indexes, ids
//! without order, a wait between steps.
//!
//! Promises: the adapted workload contains every change, so that code that runs it need not read
//! these settings again. A setting that a workload cannot use is refused instead of ignored.

use super::choices::{Ids, Stop};
use super::definition::{Operation, Role, Step, Workload, WorkloadError};
use super::overrides::Overrides;
use super::settings::Settings;
use crate::draw::KeyDistribution;
use crate::pacing::Arrivals;

impl Role {
    /// A role that repeats `operation`, with defaults for everything else.
    pub fn of(operation: Operation) -> Self {
        Self {
            operation,
            statements: Vec::new(),
            compiled: Default::default(),
            arrivals: None,
            clients: None,
            batch: None,
            rate: None,
            sync: false,
            limit: None,
            draw: KeyDistribution::Uniform,
            mix: Vec::new(),
            reverse: false,
            within: None,
            read_batch: None,
            prefetch: false,
            sync_every: None,
            times_saturation: None,
            between: None,
        }
    }
}

fn wrong(name: &'static str, given: &dyn std::fmt::Display, allowed: &str) -> WorkloadError {
    WorkloadError::Setting {
        name,
        given: given.to_string(),
        allowed: allowed.to_owned(),
    }
}

fn is_update(operation: Operation) -> bool {
    matches!(operation, Operation::UpdateInc | Operation::UpdateSet)
}

impl Workload {
    /// Adapts the workload to the settings.
    #[must_use]
    pub fn adapt(mut self, settings: &Settings) -> Self {
        let data = &mut self.data;
        for index in data
            .indexes
            .iter_mut()
            .take(settings.unique_indexes as usize)
        {
            index.unique = true;
        }
        data.ids = settings.ids.unwrap_or(data.ids);
        if settings.capped == Some(false) {
            data.capped_bytes = None;
        }
        let arrivals = settings.arrivals.as_deref().map(Arrivals::parse);
        let arrivals = arrivals.and_then(Result::ok);
        for step in &mut self.steps {
            let role = &mut step.work;
            if step.measured && arrivals.is_some() {
                role.arrivals = arrivals.clone();
            }
            match role.operation {
                Operation::Point if settings.read_batch > 1 => {
                    role.read_batch = Some(settings.read_batch)
                }
                Operation::Insert => role.sync_every = settings.sync_every.or(role.sync_every),
                operation => role.prefetch |= settings.prefetch && is_update(operation),
            }
        }
        if let Some(after) = &settings.settle_after
            && let Some(at) = self.steps.iter().position(|step| step.name == *after)
        {
            let each_round = self.steps.get(at).is_some_and(|step| step.each_round);
            let step = Step {
                name: format!("rest-after-{after}"),
                work: Role::of(Operation::Settle),
                background: Vec::new(),
                stop: Stop::Done,
                measured: false,
                rows: None,
                each_round,
                seconds: None,
                command: None,
                during: Vec::new(),
                saturate: false,
                readers: None,
                expiry: None,
                recall: None,
                agree: Vec::new(),
                program: false,
            };
            self.steps.insert(at + 1, step);
        }
        self
    }

    /// The operations of all roles.
    fn operations(&self) -> impl Iterator<Item = Operation> {
        let roles = self
            .steps
            .iter()
            .flat_map(|step| step.background.iter().chain([&step.work]));
        roles.flat_map(|role| {
            role.mix
                .iter()
                .map(|(operation, _)| *operation)
                .chain([role.operation])
        })
    }

    /// Refuses settings of the user that this workload cannot use.
    pub(super) fn check_use(&self, given: &Overrides) -> Result<(), WorkloadError> {
        let has = |wanted: &[Operation]| self.operations().any(|one| wanted.contains(&one));
        let is_hot = has(&[Operation::Hot]);
        let has_payload = || self.row_bytes(1_000) != self.row_bytes(2_000);
        let has_limit = has(&[Operation::Range, Operation::IndexRange, Operation::Scan]);
        let of = |value: Option<u32>| value.map(u64::from);
        let cases = [
            (
                "--payload",
                of(given.payload),
                has_payload(),
                "its documents have no pad or value",
            ),
            ("--limit", of(given.limit), has_limit, "it reads no ranges"),
            (
                "--hot-rows",
                of(given.hot_rows),
                is_hot,
                "it has no hot documents",
            ),
            (
                "--batch",
                of(given.batch),
                self.data.documents.program().is_none(),
                "its steps say how many writes a transaction has",
            ),
            (
                "--rounds",
                of(given.rounds),
                self.steps.iter().any(|step| step.each_round),
                "it has no rounds",
            ),
            (
                "--extra-tables",
                of(given.extra_tables),
                has(&[Operation::CreateTables]),
                "it makes no tables beside those it uses",
            ),
        ];
        for (name, value, is_used, because) in cases {
            if let Some(value) = value.filter(|_| !is_used) {
                return Err(wrong(
                    name,
                    &value,
                    &format!("nothing for this workload: {because}"),
                ));
            }
        }
        match given.assign {
            Some(assign) if !is_hot => Err(wrong(
                "--assign",
                &format!("{assign:?}").to_lowercase(),
                "nothing for this workload: it has no hot documents",
            )),
            _ => Ok(()),
        }
    }

    /// Checks that this workload can be adapted to the settings.
    pub(super) fn check_adaptation(&self, settings: &Settings) -> Result<(), WorkloadError> {
        let works = || self.steps.iter().map(|step| step.work.operation);
        let distinct = self
            .data
            .indexes
            .iter()
            .take(settings.indexes as usize)
            .take_while(|index| index.distinct)
            .count();
        if settings.unique_indexes as usize > distinct {
            return Err(wrong(
                "--unique-indexes",
                &settings.unique_indexes,
                &format!("0 to {distinct} for this workload and its indexes"),
            ));
        }
        self.check_ids(settings)?;
        if settings.read_batch == 0
            || settings.read_batch > 1 && !works().any(|operation| operation == Operation::Point)
        {
            return Err(wrong(
                "--read-batch",
                &settings.read_batch,
                "1, or more for workloads with point reads",
            ));
        }
        if settings.sync_every == Some(0)
            || settings.sync_every.is_some()
                && !works().any(|operation| operation == Operation::Insert)
        {
            return Err(wrong(
                "--sync-every",
                &settings.sync_every.unwrap_or(0),
                "1 or more, for workloads that insert",
            ));
        }
        if settings.prefetch && !works().any(is_update) {
            return Err(wrong(
                "--prefetch",
                &true,
                "false for this workload: it has no updates of single documents",
            ));
        }
        if settings.capped == Some(true) && self.data.capped_bytes.is_none() {
            return Err(wrong("--capped", &true, "false for this workload"));
        }
        match &settings.settle_after {
            Some(after) if !self.steps.iter().any(|step| step.name == *after) => {
                let names: Vec<&str> = self.steps.iter().map(|step| step.name.as_str()).collect();
                Err(wrong(
                    "--settle-after",
                    after,
                    &format!("a step: {}", names.join(", ")),
                ))
            }
            _ => Ok(()),
        }
    }

    /// Checks that the workload's ids can be made as the settings say.
    fn check_ids(&self, settings: &Settings) -> Result<(), WorkloadError> {
        match settings.ids {
            Some(Ids::Random)
                if self.data.documents.has_text_keys()
                    || self
                        .operations()
                        .any(|operation| operation == Operation::Scan) =>
            {
                Err(wrong(
                    "--ids",
                    &"random",
                    "lab or target for this workload: its ids are text, or it scans them in order",
                ))
            }
            Some(Ids::Target)
                if self.data.ids != Ids::Target
                    && self.operations().any(|operation| {
                        !operation.is_action()
                            && !matches!(operation, Operation::Insert | Operation::IndexRange)
                    }) =>
            {
                Err(wrong(
                    "--ids",
                    &"target",
                    "lab or random for this workload: it finds rows by id",
                ))
            }
            _ => Ok(()),
        }
    }

    /// Lists where these settings differ from the paper's.
    pub(super) fn note_adaptation(
        &self,
        here: &Settings,
        paper: &Settings,
        note: &mut impl FnMut(&str, String, String),
    ) {
        let ids = |settings: &Settings| {
            format!("{:?}", settings.ids.unwrap_or(self.data.ids)).to_lowercase()
        };
        note("ids made by", ids(here), ids(paper));
        let seeds = |settings: &Settings| format!("{:?}", settings.seed_mode);
        note("seeds", seeds(here), seeds(paper));
        let every = |settings: &Settings| {
            settings.sync_every.map_or_else(
                || "never".to_owned(),
                |calls| format!("every {calls} calls"),
            )
        };
        note("commit on storage", every(here), every(paper));
        let after = |settings: &Settings| {
            settings
                .settle_after
                .clone()
                .unwrap_or_else(|| "no step".to_owned())
        };
        note("at rest after", after(here), after(paper));
        note(
            "read before update",
            here.prefetch.to_string(),
            paper.prefetch.to_string(),
        );
        let capped = |settings: &Settings| {
            settings
                .capped
                .unwrap_or(self.data.capped_bytes.is_some())
                .to_string()
        };
        note("capped", capped(here), capped(paper));
    }
}

#[cfg(test)]
mod tests {
    use super::super::Overrides;
    use super::*;

    fn settings_error(workload: &str, given: Overrides) -> String {
        Workload::load(workload)
            .unwrap()
            .settings("smoke", given)
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn settings_change_the_steps_and_the_data() {
        let workload = Workload::load("insert-grow").unwrap();
        let given = Overrides {
            unique_indexes: Some(1),
            ids: Some(Ids::Random),
            sync_every: Some(5),
            ..Overrides::default()
        };
        let settings = workload.settings("smoke", given).unwrap();
        let changed = workload.list_paper_changes(&settings);
        for wanted in [
            "unique indexes 1 (paper: 0)",
            "ids made by random (paper: target)",
            "commit on storage every 5 calls (paper: never)",
        ] {
            assert!(changed.iter().any(|line| line == wanted), "{changed:?}");
        }
        let adapted = workload.adapt(&settings);
        assert_eq!(
            adapted
                .data
                .indexes
                .iter()
                .map(|index| index.unique)
                .collect::<Vec<_>>(),
            [true, false, false]
        );
        assert_eq!(
            (adapted.data.ids, adapted.steps[1].work.sync_every),
            (Ids::Random, Some(5))
        );

        let workload = Workload::load("forestdb").unwrap();
        let given = Overrides {
            settle_after: Some("load".to_owned()),
            read_batch: Some(3),
            ..Overrides::default()
        };
        let settings = workload.settings("smoke", given).unwrap();
        let names: Vec<String> = workload
            .adapt(&settings)
            .steps
            .iter()
            .take(3)
            .map(|step| step.name.clone())
            .collect();
        assert_eq!(names, ["load", "rest-after-load", "ows.1"]);

        let workload = Workload::load("capped").unwrap();
        let settings = workload
            .settings(
                "smoke",
                Overrides {
                    capped: Some(false),
                    ..Overrides::default()
                },
            )
            .unwrap();
        assert_eq!(workload.adapt(&settings).data.capped_bytes, None);
        let workload = Workload::load("update").unwrap();
        let settings = workload
            .settings(
                "smoke",
                Overrides {
                    prefetch: Some(true),
                    ..Overrides::default()
                },
            )
            .unwrap();
        assert_eq!(
            workload
                .adapt(&settings)
                .steps
                .iter()
                .map(|step| step.work.prefetch)
                .collect::<Vec<_>>(),
            [false, true]
        );
    }

    #[test]
    fn settings_without_a_use_are_refused() {
        let default = Overrides::default;
        let cases = [
            (
                "insert",
                Overrides {
                    unique_indexes: Some(1),
                    indexes: Some(3),
                    ..default()
                },
                "--unique-indexes",
            ),
            (
                "insert-grow",
                Overrides {
                    unique_indexes: Some(2),
                    ..default()
                },
                "0 to 1",
            ),
            (
                "scanned",
                Overrides {
                    ids: Some(Ids::Random),
                    ..default()
                },
                "--ids",
            ),
            (
                "forestdb",
                Overrides {
                    ids: Some(Ids::Random),
                    ..default()
                },
                "--ids",
            ),
            (
                "point",
                Overrides {
                    ids: Some(Ids::Target),
                    ..default()
                },
                "finds rows by id",
            ),
            (
                "hot",
                Overrides {
                    read_batch: Some(5),
                    ..default()
                },
                "--read-batch",
            ),
            (
                "point",
                Overrides {
                    sync_every: Some(0),
                    ..default()
                },
                "--sync-every",
            ),
            (
                "point",
                Overrides {
                    prefetch: Some(true),
                    ..default()
                },
                "--prefetch",
            ),
            (
                "point",
                Overrides {
                    capped: Some(true),
                    ..default()
                },
                "--capped",
            ),
            (
                "point",
                Overrides {
                    payload: Some(100),
                    ..default()
                },
                "no pad or value",
            ),
            (
                "point",
                Overrides {
                    hot_rows: Some(2),
                    ..default()
                },
                "no hot documents",
            ),
            (
                "insert",
                Overrides {
                    rounds: Some(2),
                    ..default()
                },
                "no rounds",
            ),
            (
                "point",
                Overrides {
                    settle_after: Some("lunch".to_owned()),
                    ..default()
                },
                "load, point",
            ),
        ];
        for (workload, overrides, reason) in cases {
            let found = settings_error(workload, overrides);
            assert!(found.contains(reason), "{workload}: {found}");
        }
    }
}
