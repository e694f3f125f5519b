//! The abilities and limits of this engine. Must not know: options.

use storage::Caps;

/// Its abilities and limits.
pub(crate) fn caps() -> Caps {
    Caps {
        name: "rocksdb",
        persistent: true,
        // An _id may be a document of 16 MB, in which each zero byte takes two bytes of the key.
        key_bytes_max: 64 << 20,
        value_bytes_max: 64 << 20,
        // A batch is one journal record and one memtable insertion.
        batch_bytes_max: 256 << 20,
        delete_range: true,
        checkpoint: true,
        request_rows: 1,
        spreads: false,
    }
}
