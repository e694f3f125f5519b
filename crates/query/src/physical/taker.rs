//! The consumer of a read in parts. Must not know: where documents come from.

use model::{Doc, MongoError, Result};
use operators::columns::Column;
use std::ops::Range;

/// Consumes the documents of a read in parts.
pub(super) trait Consumer: Send {
    /// Takes one document; false when no taker of the read needs more.
    ///
    /// # Errors
    /// Its own.
    fn take(&mut self, doc: Doc<'_>) -> Result<bool>;

    /// Takes the values of documents in these rows, one column for each path in order; `None` for a
    /// path without values. Called only if [`Consumer::filters`] or if every document is wanted.
    ///
    /// # Errors
    /// As [`Consumer::take`].
    fn take_rows(&mut self, _: &[Option<Column>], _: Range<usize>) -> Result<bool> {
        Err(MongoError::internal("this read wants documents"))
    }

    /// Called at the end of a part; false as with [`Consumer::take`].
    ///
    /// # Errors
    /// Its own.
    fn settle(&mut self) -> Result<bool>;

    /// Called before each step.
    ///
    /// # Errors
    /// Its own.
    fn begin_step(&mut self) -> Result<()> {
        Ok(())
    }

    /// The taker applies the filter itself and gets all documents.
    fn filters(&self) -> bool {
        false
    }
}

/// How a step ended.
pub(super) enum StepOutcome {
    /// There may be more.
    More,
    /// All was read.
    End,
    /// No more is wanted.
    Stop,
}
