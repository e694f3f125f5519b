//! The server's side of SCRAM (RFC 5802, RFC 7677).
//!
//! Promises: a login of a user that does not exist looks, message by message, like one with a wrong
//! password; proofs are compared in constant time; a nonce is used once. Must not know: where
//! credentials are stored.

mod client;
mod conversation;
mod credentials;

pub use client::Client;
pub use conversation::{ClientFirst, Conversation, Failure};
pub use credentials::{Credentials, Mechanism, Secret};

/// Decodes base64.
pub fn from_base64(text: &str) -> Option<Vec<u8>> {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.decode(text).ok()
}
