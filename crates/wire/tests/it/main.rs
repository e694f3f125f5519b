//! Integration tests of the codec: promises to clients, and hostile clients.
mod hostile;
mod legacy;
mod malformed;
mod roundtrip;
mod support;
