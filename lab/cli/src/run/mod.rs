//! The command `run`: a workload against a target, step by step, checked and reported.

mod action;
mod afterwards;
mod arguments;
mod checkpoint;
mod context;
mod distributed;
mod ending;
mod exclusive;
mod execute;
mod expected_state;
mod gather;
mod generator;
mod guarded;
mod interventions;
mod merge;
mod overload;
mod own_cost;
mod program;
mod restart;
mod role_plan;
mod shared;
mod state;
mod step;
mod summary;
mod watchers;

pub(crate) use arguments::{DEFAULT_DB, EXAMPLES, RunArguments};
pub(crate) use checkpoint::{FILE as CHECKPOINT_FILE, LOADED, ResumedRun};
pub(crate) use execute::RunPlan;
pub(crate) use generator::arguments_of;
pub(crate) use summary::{command_line, summary_line};
