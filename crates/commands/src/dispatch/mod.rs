//! From a request to a reply: argument tables, generic arguments, interrupts, retries, the ends of replies.
//!
//! Promises: every command is checked and answered in the same way. Must not know: what a command does, where data is.

pub mod api;
pub mod args;
pub mod command;
pub mod ctx;
pub mod generic;
pub mod interrupt;
pub(crate) mod reply;
pub mod request;
pub mod retry;
