//! The context of one run of a command: its connection, its arguments, what it has done so far.
//!
//! Promises: a command finds here everything it may use. Must not know: which commands exist, how
//! the dispatcher runs them.

pub mod command;
pub mod connection;
pub mod ctx;
pub(crate) mod env;
pub(crate) mod held;
pub(crate) mod operation_stats;
pub(crate) mod progress;
pub mod reported;
pub mod retry;
pub(crate) mod spent;
