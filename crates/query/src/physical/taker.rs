//! What is done with the documents of a read in parts. Must not know: where they come from.

use model::{Doc, MongoError, Result};
use operators::columns::Column;
use std::ops::Range;

/// What is done with the documents that match.
pub(super) trait Taker: Send {
    /// Takes one more; false when no more are wanted by any taker.
    ///
    /// # Errors
    /// Its own.
    fn take(&mut self, doc: Doc<'_>) -> Result<bool>;

    /// Takes values of documents in these rows, in the order of the paths that it takes out; none
    /// where there is none. Only asked of what [`Taker::filters`], or wants all documents.
    ///
    /// # Errors
    /// As [`Taker::take`].
    fn take_rows(&mut self, _: &[Option<Column>], _: Range<usize>) -> Result<bool> {
        Err(MongoError::internal("this read wants documents"))
    }

    /// A part has come to its end; false as with [`Taker::take`].
    ///
    /// # Errors
    /// Its own.
    fn settle(&mut self) -> Result<bool>;

    /// Called before some more documents are shown.
    ///
    /// # Errors
    /// Its own.
    fn begin_step(&mut self) -> Result<()> {
        Ok(())
    }

    /// It looks for what matches itself, among all documents.
    fn filters(&self) -> bool {
        false
    }
}

/// How a step ended.
pub(super) enum Step {
    /// There may be more.
    More,
    /// All was read.
    End,
    /// No more is wanted.
    Stop,
}
