//! Tests by search (ADR 0078): what a loss of power or the death of the process may leave of a data
//! directory, made from a recording of what was done to its files, by seed.
//!
//! Promises: the same recording, place and seed give the same image. Must not know: which engine
//! wrote the files, how calls are recorded (`tests/crash/recorder.rs`). Only tests use it.

pub mod fuzz;
pub mod image;
pub mod random;
pub mod trace;

pub use image::{Image, Loss};
pub use random::Random;
pub use trace::Event;
