//! The locks and atomics of the watermark. `tests/it/schedules.rs` compiles the watermark a second
//! time over a module of the same name whose locks belong to a scheduler, and runs it through many
//! interleavings.

pub(super) use std::sync::atomic::{AtomicU64, Ordering};

pub(super) use parking_lot::Mutex;
