//! SCRAM (RFC 5802, RFC 7677) as a server speaks it.
//!
//! Promises: a user that does not exist goes the same way, message by message, as a wrong password;
//! proofs are compared in constant time; a nonce is used once. Must not know: where credentials are
//! kept.

mod client;
mod conversation;
mod credentials;

pub use client::Client;
pub use conversation::{ClientFirst, Conversation, Failure};
pub use credentials::{Credentials, Mechanism, Secret};

/// Bytes from base64.
pub fn from_base64(text: &str) -> Option<Vec<u8>> {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.decode(text).ok()
}
