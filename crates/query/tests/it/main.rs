//! Pipelines from outside: over a host in memory, and over recorded behaviour when it is there.

mod judge;
mod matcher;
mod memory_host;
mod plans;
mod recorded;
mod stages;
