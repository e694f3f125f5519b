//! Commands of the protocol: registry, argument checks, sessions, cursors; turns every error into a reply.
//!
//! Promises: a request in, one reply document at the end of the caller's buffer out; no client input panics.
//! Must not know: wire framing, sockets, engines, event loops. Before it: `server`. After it: `query`, `store`.

pub mod api;
pub mod args;
pub mod clock;
mod cmd;
pub mod counters;
pub mod ctx;
pub mod cursors;
pub mod crud;
mod ddl;
mod exec;
pub mod failpoints;
pub mod figures;
pub mod generic;
mod host;
pub mod interrupt;
pub mod language;
pub mod listing;
pub mod log;
pub mod parameters;
mod read;
pub mod registry;
mod reply;
pub mod request;
pub mod retry;
pub mod service;
pub mod sessions;
pub mod state;
pub mod tails;
pub mod write;

pub use language::Language;
pub use clock::{Clock, SystemClock};
pub use interrupt::{Interrupt, Link};
pub use request::{Outcome, Request, Sequence, WaitFor};
pub use service::{Config, Connection, Service};
