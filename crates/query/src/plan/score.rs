//! What makes one access path better than another, in points. There are no statistics: paths are
//! compared by what the filter and the order tell.

/// Each field that is fixed to single values, from the first of the index on. More than [`RANGE`]
/// and [`ORDER`] together: the longer prefix wins whatever follows it.
pub(super) const EQUALITY_FIELD: u32 = 100;
/// A range of the field behind that prefix. More than [`ORDER`]: it saves reading, an order saves
/// only sorting what was read.
pub(super) const RANGE: u32 = 40;
/// The index gives the wanted order.
pub(super) const ORDER: u32 = 30;
/// Every field of a unique index is fixed: one document for each point. More than the longest
/// prefixes in use can gather.
pub(super) const UNIQUE: u32 = 500;
/// Single values of `_id`: one read for each document and no index entry. More than [`UNIQUE`] with
/// up to four fields.
pub(super) const ID_POINTS: u32 = 1000;
/// A range of `_id`: better than a range of an index, behind which documents must be fetched; not
/// better than one that has the order, too.
pub(super) const ID_RANGE: u32 = 60;
/// Added when the range has the wanted order: better than any range of an index.
pub(super) const ID_RANGE_ORDER: u32 = 20;
/// All documents in the order of `_id`: better than sorting, worse than any bounds.
pub(super) const ID_ORDER: u32 = 2;
