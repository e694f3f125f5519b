//! Sockets, threads and the order of replies. docs/adr/0003-threading-model.md explains the design.
//!
//! Promises: a connection runs one request at a time and gets exactly one reply to each; an idle
//! connection keeps nothing but its socket. Must not know: BSON beyond framing, commands, storage.
//!
//! The path of one request: [`accept`](listen) puts the socket into a [`PollSet`](set), a
//! [`driver`] thread receives into its own buffer, [`conn`] splits frames and calls the [`Handler`]
//! on the same thread, and the replies of one receive are sent together. Requests that would delay
//! others move to a [`pool`] thread.

mod buffers;
mod config;
mod conn;
mod context;
mod driver;
mod driver_state;
mod exchange;
mod handler;
mod inbox;
mod listen;
mod patience;
mod pool;
mod receive;
mod refused;
mod server;
mod set;
mod shared;
mod spare;
mod state;
mod stats;
mod sync;
mod tls;
mod turned_away;
mod unfinished;
mod watermark;

pub use config::Config;
pub use handler::{
    Class, ConnHandle, FlushOutcome, Handler, HandshakeResult, NextAction, PeerAddr, PeerInfo,
};
pub use listen::{Listeners, accept_until};
pub use server::Server;
pub use stats::NetStats;
pub use tls::{Tls, TlsConfig, TlsMode};
pub use watermark::Watermark;
