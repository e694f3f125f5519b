//! Workloads as data: a TOML file names its data, indexes and steps; a step names the operation
//! that its clients repeat.
//!
//! Promises: a setting that a workload has no use for is refused. Must not know: targets.

mod adapt;
mod catalog;
mod choices;
mod definition;
mod file;
mod overrides;
mod settings;
#[cfg(test)]
mod tests;

pub use choices::{Assign, Draw, ExpiryRule, Ids, Placement};
pub use definition::{
    Capability, Data, DocumentKind, During, Index, Invariant, Operation, Role, SATURATE_MAX, Step,
    Stop, Workload, WorkloadError,
};
pub use overrides::Overrides;
pub use settings::Settings;
