//! Tests of the operators as a whole: recorded behaviour of MongoDB, run in process.

#![allow(missing_docs)]

mod documents;
mod pipeline;
mod recorded;
mod shop;
