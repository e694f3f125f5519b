//! The memory engine under the conformance suite.

mod memory;
mod wrappers;
