//! The keys of matching documents, a batch at a time, for writes of many documents: between batches
//! only a position is kept, so their number is bounded by nothing but the collection. Must not
//! know: what is done with the documents.

use super::access::{Access, Plan};
use super::scan::PlanScan;
use crate::examined::Meter;
use crate::exec::MatchFilter;
use model::{Bump, Result};
use operators::Env;
use std::sync::Arc;
use store::{Collection, ReadView};

/// Documents examined between two looks at the clock.
const STEP_DOCS: usize = 1024;

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
pub struct MatchingKeys {
    coll: Arc<Collection>,
    scan: PlanScan,
    meter: Meter,
    complete: bool,
}

impl MatchingKeys {
    /// Opens a plan. When it reads an index, the state of now is fixed: a document that a write
    /// moves forward in the index, or from one bucket to another, is not met again. Documents read
    /// by `_id` or as they lie do not move.
    ///
    /// # Errors
    /// Engine failures.
    pub fn open(coll: &Arc<Collection>, plan: &Plan) -> Result<MatchingKeys> {
        let moves = matches!(
            plan.access,
            Access::Index { .. } | Access::Union { .. } | Access::Text { .. } | Access::Near(_)
        ) || plan.series.is_some();
        let view = if moves && !plan.view.is_fixed() {
            coll.snapshot()?
        } else {
            ReadView::clone(&plan.view)
        };
        Ok(MatchingKeys {
            coll: coll.clone(),
            scan: PlanScan::open(coll, &view, plan),
            meter: Meter::default(),
            complete: plan.complete,
        })
    }

    /// True when the keys are of this collection.
    pub fn is_of(&self, coll: &Arc<Collection>) -> bool {
        Arc::ptr_eq(&self.coll, coll)
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
        let (mut arena, mut failed, mut more) = (Bump::new(), None, true);
        while more && keys.len() < max {
            env.check_interrupt()?;
            let (complete, mut docs) = (self.complete, 0);
            let each = &mut |row: store::Row<'_>| {
                docs += 1;
                arena.reset();
                match complete || filter.filter.is_always_true() {
                    true => keys.push(row.key),
                    false => match filter.filter.matches(row.doc, &arena, env) {
                        Ok(true) => keys.push(row.key),
                        Ok(false) => {}
                        Err(e) => failed = Some(e),
                    },
                }
                failed.is_none() && keys.len() < max
            };
            let visited = self.scan.visit(&self.coll, env, STEP_DOCS, each);
            self.meter.step(docs, self.scan.keys_examined());
            more = visited?;
            if let Some(e) = failed.take() {
                return Err(e);
            }
        }
        self.scan.pause();
        Ok(more)
    }
}
