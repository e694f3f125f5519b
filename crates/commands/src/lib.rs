//! Commands of the protocol: one file for each command or family of commands, their table, and the
//! background workers.
//!
//! Promises: a request in, one reply document at the end of the caller's buffer out; no client
//! input panics.
//! Must not know: wire framing, sockets, engines, event loops. Before it: `server`. After it:
//! `dispatch`, `context`, `state`, `request`, `access`.

mod cmd;
pub mod feed;
mod hooks;
pub mod metrics_export;
pub mod registry;
pub mod ttl;
pub mod workers;

pub use context::connection::Connection;
pub use dispatch::Dispatcher;
pub use dispatch::reading::ReadService;
pub use hooks::StoreHooks;
pub use operation::{Clock, ConnectionId, Link, Operation, SystemClock};
pub use operators::Profile;
pub use operators::script::is_named_in as names_script;
pub use request::{Outcome, Request, Sequence, WaitFor};
pub use state::Config;
pub use state::Release;
pub use state::service::Service;
