//! Workloads as data: a TOML file names its data, indexes and steps; a step names the operation
//! that its clients repeat.
//!
//! Promises: a setting that a workload cannot use is refused. Must not know: targets.

mod adapt;
mod beside;
mod catalog;
mod choices;
mod definition;
mod file;
mod overrides;
mod settings;
#[cfg(test)]
mod tests;

pub use crate::draw::KeyDistribution;
pub use beside::Agreement;
pub use choices::{Assign, ExpiryRule, Ids, Placement, Stop};
pub use definition::{
    Capability, Data, DocumentKind, Index, Invariant, Operation, Role, SATURATE_MAX, Step,
    StepCommand, Workload, WorkloadError,
};
pub use overrides::Overrides;
pub use settings::Settings;
