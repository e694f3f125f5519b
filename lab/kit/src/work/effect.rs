//! The effect of a call's outcome on the tables.

use serde::{Deserialize, Serialize};

/// The effect of an outcome on the tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effect {
    /// Rows that the call inserted.
    pub inserted: u64,
    /// Rows that existed and were deleted.
    pub deleted: u64,
    /// Times that 1 was added to `k`.
    pub added: u64,
    /// Sum of `k` over inserted rows.
    pub sum_of_k: i64,
    /// Bytes of rows written, without the target's overhead.
    pub bytes: u64,
    /// Rows read.
    pub rows: u64,
    /// Inserts without a reply.
    pub inserts_unknown: u64,
    /// Deletes without a reply.
    pub deletes_unknown: u64,
    /// Additions without a reply.
    pub adds_unknown: u64,
}

impl Effect {
    /// Adds another effect to this one.
    pub fn add(&mut self, other: &Self) {
        self.inserted += other.inserted;
        self.deleted += other.deleted;
        self.added += other.added;
        self.sum_of_k += other.sum_of_k;
        self.bytes += other.bytes;
        self.rows += other.rows;
        self.inserts_unknown += other.inserts_unknown;
        self.deletes_unknown += other.deletes_unknown;
        self.adds_unknown += other.adds_unknown;
    }
}
