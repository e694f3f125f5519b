//! The definition of a table and its rows.
//!
//! Must not know: how a target makes it.

use super::DocumentKind;

/// A table as the workload wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// The kind of its rows.
    pub kind: DocumentKind,
    /// Whether the target makes the ids.
    pub target_makes_ids: bool,
    /// Whether ids come in random order, so that a target must read before it knows that an id is
    /// new.
    pub ids_in_no_order: bool,
    /// Bytes of the pad or value of its rows.
    pub payload: u32,
    /// Its size limit in bytes, if it is capped.
    pub capped_bytes: Option<u64>,
}
