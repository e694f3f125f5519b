//! Tests of the operators as a whole: recorded behaviour of MongoDB, run in process.

#![allow(missing_docs)]

mod bounded;
mod documents;
mod expressions;
mod hostile;
mod hostile_specs;
mod memory_collections;
#[path = "../../../../tests/recorded/outcome.rs"]
mod outcome;
mod pipeline;
#[path = "../../../../tests/recorded/mod.rs"]
mod recorded;
