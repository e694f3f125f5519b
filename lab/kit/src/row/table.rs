//! What a table is to be like, and so its rows.
//!
//! Must not know: how a target makes it.

use super::DocumentKind;

/// A table as the workload wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// What its rows look like.
    pub kind: DocumentKind,
    /// Whether the target makes the ids.
    pub target_makes_ids: bool,
    /// Whether ids come in no order: then a target must look before it can say that one is new.
    pub ids_in_no_order: bool,
    /// Bytes of the pad or value of its rows.
    pub payload: u32,
    /// Its bound, if it is capped.
    pub capped_bytes: Option<u64>,
}
