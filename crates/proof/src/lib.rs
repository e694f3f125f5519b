//! Crash images (ADR 0078): states of a data directory that a loss of power or the end of the
//! process may leave, made by seed from a recording of the calls on its files.
//!
//! Promises: the same recording, position and seed give the same image. Must not know: which engine
//! wrote the files, how calls are recorded (`tests/crash/recorder.rs`). Only tests use it.

pub mod fuzz;
pub mod image;
pub mod parallel;
pub mod random;
pub mod trace;

pub use image::{Image, Loss};
pub use parallel::run_cases;
pub use random::Random;
pub use trace::Event;
