//! RocksDB under the conformance suite, and tests of its own promises.

mod borrow;
mod contract;
mod copies;
mod counters;
mod damage;
mod directory;
mod encryption;
mod faults;
mod files;
mod full_disk;
mod journal;
mod journal_ends;
mod kept_small;
mod overwritten;
mod salvaged;
mod schedules;
mod short_scans;
