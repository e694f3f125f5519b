//! The server's log: entries in mongod's JSON form, the latest ones in memory for `getLog`, and a
//! thread that writes them. It also writes the audit, which works the other way round: the
//! operation that causes an event waits until the event is written.
//!
//! Promises: writing an entry never waits for a device; dropped lines are counted and reported; a
//! line is one JSON object whatever the entry contains; no audit event is dropped. Must not know:
//! what happens in the server; the caller provides the whole entry.

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
pub use log::{Log, REDACTED, redact_document};
pub use pace::Pace;
pub use sink::{LineFormat, Release, Sink, Target};
