//! MySQL and MariaDB as targets of the lab, with any of their storage engines, by SELECT or by
//! HANDLER.
//!
//! Promises: all statements are prepared; updates count the rows found, not the rows changed;
//! values are bound and never inserted into the text. Must not know: workloads.

mod check;
mod connection;
mod records;
pub mod server;
mod session;
mod statements;
mod target;

pub use session::{SqlCall, SqlSession};
pub use target::{Options, SqlTarget};
