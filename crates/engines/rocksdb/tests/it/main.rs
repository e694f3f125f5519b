//! RocksDB under the conformance suite, and what only it promises.

mod borrow;
mod contract;
mod counters;
mod directory;
mod encryption;
mod files;
mod full_disk;
mod journal;
mod schedules;
