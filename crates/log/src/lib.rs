//! The server's log: entries in mongod's JSON form, the last of them in memory for `getLog`, and a
//! thread that writes them.
//!
//! Promises: writing an entry never waits for a device; what had to be left out is counted and
//! said; a line is one JSON object whatever the entry holds.
//! Must not know: what happens in the server; who asks for an entry says everything.

mod entry;
mod json;
mod lines;
mod log;
mod sink;

pub use entry::{Entry, Severity, component, id};
pub use json::append_document;
pub use lines::LINES_MAX;
pub use log::{Log, REDACTED, redacted};
pub use sink::{Form, Release, Rotate, Sink, Target};
