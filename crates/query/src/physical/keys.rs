//! The record keys of matching documents, a batch at a time, for writes of many documents. Between
//! batches only a position is kept, so memory does not grow with the number of documents. Must not
//! know: what is done with the documents.

use super::reader::{Criteria, Reader, STEP_DOCS};
use crate::exec::MatchFilter;
use crate::plan::{Access, Plan};
use model::Result;
use operators::Env;
use std::sync::Arc;
use store::{Collection, ReadView};

/// Record keys in one buffer.
#[derive(Default)]
pub struct RecordKeys {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl RecordKeys {
    /// Number of keys.
    pub fn len(&self) -> usize {
        self.ends.len()
    }
    /// No keys.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
    /// The keys, in the order they were met.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        starts
            .zip(&self.ends)
            .map(|(start, end)| &self.bytes[start..*end])
    }
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
    fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }
}

/// See the head of this file.
pub struct MatchingKeys(Reader);

impl MatchingKeys {
    /// Opens a plan. A read by an index uses a snapshot, so that a document that a write moves
    /// forward in the index, or into another bucket, is not met again. Documents read by `_id` or
    /// in record order do not move.
    ///
    /// # Errors
    /// Engine failures.
    pub fn open(coll: &Arc<Collection>, plan: &Plan, env: &Env) -> Result<MatchingKeys> {
        let moves = matches!(
            plan.access,
            Access::Index { .. } | Access::Union { .. } | Access::Text { .. } | Access::Near(_)
        ) || plan.series.is_some();
        let view = if moves && !plan.view.is_fixed() {
            coll.snapshot()?
        } else {
            ReadView::clone(&plan.view)
        };
        Ok(MatchingKeys(Reader::open_in(coll, &view, plan, env)))
    }

    /// True when the keys are of this collection.
    pub fn is_of(&self, coll: &Arc<Collection>) -> bool {
        Arc::ptr_eq(self.0.collection(), coll)
    }

    /// Replaces the content of `keys` by those of the next matching documents, at most `max`.
    ///
    /// # Output
    /// False when there are no more.
    ///
    /// # Errors
    /// Those of the filter and the store; the operation's interrupt.
    pub fn next(
        &mut self,
        filter: &MatchFilter,
        env: &Env,
        max: usize,
        keys: &mut RecordKeys,
    ) -> Result<bool> {
        keys.clear();
        let wanted = Criteria {
            filter: Some(filter),
            env,
            vars: None,
        };
        let mut more = Ok(true);
        while matches!(more, Ok(true)) && keys.len() < max {
            more = self.0.step(&wanted, STEP_DOCS, |row| {
                keys.push(row.key);
                Ok(keys.len() < max)
            });
        }
        self.0.pause();
        more
    }
}
