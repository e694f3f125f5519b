//! Integration tests of the commands room, in process.

mod behaviour;
mod explain;
mod judge;
mod metamorphic;
mod protocol;
