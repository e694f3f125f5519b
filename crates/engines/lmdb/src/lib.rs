//! The storage contract on LMDB, a copy-on-write B-tree in one memory-mapped file.
//!
//! Promises: the contract of `docs/storage-contract.md`; every commit is durable when it is
//! visible, and commits that wait at the same time share one transaction and its flushes. LMDB has
//! no journal, and the system's page cache is its cache. Must not know: documents, BSON, other
//! engines. Why it is as it is: `docs/adr/0031-lmdb.md`.

mod commits;
mod engine;
mod error;
mod rows;
mod tables;
mod view;

pub use engine::{Config, DISK_FORMAT, LmdbEngine};
