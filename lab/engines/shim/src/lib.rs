//! Engines whose C interface is a structure of functions that differs between versions. When the
//! engine is opened, an adapter in C is compiled against the header of the user's own library. The
//! lab calls the adapter through functions that never change (`adapter.h`).
//!
//! Promises: one clear line if compiler, header or library is absent; a session per thread; a batch
//! is a transaction, repeated when the engine asks for it; unsynced commits reach storage once a
//! second if there is a log. Must not know: which engine it is, rows, workloads.

mod compile;
mod engine;
mod functions;
mod session;
mod shared;
mod spec;

pub use compile::load;
pub use engine::open;
pub use spec::{AdapterSpec, EngineSpec, Statistics, count};
