//! SCRAM (RFC 5802, RFC 7677) as a server speaks it.
//!
//! Promises: a user that does not exist goes the same way, message by message, as a wrong password;
//! proofs are compared in constant time; a nonce is used once. Must not know: where credentials are
//! kept.

mod conversation;
mod credentials;

pub use conversation::{ClientFirst, Conversation, Failure};
pub use credentials::{Credentials, Mechanism, Secret};
