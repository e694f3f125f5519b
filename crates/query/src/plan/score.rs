//! The points by which access paths are compared. They use no statistics, only the filter and the
//! order.

/// Each leading field of the index that is fixed to single values. More than [`RANGE`] and
/// [`ORDER`] together: the longer prefix wins whatever follows it.
pub(super) const EQUALITY_FIELD: u32 = 100;
/// A range of the field after that prefix. More than [`ORDER`]: a range saves reading, an order
/// saves only sorting the documents read.
pub(super) const RANGE: u32 = 40;
/// The index gives the wanted order.
pub(super) const ORDER: u32 = 30;
/// Every field of a unique index is fixed: one document for each point. More than the points of the
/// longest usual prefixes.
pub(super) const UNIQUE: u32 = 500;
/// Single values of `_id`: one read for each document and no index entry. More than [`UNIQUE`] with
/// up to four fields.
pub(super) const ID_POINTS: u32 = 1000;
/// A range of `_id`: better than a range of an index, which needs another read for each document;
/// not better than a range that also gives the order.
pub(super) const ID_RANGE: u32 = 60;
/// Added if the range of `_id` gives the wanted order: then it is better than any range of an
/// index.
pub(super) const ID_RANGE_ORDER: u32 = 20;
/// All documents in the order of `_id`: better than sorting, worse than any bounds.
pub(super) const ID_ORDER: u32 = 2;
