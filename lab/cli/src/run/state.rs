//! What a run has done so far.

use lab_kit::result::{Check, Skipped, StepResult};
use lab_kit::work::Effect;

use super::expected_state::ExpectedState;

/// What is done so far.
#[derive(Default)]
pub(crate) struct RunState {
    pub(crate) steps: Vec<StepResult>,
    pub(crate) skipped: Vec<Skipped>,
    pub(crate) expected_state: ExpectedState,
}

/// A step that ended, well or early.
pub(crate) struct StepEnd {
    /// What it showed.
    pub(crate) result: StepResult,
    /// What all its clients together did to the tables.
    pub(crate) effect: Effect,
    /// Why it ended early.
    pub(crate) stopped_because: Option<String>,
    /// What watchers found right or wrong.
    pub(crate) checks: Vec<Check>,
}
