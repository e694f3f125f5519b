//! Pipelines from outside: over a host in memory, and over recorded behaviour if it is present.

mod cases;
mod costs;
mod matcher;
mod memory_host;
mod optimizer;
#[path = "../../../../tests/recorded/outcome.rs"]
mod outcome;
mod plans;
#[path = "../../../../tests/recorded/mod.rs"]
mod recorded;
mod stages;
