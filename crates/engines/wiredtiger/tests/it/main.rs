//! WiredTiger under the conformance suite, and what only it promises. Without the library every
//! test says so and ends.

mod contract;
mod directory;
mod tools;
