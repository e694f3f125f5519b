//! Tests of the operators as a whole: recorded behaviour of MongoDB, run in process.

#![allow(missing_docs)]

mod bounded;
mod documents;
mod hostile;
mod hostile_specs;
mod pipeline;
mod recorded;
mod shop;
