//! An LDAP directory (RFC 4511) that checks passwords of users and lists their groups.
//!
//! Promises: whatever a directory answers or leaves unanswered, a login ends within its time limit
//! and with bounded memory; no part of a name that a client has sent becomes syntax of a query; a
//! password is never stored, shown or sent to a directory that does not check it. Must not know:
//! BSON, connections of clients, users and roles of this server.
//! docs/adr/0058-logging-in-elsewhere.md explains why the protocol is implemented here.

mod ber;
mod client;
mod directory;
mod filter;
mod mapping;
mod query;
mod settings;
mod stream;
mod template;

pub use directory::{Directory, DirectoryUser, LoginError};
pub use settings::{Security, Settings};
