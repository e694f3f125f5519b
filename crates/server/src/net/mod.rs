//! Sockets, threads and the order of replies. docs/adr/0003-threading-model.md says why it is built
//! this way.
//!
//! Promises: one request of a connection at a time, exactly one reply each, nothing kept for an
//! idle connection but its socket. Must not know: BSON beyond framing, commands, storage.
//!
//! The way of one request: [`accept`](listen) puts the socket into a [`PollSet`](set), a [`driver`]
//! thread receives into its own buffer, [`conn`] cuts frames and calls the [`Handler`] on that very
//! thread, and the replies of one receive leave in one send. Requests that would hold others up
//! move to a [`pool`] thread.

mod buffers;
mod conn;
mod driver;
mod exchange;
mod handler;
mod inbox;
mod listen;
mod pool;
mod refused;
mod server;
mod set;
mod spare;
mod stats;
mod sync;
mod watermark;

pub use handler::{Class, ConnHandle, Handler, Next, PeerAddr, PeerInfo, Turn};
pub use server::{Config, Server};
pub use stats::NetStats;
pub use watermark::Watermark;
