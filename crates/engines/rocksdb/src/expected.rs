//! Tables whose size is limited by freeing whole files (`drop_range`). Data in memory and in files
//! of the first level cannot be freed that way, so both must be small compared with that size.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use storage::Table;

use crate::config::Config;
use crate::ffi::{Db, family_name};

/// A memtable takes at most one part in this many of the table's size.
const PART: u64 = 8;
const MEMTABLE_BYTES_MIN: u64 = 1 << 20;

/// The current settings of the tables.
#[derive(Default)]
pub(crate) struct ExpectedShapes(Mutex<BTreeMap<Table, Shape>>);

/// Sizes of a table's memtables and files.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Shape {
    memtable_bytes: u64,
    file_bytes: u64,
    /// Number of first-level files that trigger a compaction.
    first_level_files: i32,
}

impl Shape {
    /// The sizes for a table without a limit.
    fn unlimited(config: &Config, table: Table) -> Shape {
        Shape {
            memtable_bytes: config.memtable_bytes(table) as u64,
            file_bytes: config.file_bytes(table),
            first_level_files: Config::L0_TRIGGER,
        }
    }

    /// The sizes for a table that is kept at this many bytes.
    fn of(config: &Config, table: Table, bytes: u64) -> Shape {
        let usual = Shape::unlimited(config, table);
        let part = (bytes / PART).max(MEMTABLE_BYTES_MIN);
        if part >= usual.memtable_bytes {
            return usual;
        }
        Shape {
            memtable_bytes: part,
            file_bytes: part.min(usual.file_bytes),
            first_level_files: 1,
        }
    }
}

impl ExpectedShapes {
    /// Sets the sizes for a table of this many bytes. A failure only costs space.
    pub(crate) fn set(&self, db: &Db, config: &Config, table: Table, bytes: u64) {
        let shape = Shape::of(config, table, bytes);
        let mut known = self.0.lock();
        let now = known.get(&table).copied();
        if shape == now.unwrap_or_else(|| Shape::unlimited(config, table)) {
            return;
        }
        let Some(family) = db.admin().cf_handle(family_name(table)) else {
            return;
        };
        let (memtable, file, files) = (
            shape.memtable_bytes.to_string(),
            shape.file_bytes.to_string(),
            shape.first_level_files.to_string(),
        );
        let options = [
            ("write_buffer_size", memtable.as_str()),
            ("target_file_size_base", file.as_str()),
            ("level0_file_num_compaction_trigger", files.as_str()),
        ];
        if db.admin().set_options_cf(family, &options).is_ok() {
            known.insert(table, shape);
        }
    }
}
