//! The storage contract on LMDB, a copy-on-write B-tree in one memory-mapped file.
//!
//! Promises: the contract of `docs/storage-contract.md`; every visible commit is durable, and
//! commits that wait at the same time share one transaction and its flushes. LMDB has no journal,
//! and uses the system's page cache. Must not know: documents, BSON, other engines. The design is
//! explained in `docs/adr/0031-lmdb.md`.

mod commits;
mod engine;
mod error;
mod rows;
mod tables;
mod view;

pub use engine::{Config, DISK_FORMAT, LmdbEngine};
