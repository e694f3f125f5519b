//! Quarry's storage contract on RocksDB: six column families, plain write batches, explicit
//! snapshots, own journal flusher and own admission control. This crate knows bytes only; neither
//! documents nor any other engine.
//!
//! Implements the trait of `storage`; `server` opens it by [`RocksEngine::open`].
//!
//! # Traps
//! Each is listed with the setting or test that prevents it.
//! - **Write stalls.** RocksDB stops all writers at too many level-0 files, immutable memtables or
//!   pending bytes. The triggers are set far above normal work (`config.rs`), `admission.rs` slows
//!   writers down gradually long before, outside of locks. `stall_stops` and `stall_delays` in the
//!   statistics count the stalls that happen anyway; more than zero is a bug.
//! - **Memory outside of the cache.** Memtables are charged to the block cache; index and filter
//!   blocks are in it (partitioned); the number of open files is limited, because each has a table
//!   reader outside of the cache.
//! - **File descriptors.** `open_files_max` bounds table files (`limits.rs`); a collection never
//!   gets a file of its own.
//! - **Large documents** are in blob files: RocksDB has no sizes of ranges for these (`sizes.rs`),
//!   and a compaction filter reads them.
//! - **Tombstones.** A cursor without bounds walks over deleted neighbours; every range has both
//!   bounds. Range tombstones in the memtable slow every read: `memtable_max_range_deletions`
//!   flushes them.
//! - **DeleteFilesInRange** ignores snapshots and may uncover old versions: only for ranges
//!   without readers. Its upper limit is inclusive, ours is not (`below`, tested in `engine.rs`).
//! - **The compaction filter** ignores snapshots, too, so idents enter the dropped set only after
//!   their last reader has ended.
//! - **Merge operands** accumulate on hot rows: `max_successive_merges` on `meta`. The operator
//!   never fails: a failure would make reads and compactions of the row fail for good.
//! - **A panic in a callback** aborts the process, because it cannot unwind through C++. Nothing
//!   catches it: callbacks must not panic.
//! - **Column family ids** are part of the batch bytes; `open` refuses a directory where they
//!   differ from `Table`.
//! - **Recovery stops at the first journal record it cannot read** without an
//!   error. `wal.rs` reads the journal first, and `mark.rs` knows how far it was flushed: a commit
//!   missing below that is damage, not an unflushed tail.
//! - **A failed fdatasync** may have dropped written data although the next one succeeds: the
//!   failure is final (`commits.rs`).
//! - **ENOSPC** turns RocksDB read-only. The guard refuses growing writes earlier (`space.rs`), the
//!   monitor resumes RocksDB afterwards.

mod admission;
mod borrow;
mod caps;
mod checkpoint;
mod commits;
mod compact;
mod config;
mod cursor;
mod engine;
mod error;
mod expected;
mod ffi;
mod files;
mod filter;
mod frame;
mod journal;
mod limits;
mod listener;
mod load;
mod manifest;
mod mark;
mod monitor;
mod open;
mod salvage;
mod sizes;
mod snapshot;
mod space;
mod stats;
mod sync;
mod wal;

pub use borrow::{DirectoryCopy, SalvagedEngine};
pub use config::{CacheKind, Config};
pub use engine::RocksEngine;
pub use files::is_final;
pub use limits::{open_files_max, raise_open_files_limit};
pub use open::DISK_FORMAT;
