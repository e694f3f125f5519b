//! A directory (LDAP, RFC 4511) that is asked whether a user has this password, and for its groups.
//!
//! Promises: whatever a directory answers or leaves unanswered, a login ends within its time and
//! with bounded memory; no part of a name that a client has sent becomes syntax of a query; a
//! password is never kept, shown or sent to a directory that is not asked to check it.
//! Must not know: BSON, connections of clients, users and roles of this server.
//! docs/adr/0058-logging-in-elsewhere.md says why the protocol is spoken here.

mod ber;
mod client;
mod directory;
mod filter;
mod mapping;
mod query;
mod settings;
mod stream;
mod template;

pub use directory::{Directory, Failed, Known};
pub use settings::{Security, Settings};
