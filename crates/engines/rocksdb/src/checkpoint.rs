//! A copy of an open database: links to its tables, and the journal of rows that are in no table
//! yet.
//!
//! Promises: every commit acknowledged before the copy is in it. Memtables are flushed only when
//! they hold much: flushing for every copy would make small tables, which are soon merged with
//! everything below them, so that after few changes much of the next copy would be new.

use std::path::Path;

use rust_rocksdb::checkpoint::Checkpoint;
use storage::{Result, Table};

use crate::config::Config;
use crate::error;
use crate::ffi::Db;

/// Memtables with at most this much content are copied as a journal, which must be read again for
/// the next copy and when this one is opened.
const CONTENT_BYTES_MAX: u64 = 8 << 20;
/// Largest size of a memtable's first block of memory.
const BLOCK_BYTES_MAX: usize = 1 << 20;

pub(crate) fn make(db: &Db, config: &Config, path: &Path) -> Result<()> {
    let said = |error: rust_rocksdb::Error| error::sort("a checkpoint", error.into_string());
    let bytes = |table| db.property(table, c"rocksdb.cur-size-all-mem-tables");
    let held: u64 = Table::ALL.into_iter().filter_map(bytes).sum();
    let empty: u64 = Table::ALL.into_iter().map(|t| empty_bytes(config, t)).sum();
    let journal_bytes_max = match held > empty + CONTENT_BYTES_MAX {
        true => 0,
        false => u64::MAX,
    };
    Checkpoint::new(db.admin())
        .map_err(said)?
        .create_checkpoint_with_log_size(path, journal_bytes_max)
        .map_err(said)
}

/// Memory of a nearly empty memtable: its first block, and its filter if it has one.
fn empty_bytes(config: &Config, table: Table) -> u64 {
    let whole = config.memtable_bytes(table);
    let filter = match table {
        Table::Doc | Table::Idx => whole / 20,
        _ => 0,
    };
    ((whole / 8).min(BLOCK_BYTES_MAX) + filter) as u64
}
