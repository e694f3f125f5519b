//! The interface to an ordered key-value engine in this process, and what all such engines share.
//!
//! An engine stores bytes in key order. Rows, tables and secondary indexes over it are built by
//! [`crate::kv`]. This is another interface than the server's storage engine, on purpose:
//! docs/adr/0019-engine-interface-of-the-lab.md.
//! Must not know: rows, workloads, any engine.

mod background_flush;
pub mod contract;
mod counters;
mod idle_wait;
mod interface;
mod options;

pub use background_flush::BackgroundFlush;
pub use counters::Counters;
pub use idle_wait::wait_until_idle;
pub use interface::{EngineSession, KeyChange, LabEngine, Visit};
pub use options::{Durability, EngineError, EngineOptions, parse_bytes};
