//! The costs of single operations. Must not know: plans.

/// Reading one document in collection order; the unit of all costs.
pub(super) const SCANNED: f64 = 1.0;
/// Reading one entry of an index.
pub(super) const ENTRY: f64 = 0.5;
/// Reading the document of an entry.
pub(super) const FETCHED: f64 = 2.0;
/// Sorting one document.
pub(super) const SORTED: f64 = 0.5;
