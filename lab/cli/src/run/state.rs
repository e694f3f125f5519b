//! The progress of a run.

use lab_kit::result::{Check, SkippedStep, StepResult};
use lab_kit::work::Effect;

use super::expected_state::ExpectedState;

/// The results so far.
#[derive(Default)]
pub(crate) struct RunState {
    pub(crate) steps: Vec<StepResult>,
    pub(crate) skipped: Vec<SkippedStep>,
    pub(crate) expected_state: ExpectedState,
}

/// The end of a step, complete or early.
pub(crate) struct StepEnd {
    /// Its result.
    pub(crate) result: StepResult,
    /// The effect of all its clients on the tables.
    pub(crate) effect: Effect,
    /// Why it ended early.
    pub(crate) stopped_because: Option<String>,
    /// The checks of watchers.
    pub(crate) checks: Vec<Check>,
}
