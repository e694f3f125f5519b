//! The server's log: entries in mongod's JSON form, the last of them in memory for `getLog`, and a
//! thread that writes them. Besides it the way of the audit's events, which is the other way round:
//! who causes one waits until it is written.
//!
//! Promises: writing an entry never waits for a device; what had to be left out is counted and
//! said; a line is one JSON object whatever the entry holds; no event of the audit is left out.
//! Must not know: what happens in the server; who asks for an entry says everything.

mod audit;
mod entry;
mod files;
mod json;
mod lines;
mod log;
mod pace;
mod shorten;
mod sink;

pub use audit::{Audit, AuditTarget};
pub use entry::{Entry, Severity, component, id};
pub use files::Rotate;
pub use json::append_document;
pub use lines::LINES_MAX;
pub use log::{Log, REDACTED, redacted};
pub use pace::Pace;
pub use sink::{Form, Release, Sink, Target};
