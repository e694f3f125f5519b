//! The load of the tables: the inputs of admission control.

use storage::Table;

use crate::ffi::{Db, family_name};

/// The load of one table.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Load {
    pub(crate) l0_files: u64,
    pub(crate) immutable_memtables: u64,
    pub(crate) pending_bytes: u64,
}

/// Reads the load of a table.
pub(crate) fn of(db: &Db, table: Table) -> Load {
    let admin = db.admin();
    let l0_files = admin
        .cf_handle(family_name(table))
        .and_then(|family| {
            admin
                .property_value_cf(family, c"rocksdb.num-files-at-level0")
                .ok()
                .flatten()
        })
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0);
    Load {
        l0_files,
        immutable_memtables: db
            .property(table, c"rocksdb.num-immutable-mem-table")
            .unwrap_or(0),
        pending_bytes: db
            .property(table, c"rocksdb.estimate-pending-compaction-bytes")
            .unwrap_or(0),
    }
}
