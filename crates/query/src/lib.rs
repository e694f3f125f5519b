//! Queries over documents: aggregation pipelines parsed once and run as a chain of pull operators
//! over document batches.
//! Must not know: commands, sessions, sockets. What a pipeline needs from outside comes through
//! [`pipeline::Host`].

pub mod collation;
pub mod explain;
pub mod find;
pub mod near;
pub mod pipeline;
pub mod plan;
mod rows;
mod spill;
mod spool;
pub mod stages;
