//! Integration tests of the commands room, in process.

mod behaviour;
mod find_options;
mod interrupts;
mod judge;
mod protocol;
mod tails;
