//! The constant state of a run, and which of its steps can be done.

use std::sync::{Arc, Mutex};

use lab_kit::environment::RunClock;
use lab_kit::share::Share;
use lab_kit::target::Target;
use lab_kit::work::Dataset;
use lab_kit::workload::{Capability, DocumentKind, Index, Operation, Settings, Step, Workload};

use super::arguments::RunArguments;
use crate::load::Fleet;

/// The constant state of a run.
pub(crate) struct Run<'a, T> {
    pub(crate) arguments: &'a RunArguments,
    pub(crate) workload: Workload,
    pub(crate) settings: Settings,
    pub(crate) seed: u64,
    pub(crate) target: Arc<T>,
    pub(crate) dataset: Arc<Dataset>,
    /// The name of the driver, for the result.
    pub(crate) driver: &'static str,
    /// The share of the clients that run in this process.
    pub(crate) share: Share,
    /// The machines that generate the load of measured steps, if this one does not.
    pub(crate) fleet: Mutex<Option<Fleet>>,
    /// The clock of the run.
    pub(crate) clock: RunClock,
}

impl<T: Target> Run<'_, T> {
    /// The secondary indexes of the settings.
    pub(crate) fn indexes(&self) -> Vec<Index> {
        let all = &self.workload.data.indexes;
        all.iter()
            .take(self.settings.indexes as usize)
            .cloned()
            .collect()
    }

    /// Why a step cannot be done, if it cannot.
    pub(crate) fn skip_reason(&self, step: &Step) -> Option<String> {
        let roles = || step.background.iter().chain([&step.work]);
        let is_custom = matches!(self.workload.data.documents, DocumentKind::Custom(_));
        let is_missing = |need: &Capability| match need {
            Capability::Documents => !self.target.takes_documents(),
            Capability::Programs => !self.target.takes_programs(),
            other => self.target.unsupported().contains(other),
        };
        let missing = roles()
            .flat_map(|role| role.requires())
            .chain(is_custom.then_some(Capability::Documents))
            .find(is_missing);
        if let Some(need) = missing {
            return Some(format!("the target has no {}", need.name()));
        }
        if step.program && self.arguments.program.is_none() {
            return Some("it needs --program".to_owned());
        }
        if self.arguments.copy.is_none() && step.agree.iter().any(|one| one.copy) {
            return Some("it needs --copy".to_owned());
        }
        if step.work.operation == Operation::Restart {
            let because = match (&self.arguments.restart_command, self.target.can_restart()) {
                (_, false) => "the target runs in the lab's process",
                (None, true) => "it needs --restart-command",
                (Some(_), true) => return None,
            };
            return Some(because.to_owned());
        }
        let reads_index = |operation: Operation| operation == Operation::IndexRange;
        let wants = roles().any(|role| {
            reads_index(role.operation)
                || role
                    .mix
                    .iter()
                    .any(|(operation, _)| reads_index(*operation))
        });
        (wants && self.settings.indexes == 0).then(|| "it needs --indexes 1 or more".to_owned())
    }

    /// The steps in order; a step that would create no indexes is left out.
    pub(crate) fn planned_steps(&self) -> Vec<Step> {
        let mut out = self.workload.steps(self.settings.rounds);
        out.retain(|step| {
            step.work.operation != Operation::CreateIndexes || self.settings.indexes > 0
        });
        out
    }

    pub(crate) fn quota(&self, step: &Step) -> u64 {
        (self.settings.rows as f64 * step.rows.unwrap_or(1.0)).round() as u64
    }
}
