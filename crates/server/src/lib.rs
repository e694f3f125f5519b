//! The server as a library: configuration, the engine factory, and everything between the socket
//! and the commands.
//!
//! Promises: hostile input never stops the process; a start that cannot succeed says why in one
//! line and damages nothing.
//! Must not know: what a command means; that is `commands`, reached through [`command_handler`].

mod background;
pub mod backup;
pub mod client;
mod clock;
pub mod command_handler;
pub mod command_line;
pub mod config;
pub mod convert;
pub mod descriptors;
pub mod engines;
pub mod failure;
#[cfg(feature = "follow")]
pub mod follow;
pub mod forward;
mod frames;
mod handover;
mod key_source;
mod links;
pub mod memory;
pub mod metrics_http;
mod metrics_page;
mod moving;
pub mod naming;
pub mod net;
pub mod otlp;
pub mod output;
pub mod process;
mod protect;
mod reads;
pub mod report;

pub mod serve;
mod service_parts;
mod space;
pub mod tls;
pub mod vault;
