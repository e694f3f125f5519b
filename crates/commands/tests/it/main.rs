//! Integration tests of the commands room, in process.

mod aggregation;
mod behaviour;
mod explain;
mod golden;
mod judge;
mod metamorphic;
mod out;
mod protocol;
mod retries;
mod writes;
