//! Integration tests of the commands room, in process.

mod behaviour;
mod judge;
mod protocol;
mod retries;
mod writes;
