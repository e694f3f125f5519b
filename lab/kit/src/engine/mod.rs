//! The interface to an ordered key-value engine in this process, and code that all such engines
//! share.
//!
//! An engine stores bytes in key order; [`crate::kv`] builds rows, tables and secondary indexes on
//! it. This interface deliberately differs from that of the server's storage engine:
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
pub use interface::{EngineSession, KeyChange, LabEngine, RowVisitor};
pub use options::{Durability, EngineError, EngineOptions, parse_bytes};
