//! Brings everything there is into the target: collections, documents, indexes. Done again it does
//! what is left. Must not know: changes.

use crate::align::{Aligned, Aligner};
use crate::copy::Copier;
use crate::error::{FollowError, Result};
use crate::indexes;
use crate::state::Entry;

/// How often names may change during a copy before it is begun again.
const ROUNDS: usize = 100;

/// Brings.
#[derive(Clone)]
pub(crate) struct Bringer {
    pub(crate) copier: Copier,
}

impl Aligner {
    /// Brings the indexes of a collection in line and notes it.
    pub(crate) async fn align_indexes(&self, entry: &mut Entry) -> Result<()> {
        let changed = indexes::align(&self.source, &self.target, entry).await?;
        if changed || !entry.indexed {
            entry.indexed = true;
            self.state.put_entry(entry).await?;
        }
        Ok(())
    }
}

impl Bringer {
    /// Until all that the source has is there as it was at some time from `Aligned::time` on.
    pub(crate) async fn bring(&self) -> Result<Aligned> {
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
