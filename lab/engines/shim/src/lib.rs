//! Engines whose C interface is a structure of functions that differs by version: an adapter in C
//! is compiled against the header of the user's own library when the engine is opened, and talks to
//! the lab in functions that never change (`adapter.h`).
//!
//! Promises: one clear line when compiler, header or library is absent; a session per thread; a
//! batch is a transaction, tried again when the engine says so; unsynced commits reach storage once
//! a second where a log is kept. Must not know: which engine it is, rows, workloads.

mod compile;
mod engine;
mod functions;
mod session;
mod shared;
mod spec;

pub use compile::load;
pub use engine::open;
pub use spec::{AdapterSpec, EngineSpec, Statistics, count};
