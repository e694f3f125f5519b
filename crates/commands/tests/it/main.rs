//! Integration tests of the commands room, in process.

mod behaviour;
mod interrupts;
mod judge;
mod protocol;
mod tails;
