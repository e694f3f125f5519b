//! The storage contract on WiredTiger, a B-tree with a log, checkpoints and a cache of its own.
//! Nothing of it is linked or shipped (its licence is the GPL): an adapter is compiled against the
//! user's own header and library when the engine is opened.
//!
//! Promises: the contract of `docs/storage-contract.md`; a batch is one transaction of WiredTiger
//! and one record of its log. One thread commits at a time, any number read. Must not know:
//! documents, BSON, other engines. The design is explained in `docs/adr/0047-wiredtiger.md`.
//!
//! # Traps
//! - **A session is one thread's** at a time: it is taken from a pool and given back.
//! - **A transaction that is held** keeps old versions in the cache; when that is full WiredTiger
//!   ends the transaction. Reads then fail as busy.
//! - **A failed write of the log** ends the engine (`WT_PANIC`): it is final, as a failed flush is.
//! - **Six tables**, never one per collection: a checkpoint walks every open table.

mod commits;
mod copy;
mod engine;
mod error;
mod functions;
mod journal;
mod pool;
mod session;
mod space;
mod view;

pub use engine::{Config, DISK_FORMAT, WiredTigerEngine};
pub use functions::{ADVICE, LIBRARY_NAME, Library};
