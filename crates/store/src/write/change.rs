//! What a statement does with a document. Must not know: how it is written.

use crate::format::diff::ChangedPaths;
use model::{Doc, Result};
use std::sync::Arc;
use storage::CommitPos;

/// What to do with a document that was just read under its lock.
pub enum Change {
    /// Leave it as it is.
    Keep,
    /// Store these bytes instead; they have the same `_id`.
    Replace(Vec<u8>),
    /// As `Replace`, but the log records only the differences, which are searched for in the
    /// touched paths.
    Update(Vec<u8>, Arc<ChangedPaths>),
    /// Remove it.
    Delete,
}

/// The outcome of a modification.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ModifyOutcome {
    /// There is no such document.
    Absent,
    /// The document was left as it was.
    Kept,
    /// Replaced by the commit at this position.
    Replaced(CommitPos),
    /// Removed by the commit at this position.
    Deleted(CommitPos),
}

/// Decides what to do with a document; gets the number of its key. Called again for a document that
/// another writer has changed meanwhile.
pub type DecideFn<'d> = dyn FnMut(usize, Doc<'_>) -> Result<Change> + 'd;
