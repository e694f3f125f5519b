//! The server as a library: everything between the socket and the commands.
//!
//! Promises: hostile input never stops the process. Must not know: what a command means; that is a [`net::Handler`].

pub mod net;
