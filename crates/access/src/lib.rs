//! Authentication and authorization: users and roles in their collections, logging in, privileges
//! of commands.
//!
//! Promises: only this module decides about rights; the resolved rights of a user are never older
//! than the last change of users and roles. Must not know: how commands work, the wire.
//! docs/adr/0023-access.md gives the reasons for this design.

mod catalog;
mod entry;
mod identity;
mod likeness;
mod login;
mod plain;
mod rights;
mod service;
mod token;
pub mod user;
pub mod uuid;

pub use catalog::{ROLES, USERS, VERSION};
pub use entry::{Login, Moment};
pub use identity::Identity;
pub use identity::{Attempt, authentication_error};
pub use login::{
    LoginMethod, from_base64, mechanisms_of, no_mechanism, rounds, sasl_continue, sasl_start, x509,
};
pub use plain::plain_start;
pub use rights::{Rights, hide_secrets, unauthorized_error};
pub use service::{Access, LoginConfig};
pub use token::{expects_token, token_continue, token_start};
pub use user::User;
