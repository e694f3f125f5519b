//! What this engine can do, and how large keys, values and batches may be. Must not know: options.

use storage::Caps;

/// Its abilities and limits.
pub(crate) fn caps() -> Caps {
    Caps {
        name: "rocksdb",
        persistent: true,
        // A document of 16 MB may be one _id, and zeros in it take two bytes.
        key_bytes_max: 64 << 20,
        value_bytes_max: 64 << 20,
        // A batch becomes one journal record and one memtable insertion.
        batch_bytes_max: 256 << 20,
        delete_range: true,
        checkpoint: true,
        request_rows: 1,
    }
}
