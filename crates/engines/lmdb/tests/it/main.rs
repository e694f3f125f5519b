//! LMDB under the conformance suite, and tests of its own promises.

mod contract;
mod directory;
mod groups;
