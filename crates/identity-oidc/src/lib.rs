//! Identity providers (OpenID Connect): whether one of them has signed a token for this server, and
//! whom the token names.
//!
//! Promises: a token is accepted only if its signature, issuer, audience and times are right and
//! all required claims are present; no token causes a panic, and none is stored or shown. Must not
//! know: BSON, connections, users and roles, the clock, which is passed in.
//! docs/adr/0058-logging-in-elsewhere.md explains the design.

mod keys;
mod provider;
mod token;
mod verifier;

pub use provider::{Provider, Providers};
pub use token::{CurrentTime, TokenBearer, TokenError};
