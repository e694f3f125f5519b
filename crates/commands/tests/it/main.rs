//! Integration tests of the commands room, in process.

mod aggregation;
mod behaviour;
mod durability;
mod expected;
mod builds;
mod explain;
mod find_options;
mod golden;
mod interrupts;
mod judge;
mod metamorphic;
mod out;
mod protocol;
mod retries;
mod snapshots;
mod tails;
mod text;
mod ttl;
mod writes;
