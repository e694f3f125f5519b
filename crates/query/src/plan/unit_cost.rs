//! What single pieces of work cost. Must not know: plans.

/// The cost of reading one document in the order of the collection; the unit of all costs.
pub(super) const SCANNED: f64 = 1.0;
/// Reading one entry of an index.
pub(super) const ENTRY: f64 = 0.5;
/// Reading the document behind an entry.
pub(super) const FETCHED: f64 = 2.0;
/// Sorting one document that was found.
pub(super) const SORTED: f64 = 0.5;
