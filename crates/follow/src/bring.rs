//! Copies everything into the target: collections, documents, indexes. If repeated it does what is
//! left. Must not know: changes.

use crate::align::{AlignResult, Aligner};
use crate::copy::Copier;
use crate::error::{FollowError, Result};
use crate::indexes;
use crate::state::Entry;

/// How often names may change during a copy before it fails.
const ROUNDS: usize = 100;

/// Copies collections, documents and indexes.
#[derive(Clone)]
pub(crate) struct InitialSync {
    pub(crate) copier: Copier,
}

impl Aligner {
    /// Aligns the indexes of a collection and notes it in the state.
    pub(crate) async fn align_indexes(&self, entry: &mut Entry) -> Result<()> {
        let changed = indexes::align(&self.source, &self.target, entry).await?;
        if changed || !entry.indexed {
            entry.indexed = true;
            self.state.put_entry(entry).await?;
        }
        Ok(())
    }
}

impl InitialSync {
    /// Repeats until everything that the source has is in the target, as it was at some time from
    /// `AlignResult::time` on.
    pub(crate) async fn run(&self) -> Result<AlignResult> {
        for _ in 0..ROUNDS {
            let mut aligned = self.copier.aligner.align().await?;
            if !self.copier.copy(&mut aligned.entries).await? {
                continue;
            }
            for entry in aligned.entries.iter_mut().filter(|e| !e.indexed) {
                self.copier.aligner.align_indexes(entry).await?;
            }
            return Ok(aligned);
        }
        Err(FollowError::of_network(
            "the names of the source's collections change faster than they can be copied",
        ))
    }
}
