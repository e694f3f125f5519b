//! The context of one run of a command: its connection, its arguments, what it has done so far;
//! and the code that commands share: rules for documents, definitions, reads, writes.
//!
//! Promises: a command finds here everything it may use. Must not know: which commands exist, how
//! the dispatcher runs them.

pub mod command;
pub mod connection;
pub mod crud;
pub mod ctx;
pub mod ddl;
pub mod env;
pub mod held;
pub mod operation_stats;
pub mod progress;
pub mod read;
pub mod reported;
pub mod retry;
pub mod rules;
pub mod spent;
