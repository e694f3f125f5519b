//! What becomes of a document that a statement meets. Must not know: how it is written.

use crate::format::diff::Touched;
use model::{Doc, Result};
use std::sync::Arc;
use storage::CommitPos;

/// What to do with a document that was just read under its lock.
pub enum Change {
    /// Nothing.
    Keep,
    /// Store these bytes instead; the `_id` is the same.
    Replace(Vec<u8>),
    /// The same, where the log tells what changed; that is looked for only where said.
    Update(Vec<u8>, Arc<Touched>),
    /// Remove it.
    Delete,
}

/// The outcome of a modification.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Modified {
    /// There is no such document.
    Absent,
    /// Left as it was.
    Kept,
    /// Replaced.
    Replaced(CommitPos),
    /// Removed.
    Deleted(CommitPos),
}

/// Decides on the document of a key, by its number; called again when another writer came in
/// between.
pub type Decide<'d> = dyn FnMut(usize, Doc<'_>) -> Result<Change> + 'd;
