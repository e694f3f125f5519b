//! Integration tests of the commands room, in process.

mod aggregation;
mod behaviour;
mod golden;
mod judge;
mod out;
mod protocol;
