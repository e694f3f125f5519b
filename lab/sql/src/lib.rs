//! MySQL and MariaDB as targets of the lab, with any of their storage engines, by SELECT or by
//! HANDLER.
//!
//! Promises: prepared statements only, found rows counted (not changed ones), values bound and
//! never pasted. Must not know: workloads.

mod check;
mod connection;
mod records;
pub mod server;
mod session;
mod statements;
mod target;

pub use session::{SqlCall, SqlSession};
pub use target::{Options, SqlTarget};
