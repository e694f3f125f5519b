//! Commands of the protocol: registry, argument checks, sessions, cursors; turns every error into a
//! reply.
//!
//! Promises: a request in, one reply document at the end of the caller's buffer out; no client
//! input panics.
//! Must not know: wire framing, sockets, engines, event loops. Before it: `server`. After it:
//! `query`, `store`.

pub mod access;
mod cmd;
pub mod config;
pub mod context;
pub mod crud;
mod ddl;
pub mod dispatch;
pub mod feed;
mod hooks;
mod matcher;
pub mod metrics_export;
mod read;
pub mod reading;
pub mod registry;
mod release;
pub mod request;
mod rules;
pub mod state;
pub mod ttl;
mod uuid;
pub mod workers;

pub use config::Config;
pub use context::connection::Connection;
pub use dispatch::Dispatcher;
pub use hooks::StoreHooks;
pub use operation::{Clock, ConnectionId, Link, Operation, SystemClock};
pub use operators::Profile;
pub use operators::script::is_named_in as names_script;
pub use reading::ReadService;
pub use release::Release;
pub use request::{Outcome, Request, Sequence, WaitFor};
pub use state::service::Service;
