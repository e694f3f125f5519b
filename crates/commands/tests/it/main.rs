//! Integration tests of the commands room, in process.

mod behaviour;
mod hooks;
mod judge;
mod protocol;
