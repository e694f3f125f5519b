//! What a read has counted.

use store::BucketsRead;

/// Counters of one read of an access path, up to now.
#[derive(Clone, Debug, Default)]
pub struct ReadCounts {
    /// Index entries looked at.
    pub keys: u64,
    /// Documents looked at.
    pub docs: u64,
    /// Documents given: those that match.
    pub matched: u64,
    /// Nothing is left to be read.
    pub ended: bool,
    /// Times that the read let go of its position in the store and went on later.
    pub saves: u64,
    /// The same of each branch of a union.
    pub branches: Vec<ReadCounts>,
    /// Of a time-series collection.
    pub buckets: Option<BucketsRead>,
}
