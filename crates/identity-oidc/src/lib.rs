//! Identity providers (OpenID Connect): whether a token was signed by one of them for this server,
//! and who it says its bearer is.
//!
//! Promises: a token is believed only when its signature, issuer, audience and times are right and
//! everything that is asked of it is there; no token makes it panic, and none is kept or shown.
//! Must not know: BSON, connections, users and roles, the clock, which is handed in.
//! docs/adr/0058-logging-in-elsewhere.md says why it is built this way.

mod keys;
mod provider;
mod token;
mod verifier;

pub use provider::{Provider, Providers};
pub use token::{Now, Refused, Verified};
