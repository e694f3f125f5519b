//! The counters of a read.

use store::BucketScanStats;

/// The counters of one read of an access path so far.
#[derive(Clone, Debug, Default)]
pub struct ReadCounts {
    /// Index entries examined.
    pub keys: u64,
    /// Documents examined.
    pub docs: u64,
    /// Documents given: those that match.
    pub matched: u64,
    /// Everything has been read.
    pub ended: bool,
    /// Times that the read released its position in the store and went on later.
    pub saves: u64,
    /// The counters of each branch of a union.
    pub branches: Vec<ReadCounts>,
    /// The counters of a time-series collection's buckets.
    pub buckets: Option<BucketScanStats>,
}
