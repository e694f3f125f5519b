//! WiredTiger under the conformance suite, and tests of its own promises. Without the library every
//! test reports that and ends.

mod contract;
mod directory;
mod tools;
