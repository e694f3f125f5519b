//! One client: draws its next call, and records the outcome.
//!
//! Promises: the same stream draws the same calls; every acknowledged operation is accounted for,
//! so that the end state can be checked.
//! Must not know: how a call is made, or how fast.

mod account;
mod client;
mod effect;
mod inserts;
mod statements;
mod tables;
#[cfg(test)]
mod tests;
mod updates;
mod versions;

pub use client::{ClientAction, ClientWork, Quota, number_of};
pub use effect::Effect;
pub use tables::{Dataset, TableCheckpoint, TableState};
pub use versions::{ExpectedRow, Versions};
