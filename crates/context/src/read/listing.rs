//! A cursor over a list of documents in memory, for listings.

use model::{ArrayWriter, DocBuf, Result};
use operation::Operation;
use state::cursors::{BatchLimit, Cursor, Progress};
use std::sync::Arc;

/// The documents that were not returned yet.
pub struct Listing {
    rest: std::vec::IntoIter<DocBuf>,
}

impl Listing {
    /// A cursor over these documents.
    pub fn new(documents: Vec<DocBuf>) -> Listing {
        Listing {
            rest: documents.into_iter(),
        }
    }
}

impl Cursor for Listing {
    fn next_batch(
        &mut self,
        limit: BatchLimit,
        _: &Arc<Operation>,
        out: &mut ArrayWriter<'_>,
    ) -> Result<Progress> {
        while let Some(next) = self.rest.as_slice().first() {
            let full = limit.documents.is_some_and(|n| out.len() >= n);
            let heavy = !out.is_empty() && out.len_bytes() + next.as_bytes().len() > limit.bytes;
            if full || heavy {
                return Ok(Progress::More);
            }
            out.push(next);
            self.rest.next();
        }
        Ok(Progress::Done)
    }
}
