//! The locks and atomics of the commit protocol. `tests/it/schedules.rs` compiles the protocol
//! again with a module of the same name whose locks belong to a scheduler, and runs it through many
//! interleavings.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) use parking_lot::{Condvar, Mutex};
