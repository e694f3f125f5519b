//! What the planner expected of a plan, kept for explain. Must not know: how that was found out.

/// What a plan was expected to read, to give and to cost. The unit of costs is one document read in
/// the order of the collection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Entries of an index that are read; documents, where no index is.
    pub read: f64,
    /// Where that number comes from.
    pub read_source: EstimateSource,
    /// Rows of segments that are read; `None` where columns are not.
    pub rows: Option<f64>,
    /// The cost of the entries that are read; `None` where documents are read without any.
    pub entries_cost: Option<f64>,
    /// The cost of entries and documents that are read.
    pub read_cost: f64,
    /// That and the cost of sorting, where it was asked for.
    pub cost: Option<f64>,
    /// Documents that match, no more than are wanted, where that was asked for.
    pub found: Option<f64>,
    /// Where the number of documents comes from.
    pub source: EstimateSource,
}

/// Where a number of documents comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EstimateSource {
    /// Counted: entries of an index, or all documents of the collection.
    Counted,
    /// A sample of documents, or the engine's sizes of ranges.
    Sampled,
}

impl EstimateSource {
    /// MongoDB's word for it.
    pub fn name(self) -> &'static str {
        match self {
            EstimateSource::Counted => "Metadata",
            EstimateSource::Sampled => "Sampling",
        }
    }
}
