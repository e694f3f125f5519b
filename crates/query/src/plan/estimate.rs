//! The planner's estimate of a plan, kept for explain. Must not know: how it was computed.

/// What a plan was expected to read, to give and to cost. The unit of costs is reading one document
/// in collection order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Index entries read; documents if no index is read.
    pub read: f64,
    /// Where that number comes from.
    pub read_source: EstimateSource,
    /// Rows of segments read; `None` without columns.
    pub rows: Option<f64>,
    /// The cost of reading entries; `None` if documents are read without an index.
    pub entries_cost: Option<f64>,
    /// The cost of entries and documents that are read.
    pub read_cost: f64,
    /// The cost of reading and of sorting, if it was estimated.
    pub cost: Option<f64>,
    /// Matching documents, at most the number wanted, if it was estimated.
    pub found: Option<f64>,
    /// Where the number of matching documents comes from.
    pub source: EstimateSource,
}

/// Where a number of documents comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EstimateSource {
    /// Counted: entries of an index, or all documents of the collection.
    Counted,
    /// Estimated from a sample of documents, or from the engine's sizes of ranges.
    Sampled,
}

impl EstimateSource {
    /// MongoDB's name for it.
    pub fn name(self) -> &'static str {
        match self {
            EstimateSource::Counted => "Metadata",
            EstimateSource::Sampled => "Sampling",
        }
    }
}
