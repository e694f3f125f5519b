//! The state from which an interrupted run continues: written before each step, removed when the
//! run is complete.
//!
//! Promises: a run that was killed at any moment can be resumed at the interrupted step. A step
//! that inserts rows is undone first. A step that reads or changes rows in place begins again. If a
//! step cannot be undone, the run starts over.

use std::path::{Path, PathBuf};

use lab_kit::folder::{FolderError, write_whole};
use lab_kit::result::{RunFacts, SkippedStep, StepResult};
use lab_kit::target::Target;
use lab_kit::work::{TableCheckpoint, number_of};
use lab_kit::workload::{Ids, Operation, Settings, Step};
use serde::{Deserialize, Serialize};

use super::arguments::RunArguments;
use super::context::Run;
use super::expected_state::ExpectedState;
use super::state::RunState;
use crate::credentials::hide_password;
use crate::errors::LabError;

pub(crate) const FILE: &str = "checkpoint.json";
/// The state before the first measured step, for runs that read the same data.
pub(crate) const LOADED: &str = "loaded.json";
const SCHEMA: &str = "quarry-lab/checkpoint 2";

/// The state of a run before a step.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Checkpoint {
    schema: String,
    /// The command line, without a password.
    pub(crate) arguments: RunArguments,
    /// The settings of the run.
    pub(crate) settings: Settings,
    /// The seed of the run.
    pub(crate) seed: u64,
    /// The identity of the run.
    pub(crate) run: RunFacts,
    /// Steps that ended.
    pub(crate) steps: Vec<StepResult>,
    skipped: Vec<SkippedStep>,
    expected_state: ExpectedState,
    table_checkpoints: Vec<TableCheckpoint>,
    has_indexes: bool,
    is_sparse: bool,
    /// The step that was begun.
    begun: Option<String>,
}

/// An interrupted run.
#[derive(Debug)]
pub(crate) struct ResumedRun {
    /// Its folder.
    pub(crate) folder: PathBuf,
    /// Its state.
    pub(crate) checkpoint: Checkpoint,
}

impl ResumedRun {
    /// Reads the state of the run in `folder`.
    pub(crate) fn read(folder: &Path) -> Result<Self, LabError> {
        Self::read_file(folder, FILE)
    }

    /// Reads the state of the run in `folder` after it had loaded its data. The steps name the run
    /// that they come from.
    pub(crate) fn read_loaded(folder: &Path) -> Result<Self, LabError> {
        let mut out = Self::read_file(folder, LOADED)?;
        let from = out.checkpoint.run.id.clone();
        for step in &mut out.checkpoint.steps {
            step.more.remark = format!("done by run {from}, whose data this run reads");
        }
        Ok(out)
    }

    fn read_file(folder: &Path, name: &str) -> Result<Self, LabError> {
        let path = folder.join(name);
        let text = std::fs::read_to_string(&path).map_err(|source| {
            if folder.join("result.json").exists() && source.kind() == std::io::ErrorKind::NotFound
            {
                return LabError::NothingToResume {
                    folder: folder.to_owned(),
                };
            }
            FolderError::Read {
                path: path.clone(),
                source,
            }
            .into()
        })?;
        let checkpoint: Checkpoint =
            serde_json::from_str(&text).map_err(|error| FolderError::Format {
                path: path.clone(),
                reason: error.to_string(),
            })?;
        if checkpoint.schema != SCHEMA {
            let reason = format!(
                "its schema is {}, this program reads {SCHEMA}",
                checkpoint.schema
            );
            return Err(FolderError::Format { path, reason }.into());
        }
        Ok(Self {
            folder: folder.to_owned(),
            checkpoint,
        })
    }
}

impl Checkpoint {
    /// The state of a run before `step`.
    pub(crate) fn of<T: Target>(
        run: &Run<'_, T>,
        about: &RunFacts,
        done: &RunState,
        step: Option<&str>,
    ) -> Self {
        let mut arguments = run.arguments.clone();
        arguments.target = hide_password(&arguments.target);
        let indexes = run
            .dataset
            .indexes
            .lock()
            .map_or(0, |indexes| indexes.len());
        Self {
            schema: SCHEMA.to_owned(),
            arguments,
            settings: run.settings.clone(),
            seed: run.seed,
            run: about.clone(),
            steps: done.steps.clone(),
            skipped: done.skipped.clone(),
            expected_state: done.expected_state.clone(),
            table_checkpoints: run.dataset.table_checkpoints(),
            has_indexes: indexes > 0,
            is_sparse: run
                .dataset
                .sparse
                .load(std::sync::atomic::Ordering::Relaxed),
            begun: step.map(str::to_owned),
        }
    }

    /// Writes the checkpoint into the run's folder.
    pub(crate) fn write(&self, folder: &Path) -> Result<(), LabError> {
        self.write_as(folder, FILE)
    }

    /// Keeps the checkpoint for runs that read the same data.
    pub(crate) fn keep(&self, folder: &Path) -> Result<(), LabError> {
        self.write_as(folder, LOADED)
    }

    fn write_as(&self, folder: &Path, name: &str) -> Result<(), LabError> {
        let path = folder.join(name);
        let text = serde_json::to_string(self).map_err(|error| FolderError::Write {
            path: path.clone(),
            source: std::io::Error::other(error),
        })?;
        Ok(write_whole(&path, &text)?)
    }

    /// Removes the checkpoint of a complete run.
    pub(crate) fn remove(folder: &Path) {
        let _ = std::fs::remove_file(folder.join(FILE));
    }
}

impl<T: Target> Run<'_, T> {
    /// Resumes an interrupted run: brings the tables back to where the interrupted step began.
    pub(crate) async fn take_up(&self, resumed: ResumedRun) -> Result<RunState, LabError> {
        let Checkpoint {
            steps,
            skipped,
            expected_state,
            table_checkpoints,
            has_indexes,
            is_sparse,
            begun,
            ..
        } = resumed.checkpoint;
        let planned = self.planned_steps();
        let step = planned
            .iter()
            .find(|step| Some(&step.name) == begun.as_ref());
        let is_first = steps.is_empty();
        if is_first || step.is_none_or(|step| !self.can_be_repeated(step)) {
            let name = begun.unwrap_or_default();
            note_line!("step {name} cannot be continued: the run starts again");
            self.target.prepare().await?;
            return Ok(RunState::default());
        }
        note_line!(
            "continuing with step {}, {} are done",
            begun.unwrap_or_default(),
            steps.len()
        );
        self.dataset.restore(&table_checkpoints);
        self.dataset
            .sparse
            .store(is_sparse, std::sync::atomic::Ordering::Relaxed);
        if has_indexes {
            let mut known = self
                .dataset
                .indexes
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            known.extend(self.indexes());
            self.target.attach(&self.indexes());
        }
        if step.is_some_and(|step| step.work.operation == Operation::Insert) {
            for (table, mark) in table_checkpoints.iter().enumerate() {
                let last = i64::try_from(mark.visible).unwrap_or(i64::MAX);
                self.target.delete_above(table, last).await?;
            }
        }
        let mut done = RunState {
            steps,
            skipped,
            expected_state,
        };
        done.expected_state.forget_sum();
        let found = self.target.count().await.map(i128::from);
        if found.as_ref().ok() != Some(&done.expected_state.rows()) {
            let found = found.map_or_else(|reason| reason, |rows| rows.to_string());
            return Err(LabError::Changed {
                expected: done.expected_state.rows().to_string(),
                found,
            });
        }
        Ok(done)
    }

    /// Whether the state before a step can be restored.
    fn can_be_repeated(&self, step: &Step) -> bool {
        let data = &self.workload.data;
        let has_numbers = data.ids == Ids::Lab && number_of(&data.documents.key(1)).is_some();
        let roles = || step.background.iter().chain([&step.work]);
        roles().all(|role| {
            role.mix
                .iter()
                .map(|(operation, _)| *operation)
                .chain([role.operation])
                .all(|operation| match operation {
                    // Rows that a step inserted without a quota cannot be deleted by their numbers
                    // if other clients delete rows at the same time.
                    Operation::Insert => {
                        has_numbers && step.background.is_empty() && role.mix.is_empty()
                    }
                    // Only this process knows what a program has committed.
                    Operation::Load
                    | Operation::Procedure(_)
                    | Operation::DeleteOldest
                    | Operation::DeleteInsert
                    | Operation::FillRandom
                    | Operation::CreateIndexes
                    | Operation::Empty => false,
                    _ => true,
                })
        })
    }
}
