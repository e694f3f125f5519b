//! Integration tests of the codec: what is promised to clients, and what hostile clients get.
mod hostile;
mod legacy;
mod malformed;
mod roundtrip;
mod support;
