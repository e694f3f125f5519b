//! Integration tests of the commands room, in process.

mod behaviour;
mod golden;
mod judge;
mod protocol;
