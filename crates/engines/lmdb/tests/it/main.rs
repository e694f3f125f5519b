//! LMDB under the conformance suite, and what only it promises.

mod contract;
mod directory;
mod groups;
